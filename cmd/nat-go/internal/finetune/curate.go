package finetune

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/zeebo/xxh3"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/curate"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/marks"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/overlap"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/recordlog"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage"
	"github.com/nat-go/nat-go/internal/durable"
	"github.com/nat-go/nat-go/ttc/ledger"
	"github.com/nat-go/nat-go/ttc/source"
	"github.com/nat-go/nat-go/ttc/source/readers"
)

// curation is the stage that decides which records to keep.
type curation struct {
	plan       *plan
	out        *report
	benchmarks *overlap.Index // nil if there are none
}

// curate decides on every record in the log.
func (r *curation) curate(ctx context.Context, b *recording) (*curate.Decisions, error) {
	d, err := r.decide(ctx, b)
	if err == nil && r.benchmarks != nil {
		r.out.made.Overlaps, r.plan.overlaps, err = readOverlaps(r.plan.folder)
	}
	if err != nil {
		return nil, err
	}
	b.index.Close()
	b.index = nil // free its memory
	r.warnOfIdleMarks(b.marked)
	if d.Warning != "" {
		r.out.Warn("%s", d.Warning)
	}
	for _, w := range b.at.Seen.Warnings() {
		r.out.Warn("%s", w)
	}
	for x, n := range d.Counts() {
		r.out.In(ledger.Curate, stage.UnitRecord, 0)
		switch reason, dropped := x.Reason(); {
		case !dropped:
			r.out.In(ledger.Curate, stage.UnitRecord, n)
			r.out.Out(ledger.Curate, stage.UnitRecord, n)
		case curate.StageOf(reason) == ledger.Curate:
			r.out.In(ledger.Curate, stage.UnitRecord, n)
			r.out.Book.Drop(ledger.Drop{Stage: ledger.Curate, Reason: reason, Unit: stage.UnitRecord, Count: n})
		}
	}
	r.out.Info("records curated", "kept", d.Kept())
	return d, nil
}

// decide makes the decisions, or reads them if an earlier merge of the shards made them.
func (r *curation) decide(ctx context.Context, b *recording) (*curate.Decisions, error) {
	if m := r.plan.merging; r.plan.isDecided() {
		return cutDecisions(m.Dir, m.cut, r.plan.folder)
	}
	if r.benchmarks != nil {
		if err := r.listOverlaps(ctx, b.index); err != nil {
			return nil, err
		}
	}
	d, err := b.index.Decide()
	if errors.As(err, new(*curate.SplitError)) {
		return nil, exit.Failedf("dataset.split: %w", err)
	}
	if err != nil {
		return nil, err
	}
	for _, ordinal := range b.marked.rejected {
		d.Reject(ordinal)
	}
	return d, exit.Cant("write the decisions", durable.Save(r.plan.folder.Decisions(), d.Write))
}

// marked collects the marks on a run's records.
type marked struct {
	rejected []uint64
	seen     map[string]bool // marks that match a record, keyed by their Record field
}

// lookUp records the mark on a record, if there is one.
func (m *marked) lookUp(file *marks.File, content [16]byte, ordinal uint64) {
	mark, ok := file.Get(content)
	if !ok {
		return
	}
	m.seen[mark.Record] = true
	if mark.Mark == marks.Reject {
		m.rejected = append(m.rejected, ordinal)
	}
}

// warnOfIdleMarks adds a warning if there are marks that don't match any record.
func (r *curation) warnOfIdleMarks(m marked) {
	if r.plan.marks == nil {
		return
	}
	var idle []string
	for _, mark := range r.plan.marks.All() {
		if !m.seen[mark.Record] {
			idle = append(idle, mark.Record)
		}
	}
	if len(idle) > 0 {
		r.out.Warn("%s of %s do not match any record of this run: %s", ledger.Quantity(int64(len(idle)), "mark"),
			r.plan.config.Dataset.Marks, strings.Join(idle[:min(len(idle), 3)], ", "))
	}
}

// gates returns the gates that each record must pass.
func (p *plan) gates() curate.Gates {
	return curate.Gates{Unfit: p.Compat.Gates(), MinFidelity: p.minFidelity, Overlaps: p.overlaps}
}

// exampleOf returns the name of a record's example for an error message. If the log can't be read, it names the record
// instead.
func (p *plan) exampleOf(ordinal uint64) string {
	for g, err := range recordlog.Groups(p.folder.Records()) {
		if err != nil {
			break
		}
		if i := ordinal - g.First; i < uint64(len(g.Records)) {
			return fmt.Sprintf("example %q", g.Records[i].Origin.Example)
		}
	}
	return fmt.Sprintf("record %d", ordinal)
}

// listedOverlaps is the maximum number of overlaps in the manifest.
const listedOverlaps = 100

// readBenchmarks reads the files specified in dataset.contamination.
func (r *curation) readBenchmarks(ctx context.Context) error {
	c := r.plan.config.Dataset.Contamination
	if c == nil {
		return nil
	}
	r.benchmarks = overlap.NewIndex()
	paths, err := source.Expand(c.Files, readers.NATFile)
	for _, path := range paths {
		if err == nil {
			err = r.benchmarks.Read(ctx, path)
		}
	}
	if err == nil && r.benchmarks.Grams() == 0 {
		err = errors.New("no text is long enough to compare: expected at least 13 words or 10 letters")
	}
	if err != nil {
		return exit.Usagef("dataset.contamination.files: %w", err)
	}
	return nil
}

