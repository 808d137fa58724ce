package finetune

import (
	"context"
	"errors"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/curate"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/dataset"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/ttc/ledger"
	"github.com/nat-go/nat-go/ttc/source"
)

// Run makes a data set of a run's output and hands it to a trainer. The summary is returned with an error too, as far as
// the run came; the error carries the exit code.
func Run(ctx context.Context, req Request, env Env) (*Summary, error) {
	p, err := newPlan(req, env)
	if err != nil {
		return failed(req, err)
	}
	return execute(ctx, p, env)
}

func execute(ctx context.Context, p *plan, env Env) (*Summary, error) {
	r := &run{plan: p, env: env, book: ledger.NewBook(), sum: p.summary()}
	defer r.close()
	for _, step := range []func(context.Context) error{
		r.open,    // the run folder, the builders' processes
		r.build,   // examples -> records, in the log
		r.curate,  // records -> decisions
		r.write,   // decisions -> data set
		r.account, // the books, the manifest
		r.train,   // data set -> job
	} {
		if err := step(ctx); err != nil {
			return r.fail(err)
		}
	}
	return r.sum, nil
}

// run is the state that the steps of a run share.
type run struct {
	plan *plan
	env  Env
	book *ledger.Book
	sum  *Summary

	stages    []*stage // a builder each, in YAML order
	processes processes
	drops     *dropFile
	runs      []collected // NAT's view, one a collection run that gave records
	metrics   []builderMetrics
	seen      source.Stats
	inputs    []source.Input
	counters  map[string]map[string]int64 // by builder
	decisions *curate.Decisions
	written   []dataset.Written
}

func (r *run) close() {
	for _, s := range r.stages {
		s.close()
	}
	r.processes.close()
	if r.drops != nil {
		r.drops.file.Abort()
	}
}

// fail ends the run with an error, keeping what is known for the summary.
func (r *run) fail(err error) (*Summary, error) {
	if errors.Is(err, context.Canceled) {
		err = exit.With(exit.Interrupted, errors.New("interrupted; nothing was submitted"))
	}
	r.count()
	r.sum.Status, r.sum.Error = statusFailed, err.Error()
	return r.sum, err
}

// failed is the summary of a run that didn't start.
func failed(req Request, err error) (*Summary, error) {
	return &Summary{RunID: req.RunID, Status: statusFailed, Error: err.Error(), Counts: Counts{Dropped: map[ledger.Reason]int64{}}}, err
}

// NAT's words for how a run stands.
const (
	statusCompleted = "completed"
	statusFailed    = "failed"
)
