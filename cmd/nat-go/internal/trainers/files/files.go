package files

import (
	"context"
	"fmt"
	"os"
	"sort"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/trainers"
)

// Type is the adapter's `_type`.
const Type = "files_trainer_adapter"

// Backend is the service's name in the adapter's job references.
const Backend = "files"

// config is the adapter's config. The adapter ignores its values.
type config struct {
	Reward *trainers.Reward `yaml:"reward" doc:"NAT's reward function; not read"`
}

// Factory returns the factory for the adapter.
func Factory() trainers.Factory {
	return trainers.Factory{
		Type: Type, Doc: "the data set in the run folder is the result; nothing is trained",
		New:    func() any { return &config{} },
		Open:   func(any, trainers.Env) (trainers.Adapter, error) { return Adapter{}, nil },
		Limits: func(any) trainers.Limits { return trainers.Limits{} },
	}
}

// Adapter leaves the data set in the run folder and doesn't start any training.
type Adapter struct{}

// Check does nothing.
func (Adapter) Check(context.Context) error { return nil }

// Submit checks that the data set's files exist.
func (Adapter) Submit(_ context.Context, data trainers.DataSet, key string) (trainers.JobRef, error) {
	for _, path := range paths(data) {
		if _, err := os.Stat(data.Path(path)); err != nil {
			return trainers.JobRef{}, trainers.LocalError("use the data set of run "+data.RunID,
				"the run folder is not complete: start a new run", err)
		}
	}
	return trainers.JobRef{RunID: data.RunID, Backend: Backend, ID: key}, nil
}

// paths lists the files and folders that a data set names, sorted.
func paths(data trainers.DataSet) []string {
	var out []string
	for _, f := range data.Formats {
		out = append(out, f.Dir)
		for _, file := range f.Files {
			out = append(out, file.Path)
		}
	}
	if data.Batches != "" {
		out = append(out, data.Batches)
	}
	sort.Strings(out)
	return out
}

// Status reports that the job is completed. It returns an error for a job of another backend.
func (Adapter) Status(_ context.Context, job trainers.JobRef) (trainers.JobStatus, error) {
	if job.Backend != Backend {
		err := fmt.Errorf("job of run %s belongs to backend %q, not to %q", job.RunID, job.Backend, Backend)
		return trainers.JobStatus{}, err
	}
	return trainers.JobStatus{
		State: trainers.Completed, Progress: new(100.0), Message: "the data set is in the run folder",
	}, nil
}

// Cancel does nothing.
func (Adapter) Cancel(context.Context, trainers.JobRef) error { return nil }
