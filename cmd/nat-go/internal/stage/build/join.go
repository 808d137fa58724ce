package build

import (
	"cmp"
	"context"
	"encoding/json"
	"path/filepath"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/curate"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/dataset"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/recordlog"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/shards"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage"
	"github.com/nat-go/nat-go/ttc/source"
)

// Part is a finished run that is joined with others.
type Part struct {
	Folder runfolder.Folder
	At     Cursor // position at the end of the run's inputs
}

// Join writes the groups of all parts to the log, one part after another. If keep isn't nil, it also adds the
// validation side of that run to the index.
func (s Stage) Join(ctx context.Context, parts []*Part, keep *Part) (*Built, error) {
	return s.record(func(b *recording) error {
		if err := b.openLog(ctx); err != nil {
			return err
		}
		defer b.log.Close()
		for _, p := range parts {
			if err := b.appendPart(ctx, p); err != nil {
				return err
			}
		}
		if err := b.commit(true); err != nil || keep == nil {
			return err
		}
		return b.hold(ctx, keep)
	})
}

// numbering assigns a part's inputs their numbers in the merge.
type numbering struct {
	numbers []int // numbers in the merge, indexed by the part's own numbers
	base    int   // number of inputs in the merge before this part's were added
	fresh   []source.Input
	done    map[*builders.Origin]bool // origins already renumbered; several records may share an origin
}

// number numbers p's inputs. An input that an earlier part also read keeps its number. The other inputs get the next
// numbers, and are added to fresh. Two inputs of a part never get the same number, even if their contents are equal,
// because the part's run used both.
func (b *recording) number(p *Part) *numbering {
	n := &numbering{base: len(b.At.Inputs), done: map[*builders.Origin]bool{}}
	taken := make([]bool, n.base)
	for _, in := range p.At.Inputs {
		i := 0
		for i < n.base && (taken[i] || !sameContent(b.At.Inputs[i], in)) {
			i++
		}
		if i < n.base {
			taken[i] = true
		} else {
			i += len(n.fresh)
			n.fresh = append(n.fresh, in)
		}
		n.numbers = append(n.numbers, i)
	}
	return n
}

// of returns an input's number in the merge.
func (n *numbering) of(run int) int {
	if run >= 0 && run < len(n.numbers) {
		return n.numbers[run]
	}
	return n.base + run
}

// group renumbers the inputs of a group's records and drops.
func (n *numbering) group(g *recordlog.Group) {
	clear(n.done)
	for i := range g.Records {
		if o := g.Records[i].Origin; !n.done[o] {
			n.done[o], o.Run = true, n.of(o.Run)
		}
	}
	for i := range g.Drops {
		g.Drops[i].Run = n.of(g.Drops[i].Run)
	}
}

// appendPart appends a part's groups, with the numbers that its inputs have in the merge.
func (b *recording) appendPart(ctx context.Context, p *Part) error {
	n := b.number(p)
	b.At.Inputs = append(b.At.Inputs, n.fresh...)
	for g, err := range recordlog.Groups(p.Folder.Records()) {
		if err := cmp.Or(err, ctx.Err()); err != nil {
			return exit.Default(exit.Environment, err)
		}
		n.group(g)
		if err := b.log.Append(g); err != nil {
			return logError("write the record log", err)
		}
		if err := b.take(g); err != nil {
			return err
		}
		b.Tell(stage.Progress{Step: "merge", Done: int64(b.Index.Len()), Unit: stage.UnitRecord})
	}
	b.At.Seen.Add(&p.At.Seen)
	b.At.Groups += p.At.Groups
	return nil
}

// sameContent reports whether two inputs have the same content, regardless of their location.
func sameContent(a, b source.Input) bool {
	return a.Same(b) || a.Sum != 0 && a.Sum == b.Sum && a.Size == b.Size
}

// hold adds keep's validation side to the index. It returns an error if that run doesn't have one. An input's number is
// part of a record's identity, so keep's inputs get their numbers in the merge.
func (b *recording) hold(ctx context.Context, keep *Part) error {
	d, err := (&dataset.Place{Run: keep.Folder}).Decisions()
	if err != nil {
		return exit.With(exit.Environment, err)
	}
	n, held := b.number(keep), 0
	var entries []curate.Entry
	for g, err := range recordlog.Groups(keep.Folder.Records()) {
		if err := cmp.Or(err, ctx.Err()); err != nil {
			return exit.Default(exit.Environment, err)
		}
		n.group(g)
		entries = curate.EntriesOf(entries[:0], g, curate.Gates{})
		for _, e := range entries {
			if !d.At(e.Ordinal).Validates() {
				continue
			}
			held++
			if err := b.Index.Hold(e); err != nil {
				return exit.Environmentf("cannot sort the records: %w", err)
			}
		}
	}
	if held == 0 {
		return exit.Failedf("run in %s has no validation side to keep", keep.Folder)
	}
	return nil
}

// JoinShards joins the shards' logs into the log of a run, unless that log is already complete. It first adds the
// groups from the shards' parts of the inputs, shard by shard, and then the groups built from tasks, ordered by their
// first members. The commit of the merged log records that all inputs were read to the end; runs is the number of
// inputs.
func JoinShards(ctx context.Context, all *shards.Parts, to runfolder.Folder, runs int) error {
	if c, err := recordlog.ReadCommit(to.Records()); err == nil && c.Done {
		return nil
	}
	j, err := recordlog.Create(to.Records())
	if err != nil {
		return exit.Environmentf("cannot join the record logs: %w", err)
	}
	defer j.Close()
	at := Cursor{Source: source.Cursor{Run: runs}, Inputs: all.Plan.Inputs, Seen: all.Seen()}
	for _, stage := range all.Plan.Stages() {
		if err == nil {
			err = all.Walk(ctx, stage, string(to), func(shard int) (shards.Groups, error) {
				done := all.Done(stage, shard)
				records := done.Folder.Records()
				return j.Join(records, done.File(filepath.Join(records, recordlog.LogName)).XXH3)
			})
		}
	}
	groups, _ := all.Count(shards.Group) // 0 unless the groups are tasks
	at.Groups = int64(groups)
	text, failed := json.Marshal(at)
	if err = cmp.Or(err, failed); err == nil {
		err = j.Commit(text, true)
	}
	if err != nil {
		return logError("join the record logs", err)
	}
	return nil
}
