package finetune

import (
	"context"
	"errors"
	"os"
	"sync"
	"syscall"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/curate"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/recordlog"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/collator"
	"github.com/nat-go/nat-go/collator/tokenizer"
	"github.com/nat-go/nat-go/ttc/ledger"
	"github.com/nat-go/nat-go/ttc/source"
)

// Run makes a data set of a run's output and hands it to a trainer. The summary is returned with an error too, as far as
// the run came; the error carries the exit code.
func Run(ctx context.Context, req Request, env Env) (*Summary, error) {
	p, err := newPlan(req, env)
	if err != nil {
		return Failed(req, err)
	}
	sum, err := execute(ctx, p, env, nil, p.findInputs)
	if sum == nil {
		return Failed(req, err)
	}
	return sum, err
}

// execute finds the inputs and makes the steps of a run; without inputs there is no summary. lock is that of a run folder
// that is there already.
func execute(ctx context.Context, p *plan, env Env, lock *os.File, findInputs func() error) (*Summary, error) {
	r := newRun(p, env)
	r.lock = lock
	defer r.close()
	var err error
	if r.processes, err = startProcesses(ctx, p, env); err == nil {
		err = findInputs()
	}
	if err != nil {
		return nil, err
	}
	r.readAhead(ctx)
	for _, step := range []func(context.Context) error{
		r.open,    // the run folder, the builders
		r.collect, // agent runs, where the source makes them
		r.build,   // examples -> records, in the log
		r.curate,  // records -> decisions
		r.write,   // decisions -> data set
		r.collate, // decisions -> token batches, with a tokenizer
		r.account, // the books, the manifest
		r.train,   // data set -> job
	} {
		err := step(ctx)
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return r.fail(err)
		}
	}
	return r.sum, r.writeMetrics()
}

func newRun(p *plan, env Env) *run {
	return &run{plan: p, env: env, book: ledger.NewBook(), sum: p.summary(), counters: map[string]map[string]int64{}}
}

// run is the state that the steps of a run share.
type run struct {
	plan *plan
	env  Env
	lock *os.File // the run folder, held against other processes
	book *ledger.Book
	sum  *Summary

	stages    []*stage // a builder each, in YAML order
	processes processes
	ahead     *reader        // of the first input, until it is taken
	ending    sync.WaitGroup // builders on their way out
	drops     *dropFile
	index     *curate.Index
	frame     *recordlog.Builder // of the group being logged
	expected  bool               // the index knows about how many records will come
	total     int64              // bytes of all inputs; 0: not known
	runs      []collected        // NAT's view, one a collection run that gave records
	metrics   []builderMetrics
	seen      source.Stats
	inputs    []source.Input
	counters  map[string]map[string]int64 // by builder
	decisions *curate.Decisions
	written   []runfolder.Written

	tokenizer *tokenizer.Tokenizer // nil: no batches are asked for
	collator  *collator.Collator
	batches   *runfolder.Batches
}

func (r *run) close() {
	if r.ahead != nil {
		r.ahead.close()
	}
	r.endBuilders()
	r.ending.Wait()
	if r.tokenizer != nil {
		r.tokenizer.Close()
	}
	if r.drops != nil {
		r.drops.file.Abort()
	}
	if r.index != nil {
		r.index.Close()
	}
	r.unlock()
}

// endBuilders ends the builders' sessions and processes, beside what comes next: they take their time to go. close waits.
func (r *run) endBuilders() {
	stages, started := r.stages, r.processes
	r.stages, r.processes = nil, processes{}
	r.ending.Go(func() {
		for _, s := range stages {
			s.close()
		}
		started.close()
	})
}

// unlock lets others at the run folder.
func (r *run) unlock() {
	if r.lock != nil {
		r.lock.Close()
		r.lock = nil
	}
}

// fail ends the run with an error, keeping what is known for the summary.
func (r *run) fail(err error) (*Summary, error) {
	again := "`nat-go finetune resume " + string(r.plan.folder) + "` goes on from here"
	switch {
	case errors.Is(err, context.Canceled) && r.sum.Job == nil:
		err = exit.With(exit.Interrupted, errors.New("interrupted; nothing was submitted"))
		if r.lock != nil {
			r.sum.Next = again
		}
	case errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT):
		err = exit.Environmentf("%w: make room on the disk of %s, then %s", err, r.plan.folder, again)
	}
	r.count()
	r.sum.Error = err.Error()
	if r.sum.Job == nil { // else the status is the job's
		r.sum.Status = runfolder.Failed
	}
	if merr := r.writeMetrics(); merr != nil {
		r.warn("%v", merr)
	}
	return r.sum, err
}

// Failed is the summary of a run that didn't start.
func Failed(req Request, err error) (*Summary, error) {
	return &Summary{RunID: req.RunID, Status: runfolder.Failed, Error: err.Error(), Counts: runfolder.Counts{Dropped: map[ledger.Reason]int64{}}}, err
}
