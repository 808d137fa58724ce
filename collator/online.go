package collator

import (
	"context"
	"iter"
	"slices"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/collator/batch"
	"github.com/nat-go/nat-go/internal/fanout"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// Online makes the batches of records in memory, for a training loop that passes in one step's records: at most one
// batch per channel, with all rows of the records in the order of their examples (Origin.Row). Apart from that order
// the rows are those of Collate. A channel whose batch would exceed BatchTokens is an error, not several batches.
func (c *Collator) Online(
	ctx context.Context, groups iter.Seq2[[]Item, error], dropped func(ledger.Drop),
) (*batch.Assembled, *Result, error) {
	sum := newSummary(dropped)
	type placed struct {
		*batch.Row
		at int64
	}
	rows := map[builders.Kind][]placed{}
	tokens := map[builders.Kind]int{} // of all sides
	take := func(items []Item, outcomes []outcome) error {
		for i := range outcomes {
			it := &items[i]
			about := it.subject()
			group, made := sum.book(&about, it.Dropped, &outcomes[i])
			for k := range made {
				if made[k].Meta.RL != nil {
					made[k].Meta.RL.Group = group
				}
				kind := it.Record.Record.Kind()
				rows[kind] = append(rows[kind], placed{&made[k], it.Record.Origin.Row})
				for _, s := range made[k].Sides {
					tokens[kind] += len(s.IDs)
				}
				if n := tokens[kind]; n > c.cfg.BatchTokens { // the rest would be wasted work
					return &batch.TooLarge{Channel: channelOf(kind), Tokens: n, Budget: c.cfg.BatchTokens}
				}
			}
		}
		return nil
	}
	worker := func() fanout.Worker[[]Item, []outcome] {
		stop := lockThread()
		w := &worker{Collator: c}
		return fanout.Worker[[]Item, []outcome]{
			Work: func(items []Item) ([]outcome, error) { return w.outcomes(items), nil }, Stop: stop,
		}
	}
	workers := max(1, c.cfg.Workers)
	if err := fanout.Ordered(ctx, workers, 4*workers, numbered(groups), worker, take); err != nil {
		return nil, nil, err
	}
	spec := c.spec(sum)
	res := &Result{Counts: map[string]batch.Count{}, Accounts: sum.accounts(), Stats: sum.stats}
	out := &batch.Assembled{}
	for _, ch := range channels {
		all := rows[ch.Kind()]
		if len(all) == 0 {
			continue
		}
		slices.SortStableFunc(all, func(a, b placed) int { return int(a.at - b.at) })
		list := make([]*batch.Row, len(all))
		for i := range all {
			list[i] = all[i].Row
		}
		count, err := out.Add(&spec, ch.Batch(), batch.Train, list)
		if err != nil {
			return nil, nil, err
		}
		res.Counts[ch.Batch().Name+"/"+batch.Train.String()] = count
	}
	return out, res, nil
}

// channels are the channels for the kinds of records.
var channels = []channel{demonstrations{}, rollouts{}, distillations{}, preferences{}}

// channelOf returns the name of the channel that records of a kind go to.
func channelOf(kind builders.Kind) string {
	for _, ch := range channels {
		if ch.Kind() == kind {
			return ch.Batch().Name
		}
	}
	return kind.String()
}

// Model identifies the model that rows are made for: the fingerprint of its chat template, the pad id, and the number
// that all ids are below.
func (c *Collator) Model() (template string, pad, vocab int64) {
	return c.render.Fingerprint(), c.pad, c.vocab
}
