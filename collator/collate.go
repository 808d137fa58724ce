package collator

import (
	"context"
	"iter"
	"path/filepath"
	"runtime"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/collator/batch"
	"github.com/nat-go/nat-go/internal/fanout"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// Result is what Collate wrote.
type Result struct {
	Counts   map[string]batch.Count // by "channel/split"
	Accounts []ledger.Account       // in and out of stage collate, in records and in turns; the drops were handed over
	Stats    Stats
	Steps    int // step files
}

// Stats are counted over rows as they were made.
type Stats struct {
	IDs      map[string]int64 `json:"ids"`             // "sampled", "rendered"
	OnPolicy map[string]int64 `json:"on_policy"`       // same, other, unknown
	Args     map[string]int64 `json:"args"`            // how tool-call arguments came through
	Flags    map[string]int64 `json:"flags,omitempty"` // of rows, as row_info has them
	Open     int64            `json:"open,omitempty"`  // turns trained that end in no stop token
	LeftOut  LeftOut          `json:"left_out"`        // what the template doesn't show
}

// LeftOut counts what a template doesn't show of the messages that rows are made of.
type LeftOut struct {
	Reasoning int64 `json:"reasoning"` // trained turns without the reasoning that was recorded
	Calls     int64 `json:"calls"`     // assistant messages without their calls, once a record
}

// Collate makes rows of records and writes them as batches under dir/batches, index.jsonl last. The records come in
// groups, in their order; each must stay as it is until Collate returns or drops its last reference to it, so they
// can't share memory that the caller uses again. Records of a kind without a channel must not be given (see Collates).
//
// dropped is called in the order of the records, from one goroutine. scratch is a folder for temporary files, of about
// the size of what is written. Everything written depends on the items and the configuration alone.
func (c *Collator) Collate(
	ctx context.Context, groups iter.Seq2[[]Item, error], dir, scratch string, dropped func(ledger.Drop),
) (*Result, error) {
	return c.CollatePrepared(ctx, unprepared(groups), dir, scratch, dropped)
}

func unprepared(groups iter.Seq2[[]Item, error]) iter.Seq2[Group, error] {
	return func(yield func(Group, error) bool) {
		for items, err := range groups {
			if !yield(Group{Items: items}, err) {
				return
			}
		}
	}
}

// CollatePrepared is Collate for groups that Prepare was given before, in whatever process, by a Collator of the same
// configuration: what it made of them is taken as it is. Everything written is what Collate writes.
func (c *Collator) CollatePrepared(
	ctx context.Context, groups iter.Seq2[Group, error], dir, scratch string, dropped func(ledger.Drop),
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
	spec := c.spec(sum)
	spec.Dir = filepath.Join(dir, "batches")
	counts, err := spool.Write(ctx, spec)
	if err != nil {
		return nil, err
	}
	res := &Result{Counts: counts, Accounts: sum.accounts(), Stats: sum.stats}
	if c.cfg.Steps {
		res.Steps, err = batch.WriteSteps(spec.Dir)
	}
	return res, err
}

// spec says how batches of the rows that sum has booked are made.
func (c *Collator) spec(sum *summary) batch.Spec {
	spec := batch.Spec{
		Budget: c.cfg.BatchTokens, Layout: c.cfg.Layout, Form: c.cfg.Form, Workers: c.cfg.Workers,
		PadID: c.pad, VocabSize: c.vocab, Terminators: c.ends,
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
func (c *Collator) spool(ctx context.Context, groups iter.Seq2[Group, error], spool *batch.Spool, sum *summary) error {
	workers := max(1, c.cfg.Workers)
	take := func(g Group, outcomes []outcome) error {
		for i := range outcomes {
			it, o := &g.Items[i], &outcomes[i]
			group, rows := sum.book(it, o)
			for k := range rows {
				o.encoded[k].SetOrdinal(it.ordinal)
				if rows[k].Meta.RL != nil {
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

// numbered gives the records their ordinals.
func numbered(groups iter.Seq2[Group, error]) iter.Seq2[Group, error] {
	return func(yield func(Group, error) bool) {
		ordinal := int64(0)
		for g, err := range groups {
			for i := range g.Items {
				g.Items[i].ordinal = ordinal
				ordinal++
			}
			if !yield(g, err) {
				return
			}
		}
	}
}

// worker makes rows in a goroutine of its own.
func (c *Collator) worker() fanout.Worker[Group, []outcome] {
	stop := lockThread()
	w := &worker{Collator: c}
	return fanout.Worker[Group, []outcome]{
		Work: func(g Group) ([]outcome, error) {
			if g.Prepared != nil {
				return readOutcomes(g.Prepared, g.Items)
			}
			outcomes := w.outcomes(g.Items)
			return outcomes, w.encode(g.Items, outcomes)
		},
		Stop: stop,
	}
}

// lockThread keeps a worker on its thread: the library's memory is that thread's, and on another it is cold.
func lockThread() (unlock func()) {
	runtime.LockOSThread()
	return runtime.UnlockOSThread
}

func (w *worker) outcomes(items []Item) []outcome {
	out := make([]outcome, len(items))
	w.pairs = pairCache{}
	for i := range items {
		it := &items[i]
		if it.Dropped {
			continue
		}
		ch := w.channels[it.Record.Record.Kind()]
		if ch == nil {
			out[i] = refused(refuse(InvariantBroken, "no channel takes %s records", it.Record.Record.Kind()))
			continue
		}
		out[i] = ch.Rows(w, it)
	}
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
			o.Rows[k].Sides = nil // only what is counted is looked at again
		}
	}
	return nil
}

// summary is what is counted as outcomes arrive, in order.
type summary struct {
	dropped func(ledger.Drop)
	stats   Stats
	tasks   tasks
	records ledger.Account
	turns   ledger.Account
	sites   ledger.Account
	keys    ledger.Account // that say something which does not hold
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

// book books what became of an item. It returns the rows that go into batches, and the number of a rollout's task.
func (s *summary) book(it *Item, o *outcome) (group int64, rows []batch.Row) {
	group = -1
	if r, ok := it.Record.Record.(*builders.Rollout); ok {
		group = s.tasks.add(taskOf(it, r), r.Reward)
		if asked := it.Record.Origin.TeacherTopK; s.tasks.ask(group, asked) {
			s.keys.In++
			s.dropped(dropOf(it, s.keys.Unit, refuse(KeyDiffers, "group_overrides.teacher_top_k is %d; an earlier rollout of "+
				"the task has %d", *asked, *s.tasks.list[group].topK)))
		}
	}
	if it.Dropped {
		return group, nil
	}
	s.records.In++
	s.turns.In += int64(o.Turns)
	s.turns.Out += int64(o.Turns - len(o.TurnDrops))
	for _, d := range o.TurnDrops {
		s.dropped(dropOf(it, "turn", &d))
	}
	s.sites.In += int64(o.Sites)
	s.sites.Out += int64(o.Sites - len(o.SiteDrops))
	for _, d := range o.SiteDrops {
		s.dropped(dropOf(it, "site", &d))
	}
	if o.Refused != nil {
		s.dropped(dropOf(it, "record", o.Refused))
		return group, nil
	}
	s.records.Out++
	s.stats.LeftOut.Reasoning += int64(o.left.reasoning)
	s.stats.LeftOut.Calls += int64(o.left.calls)
	for i := range o.Rows {
		r := &o.Rows[i]
		s.stats.IDs[r.Meta.IDs]++
		s.stats.OnPolicy[r.Meta.OnPolicy]++
		s.stats.Args[r.Meta.Args]++
		for _, f := range r.Meta.Flags {
			s.stats.Flags[f]++
		}
		s.stats.Open += int64(len(r.Meta.Open))
	}
	return group, o.Rows
}

func taskOf(it *Item, r *builders.Rollout) taskKey {
	o := it.Record.Origin
	task := r.Task
	if task == "" {
		task = o.Task
	}
	if task != "" {
		return taskKey{builder: o.Builder, task: task}
	}
	return taskKey{builder: o.Builder, example: o.Example, run: o.Run}
}

func dropOf(it *Item, unit string, r *cause) ledger.Drop {
	o := it.Record.Origin
	return ledger.Drop{
		Stage:   ledger.Collate,
		Reason:  r.Reason,
		Unit:    unit,
		Run:     o.Run,
		Example: o.Example,
		Turn:    it.Record.Record.Header().Turn,
		Index:   -1,
		Builder: o.Builder,
		File:    o.File,
		Offset:  o.Offset,
		Detail:  r.Detail,
	}
}
