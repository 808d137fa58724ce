package decide

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"

	"github.com/zeebo/xxh3"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/config"
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

// Stage decides which records to keep.
type Stage struct {
	*stage.Account
	Folder     runfolder.Folder
	Index      *curate.Index
	Marks      *marks.Matches // a user's marks on the records
	Benchmarks *Benchmarks    // benchmarks to compare the records with; nil means none
	Seen       source.Stats   // statistics of the inputs

	Decided *curate.Decisions // decisions that an earlier merge made; nil means that Run makes them
}

// Result holds the decisions, and the overlaps with benchmarks.
type Result struct {
	*curate.Decisions
	Overlaps *runfolder.Contamination
	Details  map[uint64]string // descriptions of the overlaps; see curate.Gates.Overlaps
}

// Run decides on every record in the log.
func (s Stage) Run(ctx context.Context) (out Result, err error) {
	if out.Decisions = s.Decided; s.Decided == nil {
		if out.Decisions, err = s.decide(ctx); err != nil {
			return out, err
		}
	}
	if s.Benchmarks != nil {
		if out.Overlaps, out.Details, err = ReadOverlaps(s.Folder); err != nil {
			return out, err
		}
	}
	if idle := s.Marks.Idle(); len(idle) > 0 {
		s.Warn("%s of %s do not match any record of this run: %s", ledger.Quantity(int64(len(idle)), "mark"),
			s.Marks.Path(), strings.Join(idle[:min(len(idle), 3)], ", "))
	}
	if out.Warning != "" {
		s.Warn("%s", out.Warning)
	}
	for _, w := range s.Seen.Warnings() {
		s.Warn("%s", w)
	}
	for x, n := range out.Counts() {
		s.In(ledger.Curate, stage.UnitRecord, 0)
		switch reason, dropped := x.Reason(); {
		case !dropped:
			s.In(ledger.Curate, stage.UnitRecord, n)
			s.Out(ledger.Curate, stage.UnitRecord, n)
		case curate.StageOf(reason) == ledger.Curate:
			s.In(ledger.Curate, stage.UnitRecord, n)
			s.Book.Drop(ledger.Drop{Stage: ledger.Curate, Reason: reason, Unit: stage.UnitRecord, Count: n})
		}
	}
	s.Info("records curated", "kept", out.Kept())
	return out, nil
}

func (s Stage) decide(ctx context.Context) (*curate.Decisions, error) {
	if s.Benchmarks != nil {
		if err := s.listOverlaps(ctx); err != nil {
			return nil, err
		}
	}
	d, err := s.Index.Decide()
	if errors.As(err, new(*curate.SplitError)) {
		return nil, exit.Failedf("dataset.split: %w", err)
	}
	if err != nil {
		return nil, err
	}
	for _, ordinal := range s.Marks.Rejected {
		d.Reject(ordinal)
	}
	return d, exit.Cant("write the decisions", durable.Save(s.Folder.Decisions(), d.Write))
}

// listedOverlaps is the maximum number of overlaps in the manifest.
const listedOverlaps = 100

// Benchmarks holds the words of benchmarks, with which a run's records are compared.
type Benchmarks struct {
	*overlap.Index
	drop bool // whether to drop the records that share words
}

// ReadBenchmarks reads the files specified in dataset.contamination. It returns nil without that section.
func ReadBenchmarks(ctx context.Context, c *config.Contamination) (*Benchmarks, error) {
	if c == nil {
		return nil, nil
	}
	x := &Benchmarks{overlap.NewIndex(), c.Action == "drop"}
	paths, err := source.Expand(c.Files, readers.NATFile)
	for _, path := range paths {
		if err == nil {
			err = x.Read(ctx, path)
		}
	}
	if err == nil && x.Grams() == 0 {
		err = errors.New("no text is long enough to compare: expected at least 13 words or 10 letters")
	}
	if err != nil {
		return nil, exit.Usagef("dataset.contamination.files: %w", err)
	}
	return x, nil
}

// listOverlaps lists the records that share words with benchmarks, and drops them if the action setting is drop. It
// reads the log twice, because words shared by many examples can be recognised only after all examples are read.
func (s Stage) listOverlaps(ctx context.Context) error {
	x, index := s.Benchmarks, s.Index
	for g, err := range recordlog.GroupsAhead(s.Folder.Records()) {
		if err := cmp.Or(err, ctx.Err()); err != nil {
			return exit.Default(exit.Environment, err)
		}
		countWords(x.Index, g)
	}
	return exit.Cant("list the overlaps", durable.Save(s.Folder.Contamination(), func(f io.Writer) error {
		enc := json.NewEncoder(f)
		enc.SetEscapeHTML(false)
		err := enc.Encode(runfolder.Contamination{
			Runs: x.Grams(), OneIn: x.OneIn, Common: x.Common(), Checked: index.Len(), Dropped: x.drop,
		})
		for g, failed := range recordlog.GroupsAhead(s.Folder.Records()) {
			if err := cmp.Or(err, failed, ctx.Err()); err != nil {
				return err
			}
			for i := range g.Records {
				o := overlapOf(x.Index, &g.Records[i])
				if o.Record = g.First + uint64(i); o.File == "" || !index.Kept(o.Record) {
					continue
				}
				if x.drop {
					index.Drop(o.Record, curate.Contaminated)
				}
				o.Words = s.Hide(o.Words)
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

// ReadOverlaps reads the list of overlaps. If the overlapping records are dropped, details describes the overlaps of
// the first stage.MaxListed records, keyed by ordinal.
func ReadOverlaps(folder runfolder.Folder) (c *runfolder.Contamination, details map[uint64]string, err error) {
	f, err := durable.Open(folder.Contamination())
	if err != nil {
		return nil, nil, exit.Environmentf("cannot read the overlaps: %w", err)
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
		return nil, nil, exit.Environmentf("cannot read %s: %w", folder.Contamination(), err)
	}
	return c, details, nil
}
