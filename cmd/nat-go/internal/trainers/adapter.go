package trainers

import (
	"context"
	"maps"
	"path/filepath"
	"time"

	"github.com/rs/zerolog"
)

// Adapter hands data sets to a trainer. Its methods may retry a request a few times, but leave longer retries to
// package jobs. Errors are of type *httpclient.Error if the adapter knows whether a retry would help.
type Adapter interface {
	// Check verifies, as far as possible without submitting a job, that the trainer is reachable, accepts the
	// credentials, and meets the job's prerequisites. Check creates missing prerequisites if the config requests this.
	Check(ctx context.Context) error
	// Submit hands over the data set and starts the job. The key is unique to this submission and the same on each
	// retry. The names of the data sets and uploads that Submit creates are derived from the key or taken from the
	// config, so that a retry overwrites them instead of creating more.
	Submit(ctx context.Context, data DataSet, idempotencyKey string) (JobRef, error)
	// Status requests the job's state.
	Status(ctx context.Context, job JobRef) (JobStatus, error)
	// Cancel requests that the job be ended. Cancelling a job that has ended is not an error.
	Cancel(ctx context.Context, job JobRef) error
}

// Finder is an adapter that can look for a submission's job if the response was lost because the submitting process
// died or the connection broke. For an adapter that isn't a Finder, submitting twice with the same key must have the
// same effect as submitting once.
type Finder interface {
	// Find returns the job submitted with the key, and whether it exists.
	Find(ctx context.Context, data DataSet, idempotencyKey string) (JobRef, bool, error)
}

// Starter is an adapter whose job is a program that it starts on this machine.
type Starter interface {
	// NeverBegan reports whether a job's program is known to have been killed before its first instruction, so that the
	// job doesn't exist.
	NeverBegan(JobRef) bool
}

// Addressed is an adapter that submits jobs to a service at a configurable address.
type Addressed interface {
	// Address identifies the service. It doesn't contain secrets.
	Address() string
}

// Deployer is an adapter that can deploy the model once training is complete.
type Deployer interface {
	// Deploy starts the deployment of a completed job and returns the reference with the data that StatusOfDeployment
	// needs. If the config doesn't enable deployment, it does nothing and returns false. Deploy is idempotent.
	Deploy(ctx context.Context, job JobRef) (ref JobRef, started bool, err error)
	// StatusOfDeployment requests the deployment's state. Completed means that the model responds.
	StatusOfDeployment(ctx context.Context, job JobRef) (JobStatus, error)
}

// Tailer is an adapter that can show the trainer's output.
type Tailer interface {
	// Tail returns a part of the output, starting at the given byte offset, and the offset at which the next part
	// starts. While the job runs, a part that is smaller than the adapter's maximum ends at the end of a line. The text
	// is empty if there isn't any new output.
	Tail(ctx context.Context, job JobRef, from int64) (text []byte, next int64, err error)
}

// Factory opens adapters of one type, which an entry in the trainer_adapters section selects with `_type`.
type Factory struct {
	Type string // value of `_type`
	Doc  string // one-line description
	// Format returns the row format that the adapter reads with this config. An empty format or a nil Format means any
	// format, or token batches.
	Format func(config any) string
	New    func() any // returns a pointer to a new config struct, which package schema fills in
	// Open makes an adapter from a filled config. It doesn't send requests, and reads only certificates and their key.
	Open func(config any, env Env) (Adapter, error)
	// Limits returns the timeouts and retry counts for this config.
	Limits func(config any) Limits
}

// Env holds an adapter's inputs in addition to its config.
type Env struct {
	RunDir   string // the run folder; adapters store files in runfolder.Folder.Trainer
	Log      zerolog.Logger
	Progress func(Progress) // called while Submit runs, from any goroutine; may be nil
}

// Report calls Progress, if it is set.
func (e Env) Report(p Progress) {
	if e.Progress != nil {
		e.Progress(p)
	}
}

