package finetune

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sync/errgroup"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/recordlog"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/shards"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage/build"
)

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
	m := &merging{Parts: p.divided, leave: how.LeaveWriting}
	p.made, p.command = "shard merge", "shard merge "+string(m.Dir)
	if err := m.CheckComplete(); err != nil {
		return p, err
	}
	p.merging, p.DryRun, p.Detach = m, p.DryRun || how.DryRun, how.Detach
	if err := p.resumeMerge(); err != nil {
		return p, err
	}
	if m.cut, err = m.Dir.ReadCut(m.Plan); err != nil || m.cut == nil {
		return p, err
	}
	var missing []int
	m.shares, missing, err = m.Outputs()
	if err == nil && len(missing) > 0 && !m.leave {
		err = exit.Failedf("%s not written yet: %s. `nat-go shard run %s --stage write --index I` writes one",
			shards.ShardsHave(len(missing), len(m.Plan.Shards)), shards.Array(missing), m.Dir)
	}
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
	if b.Decided == nil || b.Decided.Salt != p.divided.Plan.Decided.Salt {
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
	p.resume, p.begun = true, b
	return exit.Cant("clean up the run folder", p.lock.Sweep())
}

// merger provides the stages of a run that is made from shards.
type merger struct{ run *run }

// joinShards joins the shards' logs. It then decides on the records and, concurrently, joins the rows.
func (r merger) joinShards(ctx context.Context) error {
	err := build.JoinShards(ctx, r.run.plan.divided, r.run.plan.folder, r.run.in.Runs())
	if err != nil {
		return err
	}
	for _, block := range r.run.plan.config.Selected() {
		b := &build.Builder{Name: block.Name} // only counts the names in the log
		r.run.plugins.Builders = append(r.run.plugins.Builders, b)
	}
	m := r.run.plan.merging
	rows := r.run.writing(r.run.plan.folder)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) {
		if m.cut != nil { // writing was left to the shards
			m.rows, err = rows.Join(ctx)
		}
		return err
	})
	g.Go(func() error {
		if err := r.run.build(ctx); err != nil {
			return err
		}
		return r.run.curate(ctx)
	})
	return g.Wait() // wait: both goroutines watch ctx
}

// skipIfLeft ends the run if an earlier merge has divided the rows.
func (r merger) skipIfLeft(context.Context) error {
	if r.run.plan.merging.cut == nil {
		return nil
	}
	r.run.out.Warn("the rows are already divided among the shards; nothing was done")
	r.reportLeft()
	return errSealed
}

// The work of writing a data set is divided by rows, not by builder. Each shard writes the text rows for a range of the
// merged log, and a range of the token batches, whose rows it reads from the folders of the shards that made them.

// leaveWriting is the stage that divides the rows among the shards.
func (r merger) leaveWriting(ctx context.Context) error {
	m, d := r.run.plan.merging, r.run.decisions
	if err := m.Dir.NewCut(); err != nil {
		return exit.Environmentf("cannot divide the data set: %w", err)
	}
	c, err := recordlog.ReadCommit(r.run.plan.folder.Records())
	if err != nil {
		return exit.With(exit.Environment, err)
	}
	cut := &shards.Cut{Plan: m.Plan.Sum, Log: c.XXH3, Ranges: m.allRanges(c), Warning: d.Warning}
	if cut.Decisions, err = runfolder.ContentSum(r.run.plan.folder.Decisions()); err != nil {
		return exit.With(exit.Environment, err)
	}
	if r.run.tokens != nil && d.Kept() > 0 {
		if cut.Collated, err = r.run.collation().Divide(ctx); err != nil {
			return exit.Default(exit.Environment, fmt.Errorf("cannot divide the batches: %w", err))
		}
	}
	if err := m.Dir.WriteCut(cut); err != nil {
		return exit.Environmentf("cannot divide the data set: %w", err)
	}
	r.reportLeft()
	return nil
}

// reportLeft sets the summary's next step, in which the shards write their rows.
func (r merger) reportLeft() {
	r.run.out.sum.Status, r.run.out.sum.RunDir = runfolder.Completed, string(r.run.plan.folder)
	r.run.out.sum.NotStarted = false
	r.run.out.sum.Next = fmt.Sprintf("`nat-go shard run %s --stage write --index I` writes a shard's share; then "+
		"merge again", r.run.plan.merging.Dir)
}
