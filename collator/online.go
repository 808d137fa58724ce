package collator

import (
	"context"
	"iter"
	"slices"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/collator/batch"
	"github.com/nat-go/nat-go/internal/lists"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// Online makes batches in memory, for a training loop that passes in one step's records. It makes at most one batch
// per channel, with all the records' rows in example order (Origin.Row). Except for their order, the rows are the
// same as Collate's. If a channel's batch would exceed BatchTokens, Online returns an error instead of
// splitting it.
func (c *Collator) Online(
	ctx context.Context, groups iter.Seq2[[]Item, error], dropped func(ledger.Drop),
) (*batch.Assembled, *Result, error) {
	sum := newSummary(dropped)
	step := &stepRows{
		sum: sum, budget: c.cfg.BatchTokens, rows: map[builders.Kind][]rowAtPlace{}, tokens: map[builders.Kind]int{},
	}
	start := startWorker(c, func(w *worker, items []Item) ([]outcome, error) { return w.outcomes(items), nil })
	if err := each(ctx, c, groups, start, step.take); err != nil {
		return nil, nil, err
	}
	spec := c.spec(sum)
	res := sum.result(map[string]batch.Count{})
	out := &batch.Assembled{}
	for _, ch := range channels {
		list := step.ordered(ch.kind)
		if len(list) == 0 {
			continue
		}
		count, err := out.Add(&spec, ch.batch, batch.Train, list)
		if err != nil {
			return nil, nil, err
		}
		res.Counts[ch.batch.Name+"/"+batch.Train.String()] = count
	}
	if apart := out.Apart(); len(apart) > 0 {
		res.Apart = len(apart)
		n := int64(len(step.rows[builders.KindDistillation]))
		rows := ledger.Account{Stage: ledger.Collate, Unit: "row", In: n, Out: n - int64(len(apart))}
		res.Accounts = append(res.Accounts, rows)
		for _, r := range apart {
			sum.dropped(ledger.Drop{
				Stage: ledger.Collate, Unit: "row", Reason: NoRolloutRow,
				Run: r.Meta.Run, Example: r.Meta.Example, Index: -1,
				Detail: ledger.Quantity(int64(len(r.Meta.Sites)), "site"),
			})
		}
	}
	return out, res, nil
}

// stepRows collects the rows of one step's records.
type stepRows struct {
	sum    *summary
	budget int // maximum number of tokens in a batch
	rows   map[builders.Kind][]rowAtPlace
	tokens map[builders.Kind]int // number of tokens on all sides

	ordinal int64 // ordinal of the next item
}

// rowAtPlace is a row and the position of its example.
type rowAtPlace struct {
	*batch.Row
	at int64
}

// take adds the outcomes of a group's items.
func (s *stepRows) take(items []Item, outcomes []outcome) error {
	defer s.sum.endGroup()
	for i := range outcomes {
		it := &items[i]
		about := it.subject()
		group, booked := s.sum.book(&about, it.Dropped, &outcomes[i].counts)
		made := outcomes[i].Rows[:len(booked)]
		for k := range made {
			made[k].Meta.Ordinal = s.ordinal
			if made[k].Meta.RL != nil {
				made[k].Meta.RL.Group = group
			}
			kind := it.Record.Record.Kind()
			s.rows[kind] = append(s.rows[kind], rowAtPlace{&made[k], it.Record.Origin.Row})
			for _, side := range made[k].Sides {
				s.tokens[kind] += len(side.IDs)
			}
			if n := s.tokens[kind]; n > s.budget { // stop early: the batch is already too large
				return &batch.TooLarge{Channel: channelOf(kind).batch.Name, Tokens: n, Budget: s.budget}
			}
		}
		s.ordinal++
	}
	return nil
}

// ordered returns a kind's rows in example order.
func (s *stepRows) ordered(kind builders.Kind) []*batch.Row {
	all := s.rows[kind]
	slices.SortStableFunc(all, func(a, b rowAtPlace) int { return int(a.at - b.at) })
	return lists.Map(all, func(r rowAtPlace) *batch.Row { return r.Row })
}

// Model identifies the model that rows are made for. It returns the fingerprint of the model's chat template, the pad
// id, and the vocabulary size, which is larger than any id.
func (c *Collator) Model() (template string, pad, vocab int64) {
	return c.render.Fingerprint(), c.pad, c.vocab
}
