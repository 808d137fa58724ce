package finetune

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/recordlog"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/shards"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage/build"
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
		p.parts = parts
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
	dir, plan := p.parts.Dir, p.parts.Plan
	if err := cmp.Or(shards.InPlan(of.Number, len(plan.Shards), "--index"), plan.CheckStage(of.Stage)); err != nil {
		return p, exit.With(exit.Usage, err)
	}
	if p.share, err = dir.Part(plan, of.Number); err != nil {
		return p, err
	}
	stage := ""
	if of.Stage != shards.Build {
		stage = " --stage " + string(of.Stage)
	}
	p.command = fmt.Sprintf("shard run %s%s --index %d", dir, stage, of.Number)
	p.Shard, p.merged, p.folder = of, p.folder, dir.Shard(of.Stage, of.Number)
	if runfolder.Has(dir.Cut().Records()) { // this folder is a copy of a plan in object storage
		p.merged = dir.Cut()
	}
	return p, nil
}

// openMerge returns the plan of a run that is made from shards. The shards' logs are joined into the log that a single
// process would have written; the later stages are the same as in any other run. openMerge also continues an
// interrupted merge.
//
// With LeaveWriting, the merge divides the rows among the shards and leaves the writing to them. When the shards have
// written the rows, the next merge joins them.
func openMerge(ctx context.Context, how Request, env stage.Env) (*plan, error) {
	p, err := openPlan(ctx, how.Merge, env)
	if err != nil {
		return nil, err
	}
	dir := p.parts.Dir
	p.starts, p.command = "shard merge", "shard merge "+string(dir)
	p.Merge, p.LeaveWriting, p.DryRun, p.Detach = dir, how.LeaveWriting, p.DryRun || how.DryRun, how.Detach
	if err := p.parts.CheckComplete(); err != nil {
		return p, err
	}
	if err := p.resumeMerge(); err != nil {
		return p, err
	}
	if p.cut, err = p.parts.ReadCut(); err != nil || p.cut == nil {
		return p, err
	}
	p.outputs, err = p.parts.Outputs(p.LeaveWriting)
	return p, err
}

