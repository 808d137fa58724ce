package collator

import (
	"cmp"
	"context"
	"iter"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/collator/batch"
	"github.com/nat-go/nat-go/internal/fanout"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// Result describes the batches that Collate wrote.
type Result struct {
	Counts   map[string]batch.Count // by "channel/split"
	Accounts []ledger.Account       // accounts of stage collate, in records and in turns
	Stats    Stats
	Steps    int // step files
	Apart    int // sdpo rows without a matching row in a step by example
}

// Stats are counts over the rows as they were made.
type Stats struct {
	IDs      map[string]int64 `json:"ids"`             // "sampled", "rendered"
	OnPolicy map[string]int64 `json:"on_policy"`       // same, other, unknown
	Args     map[string]int64 `json:"args"`            // how tool-call arguments survived rendering
	Flags    map[string]int64 `json:"flags,omitempty"` // over rows, as in row_info
	Open     int64            `json:"open,omitempty"`  // trained turns without a stop token at the end
	LeftOut  LeftOut          `json:"left_out"`        // the parts that the template doesn't show
	Sizes    Sizes            `json:"sizes,omitzero"`  // of the rows, uncut
	Forward  sharing          `json:"forward,omitzero"`
}

// LeftOut counts the parts of messages that a template omits from rows.
type LeftOut struct {
	Reasoning int64 `json:"reasoning"` // trained turns without their recorded reasoning
	Calls     int64 `json:"calls"`     // assistant messages without their calls, once per record
}

// Collate makes rows of records and writes them as batches under dir/batches, index.jsonl last. The records come in
// groups, in order; each must stay unchanged until Collate returns or drops its last reference to it, so records can't
// share memory that the caller reuses. Records of a kind without a channel must not be passed (see Collates).
//
// dropped is called in the order of the records, from a single goroutine. scratch is a folder for temporary files,
// about as large as the output. Everything written depends on the items and the configuration alone.
func (c *Collator) Collate(
	ctx context.Context, groups iter.Seq2[[]Item, error], dir, scratch string, dropped func(ledger.Drop),
) (*Result, error) {
	spool, err := batch.NewSpool(scratch, c.cfg.Order)
	if err != nil {
		return nil, err
	}
	defer spool.Close()
	sum := newSummary(dropped)
	if err := c.spool(ctx, groups, spool, sum); err != nil {
		return nil, err
	}
	return c.write(ctx, spool, sum, dir)
}

// write writes the batches of a spool's rows.
func (c *Collator) write(ctx context.Context, spool *batch.Spool, sum *summary, dir string) (*Result, error) {
	spec := c.spec(sum)
	spec.Dir = filepath.Join(dir, "batches")
	counts, err := spool.Write(ctx, spec)
	if err != nil {
		return nil, err
	}
	res := &Result{Counts: counts, Accounts: sum.accounts(), Stats: sum.stats}
	if c.cfg.Steps {
		res.Steps, res.Apart, err = batch.WriteSteps(spec.Dir, c.cfg.ByExample)
	}
	return res, err
}

// spec describes how to make batches of the rows recorded in sum.
func (c *Collator) spec(sum *summary) batch.Spec {
	spec := batch.Spec{
		Budget: c.cfg.BatchTokens, Layout: c.cfg.Layout, Form: c.cfg.Form, Workers: c.cfg.Workers,
		ByExample: c.cfg.ByExample,
		PadID:     c.pad, VocabSize: c.vocab, Terminators: c.ends,
		Tokenizer: c.cfg.Tokenizer.Fingerprint(), Template: c.render.Fingerprint(),
		Finish: func(r *batch.Row) error {
			if r.Meta.RL != nil {
				sum.tasks.score(c.cfg.Advantages, r.Meta.RL)
			}
			return nil
		},
	}
	if c.cfg.Reference != nil {
		spec.Reference = c.cfg.Reference.Fingerprint
	}
	return spec
}

// spool makes the rows, in parallel over groups, and spools them in order.
func (c *Collator) spool(ctx context.Context, groups iter.Seq2[[]Item, error], spool *batch.Spool, sum *summary) error {
	workers := max(1, c.cfg.Workers)
	take := func(items []Item, outcomes []outcome) error {
		defer sum.endGroup()
		spool.BeginGroup()
		for i := range outcomes {
			it, o := &items[i], &outcomes[i]
			about := it.subject()
			group, rows := sum.book(&about, it.Dropped, &o.counts)
			for k := range rows {
				o.encoded[k].SetOrdinal(it.ordinal)
				if rows[k].RL {
					o.encoded[k].SetGroup(group)
				}
				ch := c.channels[it.Record.Record.Kind()].Batch()
				if err := spool.Add(ch, it.Split, o.encoded[k]); err != nil {
					return err
				}
			}
		}
		return nil
	}
	return fanout.Ordered(ctx, workers, 4*workers, numbered(groups), c.worker, take)
}

// numbered assigns ordinals to the records.
func numbered(groups iter.Seq2[[]Item, error]) iter.Seq2[[]Item, error] {
	return func(yield func([]Item, error) bool) {
		ordinal := int64(0)
		for items, err := range groups {
			for i := range items {
				items[i].ordinal = ordinal
				ordinal++
			}
			if !yield(items, err) {
				return
			}
		}
	}
}

// worker makes rows in its own goroutine.
func (c *Collator) worker() fanout.Worker[[]Item, []outcome] {
	stop := lockThread()
	w := &worker{Collator: c}
	return fanout.Worker[[]Item, []outcome]{
		Work: func(items []Item) ([]outcome, error) {
			outcomes := w.outcomes(items)
			return outcomes, w.encode(items, outcomes)
		},
		Stop: stop,
	}
}

// lockThread keeps a worker on its thread: the library's memory is per thread, and cold on any other.
func lockThread() (unlock func()) {
	runtime.LockOSThread()
	return runtime.UnlockOSThread
}

func (w *worker) outcomes(items []Item) []outcome {
	out := make([]outcome, len(items))
	w.pairs, w.sites = pairCache{}, nil
	for i := range items {
		if d, ok := items[i].Record.Record.(*builders.Distillation); ok {
			for k := range d.Sites {
				w.sites = append(w.sites, &d.Sites[k])
			}
		}
	}
	for i := range items {
		it := &items[i]
		if it.Dropped {
			continue
		}
		ch := w.channels[it.Record.Record.Kind()]
		if ch == nil {
			out[i] = refused(refuse(InvariantBroken, "no channel accepts %s records", it.Record.Record.Kind()))
			continue
		}
		w.sizes = w.sizes[:0]
		out[i] = ch.Rows(w, it)
		out[i].Sizes = slices.Clone(w.sizes)
		out[i].count()
	}
	share(out)
	return out
}

// encode encodes the rows for the spool.
func (w *worker) encode(items []Item, outcomes []outcome) error {
	for i := range outcomes {
		o := &outcomes[i]
		for k := range o.Rows {
			e, err := batch.Encode(w.channels[items[i].Record.Record.Kind()].Batch(), &o.Rows[k])
			if err != nil {
				return err
			}
			o.encoded = append(o.encoded, e)
		}
		o.Rows = nil // only their counts are used again
	}
	return nil
}

// summary counts outcomes as they arrive, in order.
type summary struct {
	dropped func(ledger.Drop)
	stats   Stats
	tasks   tasks
	records ledger.Account
	turns   ledger.Account
	sites   ledger.Account
	keys    ledger.Account // records that state something untrue
	group   []sharedRow    // of the current group
}

func newSummary(dropped func(ledger.Drop)) *summary {
	if dropped == nil {
		dropped = func(ledger.Drop) {}
	}
	return &summary{
		dropped: dropped,
		stats: Stats{
			IDs: map[string]int64{}, OnPolicy: map[string]int64{}, Args: map[string]int64{}, Flags: map[string]int64{},
		},
		records: ledger.Account{Stage: ledger.Collate, Unit: "record"},
		turns:   ledger.Account{Stage: ledger.Collate, Unit: "turn"},
		sites:   ledger.Account{Stage: ledger.Collate, Unit: "site"},
		keys:    ledger.Account{Stage: ledger.Collate, Unit: "key"},
	}
}

func (s *summary) accounts() []ledger.Account {
	out := []ledger.Account{s.records, s.turns, s.sites}
	if s.keys.In > 0 {
		out = append(out, s.keys)
	}
	return out
}

// subject describes an item to the ledger.
type subject struct {
	Drop   *ledger.Drop `json:",omitempty"` // the drop, except for unit, reason and detail
	Task   *taskKey     `json:",omitempty"` // of a rollout
	Reward *float64     `json:",omitempty"`
	TopK   *int         `json:",omitempty"` // the task's request to a teacher
}

func (it *Item) subject() subject {
	o := it.Record.Origin
	s := subject{Drop: &ledger.Drop{
		Stage: ledger.Collate, Run: o.Run, Example: o.Example, Turn: it.Record.Record.Header().Turn, Index: -1,
		Builder: o.Builder, File: o.File, Offset: o.Offset,
	}}
	if r, ok := it.Record.Record.(*builders.Rollout); ok {
		task := taskOf(it, r)
		s.Task, s.Reward, s.TopK = &task, r.Reward, o.TeacherTopK
	}
	return s
}

// drop records the drop of one of the subject's units.
func (s *subject) drop(unit string, why *cause) ledger.Drop {
	d := *s.Drop
	d.Unit, d.Reason, d.Detail = unit, why.Reason, why.Detail
	return d
}

// book records an item's outcome. It returns the rows that go into batches, and the number of a rollout's task.
func (s *summary) book(it *subject, dropped bool, o *counts) (group int64, rows []rowCounts) {
	group = -1
	if it.Task != nil {
		group = s.tasks.add(*it.Task, it.Reward)
		if asked := it.TopK; s.tasks.ask(group, asked) {
			s.keys.In++
			s.dropped(it.drop(s.keys.Unit, refuse(KeyDiffers, "group_overrides.teacher_top_k is %d; an earlier "+
				"rollout of the task has %d", *asked, *s.tasks.list[group].topK)))
		}
	}
	s.group = s.stats.Forward.count(o, !dropped && o.Refused == nil, s.group)
	if dropped {
		return group, nil
	}
	s.records.In++
	s.turns.In += int64(o.Turns)
	s.turns.Out += int64(o.Turns - len(o.TurnDrops))
	for _, d := range o.TurnDrops {
		s.dropped(it.drop("turn", &d))
	}
	for _, n := range o.Sizes {
		s.stats.Sizes.Add(n)
	}
	s.sites.In += int64(o.Sites)
	s.sites.Out += int64(o.Sites - len(o.SiteDrops))
	for _, d := range o.SiteDrops {
		s.dropped(it.drop("site", &d))
	}
	if o.Refused != nil {
		s.dropped(it.drop("record", o.Refused))
		return group, nil
	}
	s.records.Out++
	s.stats.LeftOut.Reasoning += int64(o.Reasoning)
	s.stats.LeftOut.Calls += int64(o.Calls)
	for i := range o.Made {
		r := &o.Made[i]
		s.stats.IDs[r.IDs]++
		s.stats.OnPolicy[r.OnPolicy]++
		s.stats.Args[r.Args]++
		for _, f := range r.Flags {
			s.stats.Flags[f]++
		}
		s.stats.Open += int64(r.Open)
	}
	return group, o.Made
}

// endGroup counts the tokens that the group's records share.
func (s *summary) endGroup() {
	s.stats.Forward.endGroup(s.group)
	s.group = s.group[:0]
}

func taskOf(it *Item, r *builders.Rollout) taskKey {
	o := it.Record.Origin
	task := cmp.Or(r.Task, o.Task)
	if task != "" {
		return taskKey{Builder: o.Builder, Task: task}
	}
	return taskKey{Builder: o.Builder, Example: o.Example, Run: o.Run}
}
