package finetune

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/recordlog"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/shards"
	"github.com/nat-go/nat-go/ttc/ledger"
	"github.com/nat-go/nat-go/ttc/source"
)

// merging is the run that the shards of a plan are parts of.
type merging struct {
	dir  shards.Folder
	plan *shards.Plan
	done []*shards.Done
}

// MergeShards makes the run of a plan of what its shards built: their logs, one after the other, are the log that one
// process would have written, and from there on the run is like any other. It goes on with a merge that was
// interrupted.
func MergeShards(ctx context.Context, dir shards.Folder, how Request, env Env) (*Summary, error) {
	p, of, err := openPlan(ctx, dir, env)
	if err != nil {
		return Failed(how, err)
	}
	m := &merging{dir: dir, plan: of}
	if err := m.complete(); err != nil {
		return Failed(p.Request, err)
	}
	p.merging, p.DryRun, p.Detach = m, p.DryRun || how.DryRun, how.Detach
	if over, err := p.merged(); over || err != nil {
		if err == nil {
			err = exit.Usagef(
				"the shards were merged already: %s is complete. `nat-go finetune resume %s` hands it to the trainer",
				p.folder,
				p.folder,
			)
		}
		return Failed(p.Request, err)
	}
	defer p.lock.Close()
	return newRun(p, env).end(ctx, (*run).merge)
}

// complete refuses to merge while shards are missing, naming them.
func (m *merging) complete() error {
	var missing []int
	for i := range m.plan.Shards {
		d, err := m.dir.ReadDone(m.plan, i)
		switch {
		case err != nil:
			return exit.With(exit.Failed, err)
		case d == nil:
			missing = append(missing, i)
		}
		m.done = append(m.done, d)
	}
	if len(missing) > 0 {
		are := "are"
		if len(missing) == 1 {
			are = "is"
		}
		return exit.Failedf(
			"%d of the %s %s not built yet: %s. `nat-go shard run %s --index I` builds one",
			len(missing),
			ledger.Quantity(int64(len(m.plan.Shards)), "shard"),
			are,
			shards.Array(missing),
			m.dir,
		)
	}
	return nil
}

// merged takes over the run folder of a merge that was interrupted; true: it was not.
func (p *plan) merged() (bool, error) {
	b, err := p.folder.ReadBegun()
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil // Create says whether it may be used
	}
	if err != nil {
		return false, exit.With(exit.Environment, err)
	}
	if b.Decided == nil || b.Decided.Salt != p.merging.plan.Decided.Salt {
		return false, exit.Usagef("there is another run in %s already: move it away", p.folder)
	}
	if _, err := p.folder.ReadManifest(); !errors.Is(err, fs.ErrNotExist) {
		return err == nil, err
	}
	if p.lock, err = p.folder.Lock(p.again()); err != nil {
		return false, err
	}
	p.resume, p.begun = true, b
	if err := p.lock.Sweep(); err != nil {
		return false, exit.Environmentf("can't clean up the run folder: %w", err)
	}
	return false, nil
}

// merge makes the run of what the shards built.
func (r *run) merge(ctx context.Context) error {
	in, err := findInputs(ctx, r.plan)
	if err != nil {
		return err
	}
	r.sum.Warnings = append(r.sum.Warnings, r.plan.notes...)
	r.sum.RunDir, r.sum.DatasetDir, r.made.Source = string(r.plan.folder), r.plan.folder.Dataset(), in.source.Type
	tokens, err := unlessEnded(ctx, func() (*tokens, error) { return openTokens(r.plan) })
	if err != nil {
		return err
	}
	defer tokens.close()
	if err := r.asPlanned(tokens); err != nil {
		return err
	}
	if err := r.openFolder(in, tokens); err != nil {
		return err
	}
	if err := r.joinLogs(in); err != nil {
		return err
	}
	var builders []*builder // whose names are counted
	for _, block := range r.plan.config.Selected() {
		builders = append(builders, &builder{name: block.Name})
	}
	built, err := r.build(ctx, in, nil, builders)
	if err != nil {
		return err
	}
	for _, b := range builders {
		if err := tooManyNames(b); err != nil {
			return err
		}
	}
	return r.finish(ctx, built, tokens)
}

// joinLogs makes the log of the run of those of the shards, unless it is there.
func (r *run) joinLogs(in *inputs) error {
	dir, m := r.plan.folder.Records(), r.plan.merging
	if c, err := recordlog.ReadCommit(dir); err == nil && c.Done {
		return nil
	}
	at := cursor{Source: source.Cursor{Run: len(in.paths)}, Inputs: m.plan.Inputs}
	var logs, sums []string
	for i, d := range m.done {
		at.Seen.Add(&d.Seen)
		folder := m.dir.Shard(i)
		logs = append(logs, folder.Records())
		sums = append(sums, logSum(folder, d))
	}
	text, err := json.Marshal(at)
	if err == nil {
		err = recordlog.Join(dir, logs, sums, text)
	}
	if err != nil {
		return exit.Environmentf("can't join the record logs: %w", err)
	}
	return nil
}

// logSum is the hash of a shard's log, as its manifest has it.
func logSum(f runfolder.Folder, d *shards.Done) string {
	for _, x := range d.Files {
		if x.Path == f.Rel(f.Records())+"/"+recordlog.LogName {
			return x.XXH3
		}
	}
	return ""
}
