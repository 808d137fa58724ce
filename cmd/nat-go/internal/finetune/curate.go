package finetune

import (
	"context"
	"errors"
	"fmt"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/curate"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/recordlog"
	"github.com/nat-go/nat-go/internal/durable"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// curate decides what becomes of every record in the log.
func (r *run) curate(ctx context.Context, b *built) (*curate.Decisions, error) {
	defer b.index.Close()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	d, err := b.index.Decide()
	var split *curate.SplitError
	switch {
	case errors.As(err, &split):
		return nil, exit.Failedf("dataset.split: %w", err)
	case err != nil:
		return nil, err
	}
	b.index = nil // its memory is needed
	if d.Warning != "" {
		r.warn("%s", d.Warning)
	}
	if err := r.writeDecisions(d); err != nil {
		return nil, exit.Environmentf("can't write the decisions: %w", err)
	}
	for _, w := range b.seen.Warnings() {
		r.warn("%s", w)
	}
	for x, n := range d.Counts() {
		r.books.In(ledger.Curate, unitRecord, 0)
		switch reason, dropped := x.Reason(); {
		case !dropped:
			r.books.In(ledger.Curate, unitRecord, n)
			r.books.Out(ledger.Curate, unitRecord, n)
		case curatedAway(reason):
			r.books.In(ledger.Curate, unitRecord, n)
			r.books.Drop(ledger.Drop{Stage: ledger.Curate, Reason: reason, Unit: unitRecord, Count: n})
		}
	}
	return d, nil
}

func (r *run) writeDecisions(d *curate.Decisions) error {
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

// listDropped lists the records of a group that the gate stopped or curation dropped, which are booked already.
func (r *run) listDropped(g *recordlog.Group, d *curate.Decisions) {
	for i := range g.Records {
		reason, dropped := d.At(g.First + uint64(i)).Reason()
		if !dropped {
			continue
		}
		rec := &g.Records[i]
		o := rec.Origin
		drop := ledger.Drop{
			Stage: ledger.Curate, Reason: reason, Unit: unitRecord, Run: o.Run, Example: o.Example,
			Turn: rec.Record.Header().Turn, Index: -1, Builder: o.Builder, File: o.File, Offset: o.Offset,
		}
		if !curatedAway(reason) {
			drop.Stage = ledger.Gate
			_, drop.Detail = curate.Gate(rec)
		}
		r.books.list(drop)
	}
}

func curatedAway(r ledger.Reason) bool {
	return r == curate.Duplicate || r == curate.Contradiction || r == curate.NotSampled
}

// exampleOf names the example of a record, for an error.
func (r *run) exampleOf(ordinal uint64) string {
	for g, err := range recordlog.Groups(r.plan.folder.Records()) {
		if err != nil {
			break
		}
		if i := ordinal - g.First; i < uint64(len(g.Records)) {
			return fmt.Sprintf("example %q", g.Records[i].Origin.Example)
		}
	}
	return fmt.Sprintf("record %d", ordinal)
}
