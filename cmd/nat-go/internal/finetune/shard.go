package finetune

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/recordlog"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/shards"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage/decide"
	"github.com/nat-go/nat-go/internal/durable"
	"github.com/nat-go/nat-go/plugins/host"
	"github.com/nat-go/nat-go/ttc/group"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// openPlan reads the plan in dir and returns the run that the plan divides into shards.
func openPlan(ctx context.Context, dir shards.Folder, env stage.Env) (*plan, error) {
	parts, err := dir.Open()
	if err != nil {
		return nil, err
	}
	of := parts.Plan
	if of.NatGo != Version() {
		return nil, exit.Failedf("plan was made by nat-go %s; this is nat-go %s, and a data set is never "+
			"made by two versions: make a new plan, or run its shards with the version that made it", of.NatGo,
			Version())
	}
	var req Request
	if err := json.Unmarshal(of.Request, &req); err != nil {
		return nil, exit.Failedf("%s: %w", dir.Plan(), err)
	}
	config, err := durable.Open(dir.Config()) // unlike other configurations, a plan's can't be a pipe
	if err != nil {
		return nil, exit.Environmentf("cannot read the plan: %w", err)
	}
	config.Close()
	req.RunID, req.ConfigFile, req.Builders, req.Overrides = of.RunID, dir.Config(), nil, nil
	p, err := newPlan(ctx, req, env)
	if err == nil {
		p.divided = parts
	}
	return p, err
}

// openShard returns the plan for one stage of a shard. The stage is run in its own folder, or continued where an
// earlier attempt stopped.
func openShard(ctx context.Context, of *Shard, env stage.Env) (*plan, error) {
	p, err := openPlan(ctx, of.Plan, env)
	if err != nil {
		return nil, err
	}
	s := &shard{Parts: p.divided, stage: of.Stage, number: of.Number}
	err = cmp.Or(shards.InPlan(s.number, len(s.Plan.Shards), "--index"), s.Plan.CheckStage(s.stage))
	if err != nil {
		return p, exit.With(exit.Usage, err)
	}
	if s.of, err = s.Dir.Part(s.Plan, s.number); err != nil {
		return p, err
	}
	stage := ""
	if s.stage != shards.Build {
		stage = " --stage " + string(s.stage)
	}
	p.command = fmt.Sprintf("shard run %s%s --index %d", s.Dir, stage, s.number)
	s.run, p.shard, p.folder = p.folder, s, s.Dir.Shard(s.stage, s.number)
	if runfolder.Has(s.Dir.Cut().Records()) { // this folder is a copy of a plan in object storage
		s.run = s.Dir.Cut()
	}
	return p, nil
}

// sharding provides the stages of a run that makes a shard.
type sharding struct{ run *run }

// stages returns the stages of the run, in order. They depend on the shard's stage.
func (r sharding) stages() []step {
	open := []step{r.checkSealed, r.lockShard, r.checkSealed, r.run.openTokens}
	read := []step{r.run.listDrops, r.run.find}
	switch s := r.run.plan.shard; {
	case s.stage == shards.Write:
		return append(open, r.writeShard)
	case s.stores():
		return slices.Concat(open, read, []step{r.store, r.finishShard})
	}
	build := []step{r.run.plugins.Start, r.run.plugins.Open, r.run.build, r.prepare, r.finishShard}
	return slices.Concat(open, read, build)
}

// checkSealed ends the run if this stage of the shard is already done. It returns a different error if one of its files
// is missing or has a different size.
func (r sharding) checkSealed(context.Context) error {
	s := r.run.plan.shard
	d, err := s.Dir.ReadDone(s.Plan, s.stage, s.number)
	if err != nil {
		return exit.With(exit.Failed, err)
	}
	if d == nil {
		return nil
	}
	r.run.out.sum.Status = runfolder.Completed
	r.run.out.Warnings = append(r.run.out.Warnings, AlreadyBuilt(s.stage))
	for _, f := range d.Files {
		path := filepath.Join(string(r.run.plan.folder), filepath.FromSlash(f.Path))
		if info, err := os.Stat(path); err != nil || info.Size() != f.Bytes {
			return exit.Failedf("%s differs from the file that shard %d wrote: remove %s and rerun the shard",
				path, d.Shard, r.run.plan.folder)
		}
	}
	if s.stage == shards.Write {
		x, err := shards.ReadOutput(r.run.plan.folder, d)
		if err != nil {
			return err
		}
		r.run.out.sum.Share = shareOf(x)
	}
	stage.AddAccounts(r.run.out.Book, d.Books)
	for _, a := range d.Books {
		for reason, n := range a.Dropped {
			r.run.out.Book.Drop(ledger.Drop{Stage: a.Stage, Unit: a.Unit, Reason: reason, Count: n})
		}
	}
	return errSealed
}

