package finetune

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/curate"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/marks"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/recordlog"
	"github.com/nat-go/nat-go/internal/durable"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// curation is the stage that decides which records to keep.
type curation struct{ *run }

// curate decides on every record in the log.
func (r curation) curate(ctx context.Context) error {
	b := r.built
	d, err := r.decide(ctx, b)
	if err == nil && r.benchmarks != nil {
		r.out.made.Overlaps, r.plan.overlaps, err = readOverlaps(r.plan.folder)
	}
	if err != nil {
		return err
	}
	r.decisions = d
	b.index.Close()
	b.index = nil // free its memory
	r.warnOfIdleMarks(b.marked)
	if d.Warning != "" {
		r.out.warn("%s", d.Warning)
	}
	for _, w := range b.at.Seen.Warnings() {
		r.out.warn("%s", w)
	}
	for x, n := range d.Counts() {
		r.out.books.In(ledger.Curate, unitRecord, 0)
		switch reason, dropped := x.Reason(); {
		case !dropped:
			r.out.books.In(ledger.Curate, unitRecord, n)
			r.out.books.Out(ledger.Curate, unitRecord, n)
		case curate.StageOf(reason) == ledger.Curate:
			r.out.books.In(ledger.Curate, unitRecord, n)
			r.out.books.Drop(ledger.Drop{Stage: ledger.Curate, Reason: reason, Unit: unitRecord, Count: n})
		}
	}
	r.out.info("records curated", "kept", d.Kept())
	return nil
}

// decide makes the decisions, or reads them if an earlier merge of the shards made them.
func (r curation) decide(ctx context.Context, b *recording) (*curate.Decisions, error) {
	if m := r.plan.merging; r.plan.isDecided() {
		return cutDecisions(m.dir, m.cut, r.plan.folder)
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
	if err := r.writeDecisions(d); err != nil {
		return nil, exit.Environmentf("can't write the decisions: %w", err)
	}
	return d, nil
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
	if m.seen == nil {
		m.seen = map[string]bool{}
	}
	m.seen[mark.Record] = true
	if mark.Mark == marks.Reject {
		m.rejected = append(m.rejected, ordinal)
	}
}

// warnOfIdleMarks adds a warning if there are marks that don't match any record.
func (r curation) warnOfIdleMarks(m marked) {
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
		r.out.warn("%s of %s do not match any record of this run: %s", ledger.Quantity(int64(len(idle)), "mark"),
			r.plan.config.Dataset.Marks, strings.Join(idle[:min(len(idle), 3)], ", "))
	}
}

func (r curation) writeDecisions(d *curate.Decisions) error {
	f, err := durable.Create(r.plan.folder.Decisions())
	if err != nil {
		return err
	}
	if _, err := d.WriteTo(f); err != nil {
		f.Abort()
		return err
	}
	return f.Commit()
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
