package jobs

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/trainers"
	"github.com/nat-go/nat-go/internal/durable"
	"github.com/nat-go/nat-go/internal/secret"
)

const (
	version  = 1
	maxBytes = 4 << 20
)

// Phase is the progress of a job.
type Phase string

// The phases of a job, in order.
const (
	Unsubmitted Phase = "unsubmitted" // the job certainly doesn't exist
	Submitting  Phase = "submitting"  // a submission is in progress, or its outcome is unknown
	Training    Phase = "training"    // the job exists
	Deploying   Phase = "deploying"   // training is complete; the model is being deployed
	Done        Phase = "done"        // the job, including its deployment, has ended
)

// Job is the state of a run's job. It is stored in job.json, and doesn't contain secrets.
type Job struct {
	Version int    `json:"version"`
	RunID   string `json:"run_id"`
	Adapter string `json:"adapter"`           // the adapter's `_type`
	Name    string `json:"name"`              // name of the entry in the config's trainer_adapters
	Key     string `json:"key"`               // idempotency key
	Address string `json:"address,omitempty"` // address of the service that the job was last submitted to

	Phase           Phase              `json:"phase"`
	Ref             *trainers.JobRef   `json:"job,omitempty"`
	Status          trainers.JobStatus `json:"status"` // last known status
	Error           string             `json:"error,omitempty"`
	CancelRequested bool               `json:"cancel_requested,omitempty"`

	IntentAt    time.Time `json:"intent_at,omitzero"`
	SubmittedAt time.Time `json:"submitted_at,omitzero"`
	DeployingAt time.Time `json:"deploying_at,omitzero"`
	UpdatedAt   time.Time `json:"updated_at,omitzero"`
}

// State returns the state of the job as a whole, in NAT's terms. A job whose model is still being deployed is running.
func (j *Job) State() trainers.State {
	switch {
	case j.Phase == Deploying:
		return trainers.Running
	case j.Ref == nil && j.Phase != Done:
		return trainers.Pending
	}
	return j.Status.State
}

// Load reads the job from a run folder. The error is fs.ErrNotExist if there isn't one.
func Load(dir runfolder.Folder) (*Job, error) {
	path := dir.Job()
	b, err := durable.ReadFile(path, maxBytes)
	if err != nil {
		return nil, err
	}
	j := new(Job)
	if err := json.Unmarshal(b, j); err != nil {
		return nil, exit.Environmentf("invalid job journal %s: %w", path, err)
	}
	if j.Version != version {
		return nil, exit.Environmentf("%s has version %d; this nat-go supports %d: use the nat-go that wrote it", path, j.Version, version)
	}
	return j, nil
}

// save replaces the journal so that a crash leaves either the old one or the new one.
func (j *Job) save(dir runfolder.Folder) error {
	j.Version, j.UpdatedAt = version, time.Now().UTC()
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(j); err != nil {
		return err
	}
	if err := durable.WriteFile(dir.Job(), b.Bytes()); err != nil {
		return exit.Environmentf("cannot write the job journal: %w", err)
	}
	return nil
}

func (c *Client) redact(s string) string {
	if c.Secrets != nil {
		s = c.Secrets.Redact(s)
	}
	return secret.Shape(s)
}

// Entry describes a run in the result of List.
type Entry struct {
	Dir    string `json:"run_dir"`
	RunID  string `json:"run_id"`
	Status string `json:"status"`        // state of the run's data set, as returned by runfolder.Folder.State
	Job    *Job   `json:"job,omitempty"` // nil means that the run has no job or the job can't be read
	Error  string `json:"error,omitempty"`
}

// List lists the runs below the given folders, sorted by name, with their jobs. The folders need not exist.
func List(roots ...string) ([]Entry, error) {
	folders, err := runfolder.List(roots...)
	if err != nil {
		return nil, err
	}
	var list []Entry
	for _, dir := range folders {
		e := Entry{Dir: string(dir), RunID: filepath.Base(string(dir)), Status: dir.State()}
		job, err := Load(dir)
		switch {
		case err == nil:
			e.Job, e.RunID = job, job.RunID
		case !errors.Is(err, fs.ErrNotExist):
			e.Error = err.Error()
		}
		list = append(list, e)
	}
	return list, nil
}