// AlreadyBuilt returns the message for a stage that had nothing to do.
func AlreadyBuilt(stage shards.Stage) string {
	if stage == shards.Write {
		return "the shard has already written its share, so it was not written again"
	}
	return "the shard was already built, so it was not built again"
}

// store reads the shard's parts of the inputs, and stores the examples for stage Group. After an interruption, it
// starts again from the beginning, which only repeats the reading.
func (r sharding) store(ctx context.Context) (err error) {
	s := r.run.plan.shard
	if err := recordlog.Reset(r.run.plan.folder.Records()); err != nil {
		return exit.Environmentf("cannot start the record log: %w", err)
	}
	s.spill, err = group.NewSpill(host.NewExampleCodec(), s.Dir.Spill(s.number), len(s.Plan.Shards))
	if err != nil {
		return exit.Environmentf("cannot keep the examples: %w", err)
	}
	defer s.spill.Abort()
	if err := r.run.build(ctx); err != nil {
		return err
	}
	return exit.Cant("keep the examples", s.spill.Close())
}

// prepare makes the token rows of the shard's records.
func (r sharding) prepare(ctx context.Context) error {
	c := r.run.collation()
	if s := r.run.plan.shard; s.stage == shards.Group { // policies are counted when the examples are read
		c.Seen = s.Seen()
	}
	return c.Prepare(ctx)
}

// lockShard creates and locks the shard's folder. It returns an error if another process is working there.
func (r sharding) lockShard(context.Context) (err error) {
	folder := r.run.plan.folder
	if err := os.MkdirAll(folder.Records(), 0o755); err != nil {
		return exit.Environmentf("cannot make the folder of the shard: %w", err)
	}
	if r.run.lock, err = folder.Lock(r.run.plan.commandToContinue()); err != nil {
		return exit.With(exit.Environment, err)
	}
	return exit.Cant("clean up the folder of the shard", r.run.lock.Sweep())
}

// finishShard closes the account of a shard that was built, and writes its manifest.
func (r sharding) finishShard(ctx context.Context) error {
	if err := r.run.out.Close(); err != nil {
		return exit.Environmentf("cannot write the list of drops: %w", err)
	}
	c, err := r.run.out.knowLog(r.run.plan.folder)
	if err != nil {
		return err
	}
	return r.seal(ctx, &shards.Done{
		Seen: r.run.built.At.Seen, Groups: c.Groups, Records: c.Records, Books: r.run.out.Accounts(),
		Counters: r.run.out.Counters,
	})
}

// seal writes the shard's manifest, after all its other files.
func (r sharding) seal(ctx context.Context, d *shards.Done) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	s := r.run.plan.shard
	files, err := r.run.lock.Sums(r.run.out.Files)
	if err == nil {
		err = r.run.lock.Check()
	}
	if err == nil {
		d.NatGo, d.Plan, d.Stage, d.Shard, d.Files = Version(), s.Plan.Sum, s.stage, s.number, files
		err = shards.WriteDone(r.run.plan.folder, d)
	}
	if err != nil {
		return exit.Default(exit.Environment, fmt.Errorf("cannot write the manifest of the shard: %w", err))
	}
	r.run.out.sum.Status = runfolder.Completed
	return nil
}

// writeShard writes the shard's share of the data set.
func (r sharding) writeShard(ctx context.Context) error {
	s := r.run.plan.shard
	cut, err := s.Dir.ReadCut(s.Plan)
	if err != nil {
		return err
	}
	if cut == nil {
		return exit.Environmentf("the data set is not divided yet: `nat-go shard merge %s --leave-writing` divides "+
			"it, once all shards are built", s.Dir)
	}
	if r.run.decisions, err = s.Dir.Decisions(cut, s.run); err != nil {
		return err
	}
	if c := r.run.plan.config.Dataset.Contamination; c != nil {
		if _, r.run.plan.overlaps, err = decide.ReadOverlaps(s.run); err != nil {
			return err
		}
	}
	folder, made := r.run.plan.folder, &shards.Output{}
	err = cmp.Or(os.RemoveAll(folder.Dataset()), os.RemoveAll(folder.Batches())) // the output of an interrupted attempt
	if err == nil {
		made.Rows, err = r.run.writing(s.run).RunPart(ctx, cut.Ranges[s.number])
	}
	if err != nil {
		return exit.Default(exit.Environment, fmt.Errorf("cannot write the rows: %w", err))
	}
	if cut.Collated != nil {
		if made.Batches, err = r.run.collation().RunPart(ctx, s.number); err != nil {
			return exit.Default(exit.Environment, fmt.Errorf("cannot make the batches: %w", err))
		}
	}
	if err := made.Write(folder); err != nil {
		return err
	}
	r.run.out.sum.Share = shareOf(made)
	return r.seal(ctx, &shards.Done{})
}

// shareOf describes how much a shard wrote.
func shareOf(o *shards.Output) *Share {
	sum := &Share{Rows: o.Rows.Lines()}
	for _, n := range o.Batches {
		sum.Batches += n.Batches
	}
	return sum
}
