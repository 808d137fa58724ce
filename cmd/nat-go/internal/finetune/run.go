package finetune

import (
	"cmp"
	"context"
	"errors"
	"os"
	"slices"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/shards"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage/decide"
)

// Run carries out a request. If it fails, it returns an error with an exit code, together with a summary of the work
// done so far.
func Run(ctx context.Context, req Request, env stage.Env) (*Summary, error) {
	if req.Plan {
		return predict(ctx, req, env)
	}
	p, err := open(ctx, req, env)
	if p == nil {
		p = &plan{Request: req}
	}
	defer p.lock.Close()
	if err != nil {
		return Failed(p.Request, err)
	}
	sum, err := newRun(p, env).end(ctx)
	if err != nil && p.joined != nil && !runfolder.Has(p.folder.Manifest()) {
		if !sum.NotStarted {
			if gone := os.RemoveAll(string(p.folder)); gone != nil {
				return sum, errors.Join(err, gone)
			}
		}
		sum.RunDir, sum.DatasetDir, sum.Next = "", "", ""
	}
	return sum, err
}

// open makes the plan for a request. The plan may hold the lock of an existing folder, even if open returns an error.
func open(ctx context.Context, req Request, env stage.Env) (*plan, error) {
	switch {
	case req.Resume != "":
		return openBegun(ctx, req, env)
	case req.Join != nil:
		return openJoin(ctx, req, env)
	case req.Divide != nil:
		return openDivision(ctx, req, env)
	case req.Shard != nil:
		return openShard(ctx, req.Shard, env)
	case req.Merge != "":
		return openMerge(ctx, req, env)
	}
	return newPlan(ctx, req, env)
}

// predict executes the run in a temporary folder, to get the counts that the real run would have.
func predict(ctx context.Context, req Request, env stage.Env) (*Summary, error) {
	dir, err := os.MkdirTemp("", "nat-go-plan-")
	if err != nil {
		return Failed(req, exit.Environmentf("cannot make a folder to plan in: %w", err))
	}
	defer os.RemoveAll(dir)
	req.Plan, req.planning, req.DryRun, req.OutputDir, req.Metrics = false, true, true, dir, ""
	sum, err := Run(ctx, req, env)
	if sum.DatasetDir != "" {
		sum.RunDir, sum.DatasetDir = "(planned)", "(planned)"
		sum.Next = "nothing was written or submitted (--plan)"
	}
	return sum, err
}

// stages returns the stages of the run, in order.
func (r *run) stages() []step {
	ahead := func(ctx context.Context) error {
		if r.begun == nil { // it isn't known yet where a resumed run continues
			r.in.Ahead(ctx)
		}
		return nil
	}
	benchmarks := func(ctx context.Context) (err error) {
		r.benchmarks, err = decide.ReadBenchmarks(ctx, r.config.Dataset.Contamination)
		return err
	}
	collect := func(ctx context.Context) error { return r.in.Collect(ctx, r.Account, r.folder) }
	open := []step{r.find, r.openTokens, benchmarks, r.openFolder, r.listDrops}
	dataSet := []step{r.write, r.collate, r.account}
	build := []step{r.plugins.Open, collect, r.build, r.curate}
	shard := []step{r.checkSealed, r.lockShard, r.checkSealed, r.openTokens}
	read := []step{r.listDrops, r.find}
	switch {
	case r.sealed != nil:
		return []step{r.submit}
	case r.Divide != nil:
		return []step{r.plugins.Start, r.find, r.openTokens, r.plugins.Open, r.divide}
	case r.Shard != nil && r.Shard.Stage == shards.Write:
		return append(shard, r.writeShard)
	case r.Shard != nil && r.Shard.Stage == shards.Build && r.parts.Plan.Tasks:
		return slices.Concat(shard, read, []step{r.store, r.finishShard})
	case r.Shard != nil:
		return slices.Concat(shard, read, []step{r.plugins.Start, r.plugins.Open, r.build, r.prepare, r.finishShard})
	case r.joined != nil:
		return slices.Concat(open, []step{r.joinRuns, r.curate}, dataSet)
	case r.LeaveWriting:
		return slices.Concat([]step{r.skipIfLeft}, open, []step{r.joinShards, r.leaveWriting})
	case r.Merge != "":
		return slices.Concat(open, []step{r.joinShards}, dataSet, []step{r.train})
	}
	return slices.Concat([]step{r.plugins.Start, r.find, ahead}, open[1:], build, dataSet, []step{r.train})
}

// work runs the stages, and closes everything that they leave open.
func (r *run) work(ctx context.Context) error {
	defer func() {
		r.tokens.Close()
		r.in.Close()
		r.parts.Close()
		if r.built != nil && r.built.Index != nil {
			r.built.Index.Close()
		}
		r.plugins.Close()
		r.plugins.Wait() // wait: a plugin that starts has a deadline
	}()
	for _, do := range r.stages() {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := do(ctx); errors.Is(err, errSealed) {
			return nil
		} else if err != nil {
			return err
		}
	}
	return nil
}

// end runs the stages and returns a summary of how the run ended, even if it failed.
func (r *run) end(ctx context.Context) (*Summary, error) {
	err := r.work(ctx)
	if err == nil {
		err = r.publish(ctx)
	}
	r.Abort()
	r.count()
	if err != nil {
		err = r.explain(err)
		r.sum.Error = r.Hide(err.Error())
		if r.sum.Job == nil { // if there is a job, the status is the job's
			r.sum.Status = runfolder.Failed
		}
	}
	r.unlock()
	merr := r.writeMetrics(r.Metrics)
	if err != nil && merr != nil {
		r.Warn("%v", merr)
	}
	r.sum.Warnings = r.Warnings
	return r.sum, cmp.Or(err, merr)
}
