package collator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"path/filepath"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/collator/batch"
	"github.com/nat-go/nat-go/internal/fanout"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// Prepared holds the rows and counts that Prepare made from a group.
type Prepared struct {
	Head []byte // the basis of counts and decisions
	Rows []byte // the encoded rows, back to back
}

// Prepare does the part of Collate that depends only on the group itself, which is nearly all the work: it makes the
// rows for the group's records. put is called in the order of the groups, from one goroutine. Records that curation
// would drop are prepared, too.
func (c *Collator) Prepare(ctx context.Context, groups iter.Seq2[[]Item, error], put func(Prepared) error) error {
	workers := max(1, c.cfg.Workers)
	start := func() fanout.Worker[[]Item, Prepared] {
		w := c.worker()
		return fanout.Worker[[]Item, Prepared]{
			Work: func(items []Item) (Prepared, error) {
				outcomes, err := w.Work(items)
				if err != nil {
					return Prepared{}, err
				}
				return c.keep(items, outcomes)
			},
			Stop: w.Stop,
		}
	}
	return fanout.Ordered(ctx, workers, 4*workers, groups, start, func(_ []Item, p Prepared) error { return put(p) })
}

// prepared is an item with the counts of its outcome and the location of its rows.
type prepared struct {
	subject
	Index int // the item's
	Kind  builders.Kind
	counts
	Rows []batch.Kept `json:",omitempty"` // rows, as many as are counted
}

// keep encodes the outcomes of a group's records.
func (c *Collator) keep(items []Item, outcomes []outcome) (p Prepared, err error) {
	kept := make([]prepared, len(outcomes))
	for i := range outcomes {
		o := &outcomes[i]
		k := &kept[i]
		*k = prepared{
			Index: items[i].Index, Kind: items[i].Record.Record.Kind(), subject: items[i].subject(), counts: o.counts,
		}
		if r := k.Reward; r != nil && (math.IsNaN(*r) || math.IsInf(*r, 0)) {
			k.Reward = nil // a null reward is not counted
		}
		if o.Refused == nil && len(o.TurnDrops) == 0 && len(o.SiteDrops) == 0 && k.TopK == nil {
			k.Drop = nil // not needed
		}
		k.Rows = make([]batch.Kept, len(o.encoded))
		for n, e := range o.encoded {
			p.Rows, k.Rows[n] = e.Append(p.Rows)
			e.Free()
		}
	}
	p.Head, err = json.Marshal(kept)
	return p, err
}

// Reader reads the encoding of a prepared row and verifies its checksum. It may be called concurrently.
type Reader = func(*batch.Kept) ([]byte, error)

// KeptGroup is a group that was prepared, in any process, by a Collator with the same configuration.
type KeptGroup struct {
	Head   []byte // what Prepare made
	File   int    // where its Rows are in the store
	Offset int64
	Decide func(index int) (dropped bool, split batch.Split) // for the item with that Index
}

// readKept decodes a group's head.
func readKept(head []byte) ([]prepared, error) {
	var kept []prepared
	if err := json.Unmarshal(head, &kept); err != nil {
		return nil, fmt.Errorf("damaged group in preparation: %w", err)
	}
	for i := range kept {
		if len(kept[i].Rows) != len(kept[i].Made) {
			return nil, errors.New("damaged group in preparation: rows are missing")
		}
	}
	return kept, nil
}

// Cut holds batches of prepared groups that are cut but not yet written.
type Cut struct {
	collator *Collator
	spool    *batch.Spool
	sum      *summary
}

// CutKept cuts prepared groups into batches using only the lengths of their rows, which stay where they are. dropped is
// as for Collate; scratch is a folder for temporary files that hold a few dozen bytes per row.
func (c *Collator) CutKept(
	ctx context.Context, groups iter.Seq2[KeptGroup, error], rows Reader, scratch string,
	dropped func(ledger.Drop),
) (_ *Cut, err error) {
	cut := &Cut{collator: c, sum: newSummary(dropped)}
	if cut.spool, err = batch.NewSpool(scratch, c.cfg.Order); err != nil {
		return nil, err
	}
	cut.spool.KeptBy(rows)
	workers := max(1, c.cfg.Workers)
	ordinal := int64(0)
	err = fanout.Ordered(ctx, workers, 16*workers, groups, func() fanout.Worker[KeptGroup, []prepared] {
		return fanout.Worker[KeptGroup, []prepared]{
			Work: func(g KeptGroup) ([]prepared, error) { return readKept(g.Head) },
		}
	}, func(g KeptGroup, kept []prepared) error {
		defer cut.sum.endGroup()
		cut.spool.BeginGroup()
		for i := range kept {
			if err := cut.take(&g, &kept[i], ordinal); err != nil {
				return err
			}
			ordinal++
		}
		return nil
	})
	if err != nil {
		cut.Close()
		return nil, err
	}
	return cut, nil
}

// take adds an item of a group whose rows start at the group's offset, and moves the offset past them.
func (cut *Cut) take(g *KeptGroup, k *prepared, ordinal int64) error {
	ch := cut.collator.channels[k.Kind]
	if ch == nil {
		return errors.New("damaged group in preparation: no channel accepts its records")
	}
	dropped, split := g.Decide(k.Index)
	task, booked := cut.sum.book(&k.subject, dropped, &k.counts)
	for i := range k.Rows {
		r := &k.Rows[i]
		r.File, r.Offset, r.Ordinal, r.Group = g.File, g.Offset, ordinal, -1
		g.Offset += int64(r.Bytes)
		if len(booked) == 0 { // no row goes into batches
			continue
		}
		if booked[i].RL {
			r.Group = task
		}
		if err := cut.spool.Keep(ch.Batch(), split, r); err != nil {
			return err
		}
	}
	return nil
}

// Close removes the temporary files.
func (cut *Cut) Close() { cut.spool.Close() }

// result describes the written files, with the batches' counts.
func (cut *Cut) result(counts map[string]batch.Count) *Result {
	return &Result{Counts: counts, Accounts: cut.sum.accounts(), Stats: cut.sum.stats}
}

// Write writes the batches as Collate does.
func (cut *Cut) Write(ctx context.Context, dir string) (*Result, error) {
	return cut.collator.write(ctx, cut.spool, cut.sum, dir)
}

// Divide divides the batches among n processes, each of which calls WriteKept with its part and with scores. The result
// lacks the counts and the steps, which are derived from the output of those processes.
func (cut *Cut) Divide(n int, part func(i int) (io.WriteCloser, error)) (_ *Result, scores []byte, err error) {
	if err := cut.spool.Divide(cut.collator.spec(cut.sum), n, part); err != nil {
		return nil, nil, err
	}
	return cut.result(nil), cut.sum.tasks.encode(), nil
}

// WriteKept writes the batches of a part below dir/batches, without an index: their lines are passed to put, in order,
// with their additions to the counts of "channel/split".
func (c *Collator) WriteKept(
	ctx context.Context, part io.Reader, scores []byte, rows Reader, dir string,
	put func(line []byte, key string, n batch.Count) error,
) error {
	sum := newSummary(nil)
	if err := sum.tasks.decode(scores); err != nil {
		return err
	}
	spec := c.spec(sum)
	spec.Dir = filepath.Join(dir, "batches")
	return spec.WriteKept(ctx, part, rows, put)
}
