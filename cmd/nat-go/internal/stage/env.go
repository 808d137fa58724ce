package stage

import (
	"context"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"github.com/nat-go/nat-go/builders/finding"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/trainers/jobs"
	"github.com/nat-go/nat-go/internal/secret"
)

// Env holds the dependencies that the calling process provides to a run.
type Env struct {
	Log      zerolog.Logger
	Self     string                           // path of this program, which serves the built-in builders
	Now      func() time.Time                 // used for run ids, commit times and NAT's files, never for data
	Getenv   func(name string) (string, bool) // nil means the process's environment
	Findings func([]finding.Finding)          // called with findings about the configuration
	Leave    *jobs.Leave                      // the user's request to stop waiting for a job; may be nil
	Progress func(Progress)                   // called repeatedly with the progress of the run
	// Secrets receives every value that must never be shown or written; may be nil.
	Secrets *secret.Values
	Output  func([]byte) // called with a local trainer's output while the run waits for it

	Collating func() (done func()) // called before token batches are made, to tune the runtime; may be nil
	// Runs is the folder in which runs for object storage are made; empty means a folder in the user's cache.
	Runs        string
	CommitBytes int64 // number of uncommitted bytes in the record log that triggers a commit; 0 means the default
}

// Hide removes secrets from text that is shown or written.
func (e Env) Hide(text string) string {
	if e.Secrets != nil {
		text = e.Secrets.Redact(text)
	}
	return secret.Shape(text)
}

// UnitByte is the unit of progress for reading inputs.
const UnitByte = "byte"

// Progress describes the progress of one of the run's steps.
type Progress struct {
	Step  string // "build", "write", ...
	Done  int64
	Total int64 // 0 means unknown
	Unit  string
	Text  string // if not empty, shown instead of the numbers, as in "training: running, step 3 of 9, loss 0.69"

	Detail string // additional information for the user
}

// The units of accounts.
const (
	UnitRecord    = "record"
	UnitCandidate = "candidate"
	UnitExample   = "example"
	UnitSite      = "site"
	UnitRollout   = "rollout"
	UnitTurn      = "turn"
	UnitFile      = "file" // a whole input file; only the files that are not read are counted

	// UnitPair is the unit for drops of pairs that a builder didn't build. Such drops are listed, but not counted,
	// because the candidates or examples in the pairs are already counted.
	UnitPair = "pair"
)

// UnlessEnded calls work, which reads files to set up a run, and stops waiting for it when ctx is done, because reading
// a pipe may block. The work may be abandoned, because none of the data set has been written and the process is about
// to exit.
func UnlessEnded[T any](ctx context.Context, work func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		v, err := work()
		done <- result{v, err} // wait: the channel has room for one value
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		var none T
		return none, exit.With(exit.Interrupted, fmt.Errorf("interrupted before the run began: %w", ctx.Err()))
	}
}