// listOverlaps lists the records that share words with benchmarks, and drops them if the action setting is drop. It
// reads the log twice, because words shared by many examples can be recognised only after all examples are read.
func (r *curation) listOverlaps(ctx context.Context, index *curate.Index) error {
	x := r.benchmarks
	for g, err := range recordlog.GroupsAhead(r.plan.folder.Records()) {
		if err := cmp.Or(err, ctx.Err()); err != nil {
			return exit.Default(exit.Environment, err)
		}
		countWords(x, g)
	}
	drop := r.plan.config.Dataset.Contamination.Action == "drop"
	return exit.Cant("list the overlaps", durable.Save(r.plan.folder.Contamination(), func(f io.Writer) error {
		enc := json.NewEncoder(f)
		enc.SetEscapeHTML(false)
		err := enc.Encode(runfolder.Contamination{
			Runs: x.Grams(), OneIn: x.OneIn, Common: x.Common(), Checked: index.Len(), Dropped: drop,
		})
		for g, failed := range recordlog.GroupsAhead(r.plan.folder.Records()) {
			if err := cmp.Or(err, failed, ctx.Err()); err != nil {
				return err
			}
			for i := range g.Records {
				o := overlapOf(x, &g.Records[i])
				if o.Record = g.First + uint64(i); o.File == "" || !index.Kept(o.Record) {
					continue
				}
				if drop {
					index.Drop(o.Record, curate.Contaminated)
				}
				o.Words = r.out.Hide(o.Words)
				err = cmp.Or(err, enc.Encode(o))
			}
		}
		return cmp.Or(err, ctx.Err())
	}))
}

// countWords counts the words of each example in a group once, regardless of how many records the example has.
func countWords(x *overlap.Index, g *recordlog.Group) {
	type name struct {
		run     int
		example string
	}
	var examples []name
	records := map[name][]*builders.Resolved{}
	for i := range g.Records {
		of := name{g.Records[i].Origin.Run, g.Records[i].Origin.Example}
		if records[of] == nil {
			examples = append(examples, of)
		}
		records[of] = append(records[of], &g.Records[i])
	}
	for _, of := range examples {
		origin := records[of][0].Origin
		x.Example(xxh3.HashString(cmp.Or(origin.Task, origin.Example)))
		for _, rec := range records[of] {
			eachText(rec, func(role, text string) { x.Count(overlap.RoleOf(role), text) })
		}
	}
}

// overlapOf returns a record's longest overlap, or one with an empty File if nothing overlaps.
func overlapOf(x *overlap.Index, rec *builders.Resolved) (longest runfolder.Overlap) {
	eachText(rec, func(role, text string) {
		if o, ok := x.Find(text); ok && len(o.Words) > len(longest.Words) {
			longest = runfolder.Overlap{
				Example: rec.Origin.Example, Run: rec.Origin.Run, Role: role,
				File: o.Place.File, Line: o.Place.Line, Words: o.Words,
			}
		}
	})
	return longest
}

// eachText calls f for each string in a record's prompt and answers, with the role of the message that contains it.
func eachText(rec *builders.Resolved, f func(role, text string)) {
	for i, p := range []*builders.Passage{&rec.Prompt, &rec.Messages, &rec.Chosen, &rec.Rejected} {
		if p.IsText() {
			f([]string{"user", "user", "assistant", "assistant"}[i], p.Text)
		}
		for n := range p.Nodes {
			m := &p.Nodes[n].Message
			f(m.Role, m.Text)
			f(m.Role, m.Reasoning)
			for i := range m.Parts {
				f(m.Role, m.Parts[i].Text)
			}
			for i := range m.ToolCalls {
				if c := &m.ToolCalls[i]; c.Parsed == nil {
					f(m.Role, c.Arguments)
				} else {
					overlap.Texts(c.Parsed, func(text string) { f(m.Role, text) })
				}
			}
		}
	}
}

// readOverlaps reads the list of overlaps. If the overlapping records are dropped, details describes the overlaps of
// the first stage.MaxListed records, keyed by ordinal.
func readOverlaps(folder runfolder.Folder) (c *runfolder.Contamination, details map[uint64]string, err error) {
	f, err := durable.Open(folder.Contamination())
	if err != nil {
		return nil, nil, exit.Environmentf("can't read the overlaps: %w", err)
	}
	defer f.Close()
	c, details = &runfolder.Contamination{Overlaps: []runfolder.Overlap{}}, map[uint64]string{}
	dec := json.NewDecoder(bufio.NewReader(f))
	err = dec.Decode(c)
	for last := ""; err == nil && dec.More(); c.Records++ {
		var o runfolder.Overlap
		if err = dec.Decode(&o); err != nil {
			break
		}
		if c.Dropped && len(details) < stage.MaxListed {
			details[o.Record] = o.String()
		}
		if o.Example != last || c.Records == 0 {
			c.Examples++
			if last = o.Example; len(c.Overlaps) < listedOverlaps {
				c.Overlaps = append(c.Overlaps, o)
			}
		}
	}
	if err != nil {
		return nil, nil, exit.Environmentf("can't read %s: %w", folder.Contamination(), err)
	}
	return c, details, nil
}
