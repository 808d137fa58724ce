package finetune

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"path/filepath"

	"golang.org/x/sync/errgroup"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/recordlog"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/shards"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage"
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
	if err := r.joinLogs(ctx); err != nil {
		return err
	}
	for _, block := range r.run.plan.config.Selected() {
		r.run.builders = append(r.run.builders, &builder{name: block.Name}) // for recordNames
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return r.joinRows(ctx) })
	g.Go(func() error {
		if err := r.run.build(ctx); err != nil {
			return err
		}
		return r.run.curate(ctx)
	})
	return g.Wait() // wait: both goroutines watch ctx
}

// joinLogs joins the shards' logs into the run's log, unless that is already complete.
func (r merger) joinLogs(ctx context.Context) error {
	dir := r.run.plan.folder.Records()
	if c, err := recordlog.ReadCommit(dir); err == nil && c.Done {
		return nil
	}
	j, err := recordlog.Create(dir)
	if err != nil {
		return exit.Environmentf("can't join the record logs: %w", err)
	}
	defer j.Close()
	if err := r.run.plan.merging.join(ctx, j, r.run.in); err != nil {
		return logError("join the record logs", err)
	}
	return nil
}

// join adds the shards' logs. It first adds the groups from the shards' parts of the inputs, shard by shard, and then
// the groups built from tasks, ordered by their first members.
func (m *merging) join(ctx context.Context, j *recordlog.Writer, in *inputs) error {
	for _, stage := range m.Plan.Stages() {
		open := func(i int) (shards.Groups, error) { return m.log(j, stage, i) }
		if err := m.Walk(ctx, stage, string(m.run), open); err != nil {
			return err
		}
	}
	at, err := m.cursor(in)
	if err != nil {
		return err
	}
	text, err := json.Marshal(at)
	if err != nil {
		return err
	}
	return j.Commit(text, true)
}

// cursor returns the position to record in the merged log's commit, which is the end of the inputs.
func (m *merging) cursor(in *inputs) (at cursor, err error) {
	at.Source.Run, at.Inputs, at.Seen = len(in.paths), m.Plan.Inputs, m.Seen()
	if !m.Plan.Tasks {
		return at, nil
	}
	for i := range m.Plan.Shards {
		c, err := recordlog.ReadCommit(m.Dir.Shard(shards.Group, i).Records())
		if err != nil {
			return at, err
		}
		at.Groups += int64(c.Groups)
	}
	return at, nil
}

// log opens a shard's log, whose hash the shard's manifest lists, as part of the joined log.
func (m *merging) log(j *recordlog.Writer, stage shards.Stage, shard int) (*recordlog.Part, error) {
	folder, done := m.Built(stage, shard)
	path := folder.Rel(filepath.Join(folder.Records(), recordlog.LogName))
	return j.Join(folder.Records(), runfolder.Lookup(done.Files, path).XXH3)
}
