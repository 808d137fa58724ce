package finetune

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/zeebo/xxh3"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/curate"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/recordlog"
	"github.com/nat-go/nat-go/internal/durable"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// openIndex makes what the groups of the log are taken into as they are built, or read again.
func (r *run) openIndex() (err error) {
	if r.drops, err = newDropFile(r.plan.folder.Dropped(), r.book); err != nil {
		return exit.Environmentf("can't write the list of drops: %w", err)
	}
	rules := r.plan.rules
	rules.Name = func(ordinal uint64) string { return r.exampleOf(ordinal) }
	r.index, err = curate.NewIndex(rules, string(r.plan.folder))
	return err
}

// curate decides what becomes of every record in the log.
func (r *run) curate(context.Context) error {
	var err error
	r.decisions, err = r.index.Decide()
	r.index.Close()
	r.index = nil
	var split *curate.SplitError
	switch {
	case errors.As(err, &split):
		return exit.Failedf("dataset.split: %w", err)
	case err != nil:
		return err
	}
	if w := r.decisions.Warning; w != "" {
		r.warn("%s", w)
	}
	if err := r.writeDecisions(); err != nil {
		return exit.Environmentf("can't write the decisions: %w", err)
	}
	for _, w := range r.seen.Warnings() {
		r.warn("%s", w)
	}
	for _, a := range r.seen.Accounts() {
		r.book.In(a.Stage, a.Unit, a.In)
		if a.Unit != unitExample { // those are counted as they arrive in the log
			r.book.Out(a.Stage, a.Unit, a.Out)
		}
	}
	return nil
}

func (r *run) writeDecisions() error {
	f, err := durable.Create(r.plan.folder.Decisions())
	if err != nil {
		return err
	}
	if _, err := r.decisions.WriteTo(f); err != nil {
		f.Abort()
		return err
	}
	return f.Commit()
}

// replay takes in the groups that the log has already.
func (r *run) replay(ctx context.Context) error {
	log, err := recordlog.NewReader(r.plan.folder.Records())
	if err != nil {
		return exit.With(exit.Environment, err)
	}
	defer log.Close()
	for {
		g, err := log.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return exit.With(exit.Environment, err)
		case ctx.Err() != nil:
			return context.Cause(ctx)
		}
		if err := r.take(g); err != nil {
			return err
		}
	}
}

// take books what a group of the log holds - its drops, accounts, the builders' counters, NAT's view of the collection
// runs - and enters its records into the index.
func (r *run) take(g *recordlog.Group) error {
	for _, d := range g.Drops {
		r.drops.add(d)
	}
	for _, a := range g.Accounts {
		r.book.In(a.Stage, a.Unit, a.In)
		r.book.Out(a.Stage, a.Unit, a.Out)
	}
	for _, c := range g.Counts {
		if r.counters[c.Builder] == nil {
			r.counters[c.Builder] = map[string]int64{}
		}
		r.counters[c.Builder][c.Name] += c.N
	}
	if r.plan.Compat && g.Key != "" {
		r.metrics = append(r.metrics, natMetrics(r.plan.RunID, g))
	}
	for i := range g.Records {
		p, ok := g.Records[i].Record.(*builders.Preference)
		if !ok {
			continue
		}
		k := g.Records[i].Origin.Run
		if n := len(r.runs); n == 0 || r.runs[n-1].run != k {
			r.runs = append(r.runs, collected{run: k})
		}
		r.runs[len(r.runs)-1].add(p.Reward)
	}
	return r.enter(g)
}

// enter puts what curation has to know of a group's records into the index.
func (r *run) enter(g *recordlog.Group) error {
	r.book.In(ledger.Gate, unitRecord, int64(len(g.Records)))
	var at *builders.Origin
	var task, example [16]byte
	var scoreName string
	var score [8]byte
	for i, h := range g.Hashes() {
		rec := &g.Records[i]
		if rec.Origin != at {
			at = rec.Origin
			example = xxh3.HashString128(at.Example).Bytes()
			task = example
			if at.Task != "" {
				task = xxh3.HashString128("task\x00" + at.Task).Bytes()
			}
		}
		e := curate.Entry{
			Ordinal: g.First + uint64(i), Kind: rec.Record.Kind(), Content: h.Content, Prompt: h.Prompt,
			Chosen: h.Chosen, Rejected: h.Rejected, Task: task, Example: example,
		}
		if p, ok := rec.Record.(*builders.Preference); ok {
			if p.ScoreName != scoreName || i == 0 {
				scoreName = p.ScoreName
				sum := xxh3.HashString128(scoreName).Bytes()
				copy(score[:], sum[:])
			}
			e.Score = score
		}
		if !r.plan.Compat {
			if reason, _ := curate.Gate(rec); reason != "" {
				e.Drop = curate.Dropped(reason)
			}
		}
		if err := r.index.Add(e); err != nil {
			return err
		}
	}
	return nil
}

// exampleOf names the example of a record, for an error.
func (r *run) exampleOf(ordinal uint64) string {
	log, err := recordlog.NewReader(r.plan.folder.Records())
	if err != nil {
		return fmt.Sprintf("record %d", ordinal)
	}
	defer log.Close()
	for {
		g, err := log.Next()
		if err != nil {
			return fmt.Sprintf("record %d", ordinal)
		}
		if i := ordinal - g.First; i < uint64(len(g.Records)) {
			return fmt.Sprintf("example %q", g.Records[i].Origin.Example)
		}
	}
}

// settleDecisions books the decisions, and lists the records dropped by them.
func (r *run) settleDecisions(g *recordlog.Group) {
	defer r.writing(g.First + uint64(len(g.Records)))
	var passed, kept int64 // the gate; all of it
	for i := range g.Records {
		d := r.decisions.At(g.First + uint64(i))
		reason, dropped := d.Reason()
		atGate := dropped && !curatedAway(reason)
		if !atGate {
			passed++
		}
		if !dropped {
			kept++
			continue
		}
		rec := &g.Records[i]
		o := rec.Origin
		drop := ledger.Drop{
			Stage: ledger.Curate, Reason: reason, Unit: unitRecord, Run: o.Run, Example: o.Example,
			Turn: rec.Record.Header().Turn, Index: -1, Builder: o.Builder, File: o.File, Offset: o.Offset,
		}
		if atGate {
			drop.Stage = ledger.Gate
			_, drop.Detail = curate.Gate(rec)
		}
		r.drops.add(drop)
	}
	r.book.Out(ledger.Gate, unitRecord, passed)
	r.book.In(ledger.Curate, unitRecord, passed)
	r.book.Out(ledger.Curate, unitRecord, kept)
}

func curatedAway(r ledger.Reason) bool {
	return r == ledger.Duplicate || r == ledger.Contradiction || r == ledger.NotSampled
}
