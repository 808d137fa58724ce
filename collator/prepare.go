package collator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"path/filepath"
	"slices"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/collator/batch"
	"github.com/nat-go/nat-go/internal/fanout"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// Prepared holds the rows and counts that Prepare made from a group.
type Prepared struct {
	Head []byte // the items as JSON, with their counts
	Rows []byte // the encoded rows, back to back
}

// Prepare does the work of Collate that depends only on a single group, which is most of it. It makes the rows for
// the group's records. put is called in group order, from a single goroutine. Records that curation later drops are
// prepared too.
func (c *Collator) Prepare(ctx context.Context, groups iter.Seq2[[]Item, error], put func(Prepared) error) error {
	start := startWorker(c, func(w *worker, items []Item) (Prepared, error) {
		all, err := w.prepared(items)
		if err != nil {
			return Prepared{}, err
		}
		return pack(all)
	})
	return each(ctx, c, groups, start, func(_ []Item, p Prepared) error { return put(p) })
}

// prepared is an item with its outcome's counts, its rows and the decisions about it.
type prepared struct {
	subject
	Index int // Item.Index
	Kind  builders.Kind
	counts
	Rows []*batch.Encoded `json:",omitempty"` // one for each entry of Made

	dropped bool
	split   batch.Split
}

// pack encodes the items of a group, except for the decisions about them.
func pack(items []prepared) (p Prepared, err error) {
	for i := range items {
		k := &items[i]
		if r := k.Reward; r != nil && !usable(*r) {
			k.Reward = nil // a null reward is not counted
		}
		if k.Refused == nil && len(k.TurnDrops) == 0 && len(k.SiteDrops) == 0 && k.TopK == nil {
			k.Drop = nil // not needed
		}
		for _, e := range k.Rows {
			p.Rows = e.Append(p.Rows)
		}
	}
	p.Head, err = json.Marshal(items)
	for i := range items {
		for _, e := range items[i].Rows {
			e.Free()
		}
	}
	return p, err
}

// Reader reads the encoding of a prepared row and verifies its checksum. It may be called concurrently.
type Reader = func(*batch.Encoded) ([]byte, error)

// KeptGroup is a group that was prepared, in any process, by a Collator with the same configuration.
type KeptGroup struct {
	Head   []byte // Prepared.Head of the group
	File   int    // File and Offset locate Prepared.Rows in the store
	Offset int64
	Decide func(index int) (dropped bool, split batch.Split) // returns the decision on the item with the given Index
}

// unpack decodes a group that pack encoded and adds the decisions on the group's items.
func unpack(g KeptGroup) ([]prepared, error) {
	var items []prepared
	if err := json.Unmarshal(g.Head, &items); err != nil {
		return nil, fmt.Errorf("damaged group in preparation: %w", err)
	}
	for i := range items {
		k := &items[i]
		switch {
		case len(k.Rows) != len(k.Made) || slices.Contains(k.Rows, nil):
			return nil, errors.New("damaged group in preparation: rows are missing")
		case channelOf(k.Kind) == nil:
			return nil, errors.New("damaged group in preparation: no channel accepts its records")
		}
		k.dropped, k.split = g.Decide(k.Index)
		for _, r := range k.Rows {
			r.File, r.Offset = int32(g.File), g.Offset
			g.Offset += int64(r.Bytes)
		}
	}
	return items, nil
}

// Cut holds batches that have been cut but not yet written.
type Cut struct {
	collator *Collator
	spool    *batch.Spool
	sum      *summary
	ordinal  int64 // ordinal of the next item
}

// CutKept cuts prepared groups into batches using only the lengths of their rows. It doesn't read the rows themselves.
// dropped works as in Collate; scratch is a folder for temporary files, which hold a few dozen bytes per row.
func (c *Collator) CutKept(
	ctx context.Context, groups iter.Seq2[KeptGroup, error], rows Reader, scratch string,
	dropped func(ledger.Drop),
) (*Cut, error) {
	worker := func() fanout.Worker[KeptGroup, []prepared] {
		return fanout.Worker[KeptGroup, []prepared]{Work: unpack}
	}
	return newCut(ctx, c, groups, worker, rows, scratch, dropped)
}

// newCut cuts groups into batches, with workers preparing each group's items. rows reads rows that are stored
// elsewhere; if it is nil, the workers make the rows.
func newCut[Group any](
	ctx context.Context, c *Collator, groups iter.Seq2[Group, error], worker func() fanout.Worker[Group, []prepared],
	rows Reader, scratch string, dropped func(ledger.Drop),
) (*Cut, error) {
	spool, err := batch.NewSpool(scratch, c.cfg.Order)
	if err != nil {
		return nil, err
	}
	if rows != nil {
		spool.KeptBy(rows)
	}
	cut := &Cut{collator: c, spool: spool, sum: newSummary(dropped)}
	take := func(_ Group, items []prepared) error { return cut.take(items) }
	if err := each(ctx, c, groups, worker, take); err != nil {
		cut.Close()
		return nil, err
	}
	return cut, nil
}

// take adds a group's items to the accounts and spools the rows that go into batches.
func (cut *Cut) take(items []prepared) error {
	defer cut.sum.endGroup()
	if len(items) > 0 { // the order of the rows must not depend on groups without items
		cut.spool.BeginGroup()
	}
	for i := range items {
		it := &items[i]
		task, booked := cut.sum.book(&it.subject, it.dropped, &it.counts)
		for k := range booked {
			r := it.Rows[k]
			if r.Ordinal, r.Group = cut.ordinal, -1; booked[k].RL {
				r.Group = task
			}
			if err := cut.spool.Add(channelOf(it.Kind).batch, it.split, r); err != nil {
				return err
			}
		}
		cut.ordinal++
	}
	return nil
}

// Close removes the temporary files.
func (cut *Cut) Close() { cut.spool.Close() }

// Write writes the batches as Collate does.
func (cut *Cut) Write(ctx context.Context, dir string) (*Result, error) {
	c := cut.collator
	spec := c.spec(cut.sum)
	spec.Dir = filepath.Join(dir, "batches")
	counts, err := cut.spool.Write(ctx, spec)
	if err != nil {
		return nil, err
	}
	res := cut.sum.result(counts)
	if c.cfg.Steps {
		res.Steps, res.Apart, err = batch.WriteSteps(spec.Dir, c.cfg.ByExample)
	}
	return res, err
}

// Divide divides the batches among n processes, each of which calls WriteKept with its part and the scores. It calls
// save for each part, in order, with a function that writes the part. The result doesn't contain counts or steps yet;
// they are computed later from the output of the processes.
func (cut *Cut) Divide(
	n int, save func(part int, write func(io.Writer) error) error,
) (_ *Result, scores []byte, err error) {
	if err := cut.spool.Divide(cut.collator.spec(cut.sum), n, save); err != nil {
		return nil, nil, err
	}
	return cut.sum.result(nil), cut.sum.tasks.encode(), nil
}

// WriteKept writes a part's batches below dir/batches, without an index. It calls put for each batch, in order, with
// its index line and the amounts to add to the counts for key, which has the form "channel/split".
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
