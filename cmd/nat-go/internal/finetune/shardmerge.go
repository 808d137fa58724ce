package finetune

import (
	"context"
	"errors"
	"io/fs"

	"golang.org/x/sync/errgroup"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/recordlog"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/shards"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage/build"
)

// merging is the merge of a plan's shards into one run.
type merging struct {
	*shards.Parts
	run    runfolder.Folder  // folder of the merged run
	ranges []recordlog.Range // ranges of the merged log for the shards to write, if writing is left to the shards
	leave  bool              // only divide the rows among the shards, which will write them
	cut    *shards.Cut       // how an earlier merge divided the rows; nil if they haven't been divided
	shares []*shards.Output  // the outputs of all shards, if cut is set
	rows   []runfolder.Written
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
	m := &merging{Parts: p.divided, run: p.folder, leave: how.LeaveWriting}
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

// isDecided reports whether an earlier merge decided on the records and divided the rows.
func (p *plan) isDecided() bool {
	return p.merging != nil && p.merging.cut != nil && runfolder.Has(p.folder.Decisions())
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
		b := &build.Builder{Name: block.Name} // counts the names in the log
		r.run.plugins.Builders = append(r.run.plugins.Builders, b)
	}
	m := r.run.plan.merging
	rows := r.run.writing(m.run)
	rows.Parts = m.shares
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