// Progress describes the progress of one part of Submit.
type Progress struct {
	What  string // such as "upload training/training_file.jsonl"
	Done  int64
	Total int64  // 0 means unknown
	Unit  string // in the singular, such as "byte" or "group"
}

// Limits holds the timeouts and retry counts that package jobs uses for an adapter.
type Limits struct {
	Poll              time.Duration // pause between two status requests
	Local             bool          // whether status requests are cheap; if so, the first pauses are shorter than Poll
	StatusFailures    int           // number of consecutive Status failures after which waiting fails
	TrainingTimeout   time.Duration // time limit, counted from submission; 0 means no limit
	DeploymentTimeout time.Duration // time limit, counted from the start of the deployment; 0 means no limit
	CancelOnTimeout   bool          // whether to cancel the job when TrainingTimeout has passed
}

// DataSet is the committed data set of a run. Paths are relative to RunDir, so that the folder can be moved.
type DataSet struct {
	RunID   string
	RunDir  string
	Formats map[string]Format // keyed by row format, such as "customizer" or "trl"
	Batches string            // folder of token batches; empty means none were collated
}

// Format is the data set in one row format. It has one file for each combination of record kind and split side that has
// rows.
type Format struct {
	Dir   string // such as "dataset/trl"
	Files []File
}

// File is a file of rows.
type File struct {
	Path  string // such as "dataset/trl/train.jsonl"
	Kind  string // kind of record as printed by builders.Kind, such as "preference"
	Split string // Train or Validation
}

// The sides of a split.
const (
	Train      = "train"
	Validation = "validation"
)

// File returns the path of the file with records of the given kind on a side of the split, or "" if it doesn't exist.
func (f Format) File(kind, split string) string {
	for _, x := range f.Files {
		if x.Kind == kind && x.Split == split {
			return x.Path
		}
	}
	return ""
}

// Kinds returns the kinds of record that have rows on a side of the split, in file order.
func (f Format) Kinds(split string) (kinds []string) {
	for _, x := range f.Files {
		if x.Split == split {
			kinds = append(kinds, x.Kind)
		}
	}
	return kinds
}

// Path returns the file system path for a path in the data set.
func (d DataSet) Path(rel string) string { return filepath.Join(d.RunDir, filepath.FromSlash(rel)) }

// JobRef holds the data needed to find a job again. It doesn't contain secrets, because it is written to job.json.
type JobRef struct {
	RunID string `json:"run_id"`
	// name of the service, such as "nemo-customizer"; the same as in NAT if NAT supports the service
	Backend  string            `json:"backend"`
	ID       string            `json:"job_id"`             // the service's id for the job
	Metadata map[string]string `json:"metadata,omitempty"` // other data for the adapter, such as output_model
}

// With returns a copy of the reference with a metadata key set.
func (r JobRef) With(key, value string) JobRef {
	m := make(map[string]string, len(r.Metadata)+1)
	maps.Copy(m, r.Metadata)
	m[key] = value
	r.Metadata = m
	return r
}

// State is the state of a job, in NAT's terms.
type State string

// The states of a job.
const (
	Pending   State = "pending"
	Running   State = "running"
	Completed State = "completed"
	Failed    State = "failed"
	Canceled  State = "canceled"
)

// Terminal reports whether the state is final.
func (s State) Terminal() bool { return s == Completed || s == Failed || s == Canceled }

// JobStatus is a trainer's report on a job. Unreported fields are nil or zero.
type JobStatus struct {
	State    State    `json:"status"`
	Progress *float64 `json:"progress"` // percentage from 0 to 100; doesn't determine the state
	Message  string   `json:"message,omitempty"`
	Detail   string   `json:"detail,omitempty"` // reason given by the trainer, if any

	Step    int64    `json:"step,omitempty"`
	Steps   int64    `json:"steps,omitempty"` // total number of steps in the job
	Epoch   float64  `json:"epoch,omitempty"`
	Loss    *float64 `json:"loss,omitempty"`
	ValLoss *float64 `json:"val_loss,omitempty"`

	Metadata map[string]any `json:"metadata,omitempty"`
}