// resumeMerge locks the run folder of an interrupted merge to continue it. It returns an error if that merge was
// complete.
func (p *plan) resumeMerge() error {
	b, err := p.folder.ReadBegun()
	if errors.Is(err, fs.ErrNotExist) {
		return nil // whether the folder may be used is checked when it is created
	}
	if err != nil {
		return exit.With(exit.Environment, err)
	}
	if b.Decided == nil || b.Decided.Salt != p.parts.Plan.Decided.Salt {
		return exit.Usagef("another run is already in %s: move it away", p.folder)
	}
	switch _, err := p.folder.ReadManifest(); {
	case err == nil:
		return exit.Usagef("shards were already merged: %s is complete. `nat-go finetune resume %[1]s` hands "+
			"it to the trainer", p.folder)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if p.lock, err = p.folder.Lock(p.commandToContinue()); err != nil {
		return err
	}
	p.begun = b
	return exit.Cant("clean up the run folder", p.lock.Sweep())
}

// isDecided reports whether an earlier merge decided on the records and divided the rows.
func (p *plan) isDecided() bool { return p.cut != nil && runfolder.Has(p.folder.Decisions()) }

// groups reports whether this process builds records from the examples that shards stored.
func (p *plan) groups() bool { return p.Shard != nil && p.Shard.Stage == shards.Group }

// checkGroupable returns an error naming the shards that haven't stored their examples, if there are any.
func (p *plan) checkGroupable() error {
	missing, err := p.parts.Read(shards.Build)
	if err == nil && len(missing) > 0 {
		err = exit.Environmentf("tasks may have examples in all shards, and these shards have not been read yet: %s. "+
			"`nat-go shard run %s --index I` reads one", shards.Array(missing), p.parts.Dir)
	}
	return err
}

// checkSealed ends the run if this stage of the shard is already done. It returns a different error if one of its files
// is missing or has a different size.
func (r *run) checkSealed(context.Context) error {
	d, err := r.parts.ReadDone(r.Shard.Stage, r.Shard.Number)
	if err != nil || d == nil {
		return err
	}
	r.sum.Status = runfolder.Completed
	r.Warnings = append(r.Warnings, AlreadyBuilt(d.Stage))
	for _, f := range d.Files {
		if info, err := os.Stat(d.Path(f)); err != nil || info.Size() != f.Bytes {
			return exit.Failedf("%s differs from the file that shard %d wrote: remove %s and rerun the shard",
				d.Path(f), d.Shard, r.folder)
		}
	}
	if d.Stage == shards.Write {
		x, err := shards.ReadOutput(d)
		if err != nil {
			return err
		}
		r.sum.Share = shareOf(x)
	}
	stage.AddAccounts(r.Book, d.Books)
	for _, a := range d.Books {
		for reason, n := range a.Dropped {
			r.Book.Drop(ledger.Drop{Stage: a.Stage, Unit: a.Unit, Reason: reason, Count: n})
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

// lockShard creates and locks the shard's folder. It returns an error if another process is working there.
func (r *run) lockShard(context.Context) (err error) {
	folder := r.folder
	if err := os.MkdirAll(folder.Records(), 0o755); err != nil {
		return exit.Environmentf("cannot make the folder of the shard: %w", err)
	}
	if r.lock, err = folder.Lock(r.commandToContinue()); err != nil {
		return exit.With(exit.Environment, err)
	}
	return exit.Cant("clean up the folder of the shard", r.lock.Sweep())
}

// store reads the shard's parts of the inputs, and stores the examples for stage Group. After an interruption, it
// starts again from the beginning, which only repeats the reading.
func (r *run) store(ctx context.Context) (err error) {
	if err := recordlog.Reset(r.folder.Records()); err != nil {
		return exit.Environmentf("cannot start the record log: %w", err)
	}
	path := r.parts.Dir.Spill(r.Shard.Number)
	if r.spill, err = group.NewSpill(host.NewExampleCodec(), path, len(r.parts.Plan.Shards)); err != nil {
		return exit.Environmentf("cannot keep the examples: %w", err)
	}
	defer r.spill.Abort()
	if err := r.build(ctx); err != nil {
		return err
	}
	return exit.Cant("keep the examples", r.spill.Close())
}

// prepare makes the token rows of the shard's records.
func (r *run) prepare(ctx context.Context) error {
	c := r.collation()
	if r.groups() { // policies are counted when the examples are read
		c.Seen = r.parts.Seen()
	}
	return c.Prepare(ctx)
}

// finishShard closes the account of a shard that was built, and writes its manifest.
func (r *run) finishShard(ctx context.Context) error {
	c, err := r.closeLists()
	if err != nil {
		return err
	}
	return r.seal(ctx, &shards.Done{
		Seen: r.built.At.Seen, Groups: c.Groups, Records: c.Records, Books: r.Accounts(), Counters: r.Counters,
	})
}

// seal writes the shard's manifest, after all its other files.
func (r *run) seal(ctx context.Context, d *shards.Done) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	files, err := r.lock.Sums(r.Files)
	if err == nil {
		err = r.lock.Check()
	}
	if err == nil {
		d.NatGo, d.Plan, d.Stage, d.Shard, d.Files = Version(), r.parts.Plan.Sum, r.Shard.Stage, r.Shard.Number, files
		err = shards.WriteDone(r.folder, d)
	}
	if err != nil {
		return exit.Default(exit.Environment, fmt.Errorf("cannot write the manifest of the shard: %w", err))
	}
	r.sum.Status = runfolder.Completed
	return nil
}

// writeShard writes the shard's share of the data set.
func (r *run) writeShard(ctx context.Context) (err error) {
	folder, dir, number := r.folder, r.parts.Dir, r.Shard.Number
	if r.cut, err = r.parts.ReadCut(); err != nil {
		return err
	}
	if r.cut == nil {
		return exit.Environmentf("the data set is not divided yet: `nat-go shard merge %s --leave-writing` divides "+
			"it, once all shards are built", dir)
	}
	if r.decisions, err = dir.Decisions(r.cut, r.merged); err != nil {
		return err
	}
	if c := r.config.Dataset.Contamination; c != nil {
		if _, r.overlaps, err = decide.ReadOverlaps(r.merged); err != nil {
			return err
		}
	}
	made := &shards.Output{}
	err = cmp.Or(os.RemoveAll(folder.Dataset()), os.RemoveAll(folder.Batches())) // the output of an interrupted attempt
	if err == nil {
		made.Rows, err = r.writing(r.merged).RunPart(ctx, r.cut.Ranges[number])
	}
	if err != nil {
		return exit.Default(exit.Environment, fmt.Errorf("cannot write the rows: %w", err))
	}
	if r.cut.Collated != nil {
		if made.Batches, err = r.collation().RunPart(ctx, number); err != nil {
			return exit.Default(exit.Environment, fmt.Errorf("cannot make the batches: %w", err))
		}
	}
	if err := made.Write(folder); err != nil {
		return err
	}
	r.sum.Share = shareOf(made)
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

// joinShards joins the shards' logs. It then decides on the records and, concurrently, joins the rows.
func (r *run) joinShards(ctx context.Context) error {
	if err := build.JoinShards(ctx, r.parts, r.folder, r.in.Runs()); err != nil {
		return err
	}
	for _, block := range r.config.Selected() {
		b := &build.Builder{Name: block.Name} // only counts the names in the log
		r.plugins.Builders = append(r.plugins.Builders, b)
	}
	rows := r.writing(r.folder)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) {
		if r.cut != nil { // writing was left to the shards
			r.rows, err = rows.Join(ctx)
		}
		return err
	})
	g.Go(func() error {
		if err := r.build(ctx); err != nil {
			return err
		}
		return r.curate(ctx)
	})
	return g.Wait() // wait: both goroutines watch ctx
}

// skipIfLeft ends the run if an earlier merge has divided the rows.
func (r *run) skipIfLeft(context.Context) error {
	if r.cut == nil {
		return nil
	}
	r.Warn("the rows are already divided among the shards; nothing was done")
	r.reportLeft()
	return errSealed
}

// The work of writing a data set is divided by rows, not by builder. Each shard writes the text rows for a range of the
// merged log, and a range of the token batches, whose rows it reads from the folders of the shards that made them.

// divideLog starts a new range of the merged log at g if the current range has reached its share of the log's bytes.
func (r *run) divideLog(g *recordlog.Group, c recordlog.Commit) {
	for n := len(r.parts.Plan.Shards); len(r.ranges) < n && g.Offset >= c.Bytes/int64(n)*int64(len(r.ranges)); {
		r.ranges = append(r.ranges, recordlog.Range{Offset: g.Offset, First: g.First})
	}
}

// allRanges returns the ranges of the merged log, once divideLog has been called for all groups. The last ones may be
// empty.
func (r *run) allRanges(c recordlog.Commit) []recordlog.Range {
	n := len(r.parts.Plan.Shards)
	end := recordlog.Range{Offset: c.Bytes, First: c.Records}
	all := append(r.ranges, slices.Repeat([]recordlog.Range{end}, n+1-len(r.ranges))...)
	for i := range n {
		all[i].Bytes = all[i+1].Offset - all[i].Offset
	}
	return all[:n]
}

// leaveWriting is the stage that divides the rows among the shards.
func (r *run) leaveWriting(ctx context.Context) error {
	d := r.decisions
	if err := r.parts.Dir.NewCut(); err != nil {
		return exit.Environmentf("cannot divide the data set: %w", err)
	}
	c, err := recordlog.ReadCommit(r.folder.Records())
	if err != nil {
		return exit.With(exit.Environment, err)
	}
	cut := &shards.Cut{Plan: r.parts.Plan.Sum, Log: c.XXH3, Ranges: r.allRanges(c), Warning: d.Warning}
	if cut.Decisions, err = runfolder.ContentSum(r.folder.Decisions()); err != nil {
		return exit.With(exit.Environment, err)
	}
	if r.tokens != nil && d.Kept() > 0 {
		if cut.Collated, err = r.collation().Divide(ctx); err != nil {
			return exit.Default(exit.Environment, fmt.Errorf("cannot divide the batches: %w", err))
		}
	}
	if err := r.parts.Dir.WriteCut(cut); err != nil {
		return exit.Environmentf("cannot divide the data set: %w", err)
	}
	r.reportLeft()
	return nil
}

// reportLeft sets the summary's next step, in which the shards write their rows.
func (r *run) reportLeft() {
	r.sum.Status, r.sum.RunDir, r.sum.NotStarted = runfolder.Completed, string(r.folder), false
	r.sum.Next = fmt.Sprintf("`nat-go shard run %s --stage write --index I` writes a shard's share; then merge again",
		r.parts.Dir)
}
