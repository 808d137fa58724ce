package collator

import (
	"cmp"
	"context"
	"iter"
	"runtime"
	"slices"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/collator/batch"
	"github.com/nat-go/nat-go/internal/fanout"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// Result describes the batches that Collate wrote.
type Result struct {
	Counts   map[string]batch.Count // counts by "channel/split"
	Accounts []ledger.Account       // accounts for the collate stage, in records, turns, sites and keys
	Stats    Stats
	Steps    int // step files
	Apart    int // if each row of a step file is an example, the number of sdpo rows without a row in any step file
}

// Stats contains counts taken from the rows as they were made.
type Stats struct {
	IDs      map[string]int64 `json:"ids"`             // "sampled", "rendered"
	OnPolicy map[string]int64 `json:"on_policy"`       // same, other, unknown
	Args     map[string]int64 `json:"args"`            // how tool-call arguments survived rendering
	Flags    map[string]int64 `json:"flags,omitempty"` // number of rows with each flag in row_info
	Open     int64            `json:"open,omitempty"`  // trained turns without a stop token at the end
	LeftOut  LeftOut          `json:"left_out"`        // the parts that the template omits
	Sizes    Sizes            `json:"sizes,omitzero"`  // sizes of the rows before cutting
	Forward  sharing          `json:"forward,omitzero"`
}

// LeftOut counts the parts of messages that a template omits from rows.
type LeftOut struct {
	Reasoning int64 `json:"reasoning"` // trained turns without their recorded reasoning
	Calls     int64 `json:"calls"`     // assistant messages without their calls, each counted once per record
}

// Collate makes rows from records and writes them as batches under dir/batches, followed by index.jsonl and any step
// files. The records come in groups, in order. The caller must not modify a record, or reuse its memory, until
// Collate returns. Records whose kind doesn't have a channel must not be passed (see Collates).
//
// dropped is called in record order, from a single goroutine. scratch is a folder for temporary files, which take about
// as much space as the output. Everything written depends only on the items and the configuration.
func (c *Collator) Collate(
	ctx context.Context, groups iter.Seq2[[]Item, error], dir, scratch string, dropped func(ledger.Drop),
) (*Result, error) {
	cut, err := newCut(ctx, c, groups, startWorker(c, (*worker).prepared), nil, scratch, dropped)
	if err != nil {
		return nil, err
	}
	defer cut.Close()
	return cut.Write(ctx, dir)
}

// spec returns the specification for making batches. sum holds the reward statistics used to score rows.
func (c *Collator) spec(sum *summary) batch.Spec {
	spec := batch.Spec{
		Budget: c.cfg.BatchTokens, Layout: c.cfg.Layout, Form: c.cfg.Form, Workers: c.cfg.Workers,
		ByExample: c.cfg.ByExample,
		PadID:     c.pad, VocabSize: c.vocab, Terminators: c.terminators,
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

// startWorker returns a function that starts a worker for the calling goroutine. The worker stays on its thread: the
// tokenizer library allocates memory for each thread and couldn't reuse it on another one.
func startWorker[Made any](c *Collator, work func(*worker, []Item) (Made, error)) func() fanout.Worker[[]Item, Made] {
	return func() fanout.Worker[[]Item, Made] {
		runtime.LockOSThread()
		w := &worker{Collator: c}
		return fanout.Worker[[]Item, Made]{
			Work: func(items []Item) (Made, error) { return work(w, items) }, Stop: runtime.UnlockOSThread,
		}
	}
}

// each calls put with the workers' results for each group, in order.
func each[Group, Made any](
	ctx context.Context, c *Collator, groups iter.Seq2[Group, error], start func() fanout.Worker[Group, Made],
	put func(Group, Made) error,
) error {
	workers := max(1, c.cfg.Workers)
	return fanout.Ordered(ctx, workers, 4*workers, groups, start, put)
}

func (w *worker) outcomes(items []Item) []outcome {
	out := make([]outcome, len(items))
	w.lastPrompt, w.sites = nil, nil
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
		ch := channelOf(it.Record.Record.Kind())
		if ch == nil {
			out[i] = refused(refuse(InvariantBroken, "no channel accepts %s records", it.Record.Record.Kind()))
			continue
		}
		w.sizes = w.sizes[:0]
		out[i] = ch.rows(w, it)
		out[i].Sizes = slices.Clone(w.sizes)
		out[i].count()
	}
	share(out)
	return out
}

// prepared makes the rows of a group's items, and encodes them for the spool.
func (w *worker) prepared(items []Item) ([]prepared, error) {
	outcomes := w.outcomes(items)
	all := make([]prepared, len(items))
	for i := range outcomes {
		it, p := &items[i], &all[i]
		*p = prepared{
			subject: it.subject(), Index: it.Index, Kind: it.Record.Record.Kind(), counts: outcomes[i].counts,
			dropped: it.Dropped, split: it.Split,
		}
		for k := range outcomes[i].Rows {
			e, err := batch.Encode(channelOf(p.Kind).batch, &outcomes[i].Rows[k])
			if err != nil {
				return nil, err
			}
			p.Rows = append(p.Rows, e)
		}
		outcomes[i].Rows = nil // avoid keeping a group in memory twice
	}
	return all, nil
}

// summary counts outcomes as they arrive, in order.
type summary struct {
	dropped func(ledger.Drop)
	stats   Stats
	tasks   tasks
	records ledger.Account
	turns   ledger.Account
	sites   ledger.Account
	keys    ledger.Account // account of the teacher_top_k values that differ from the first one for the same task
	group   []sharedRow    // rows of the current group
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

// result describes the written batches, given their counts.
func (s *summary) result(counts map[string]batch.Count) *Result {
	accounts := []ledger.Account{s.records, s.turns, s.sites}
	if s.keys.In > 0 {
		accounts = append(accounts, s.keys)
	}
	return &Result{Counts: counts, Accounts: accounts, Stats: s.stats}
}

// subject describes an item in the ledger.
type subject struct {
	Drop   *ledger.Drop `json:",omitempty"` // the item's drop without unit, reason and detail
	Task   *taskKey     `json:",omitempty"` // the task of a rollout; otherwise nil
	Reward *float64     `json:",omitempty"`
	TopK   *int         `json:",omitempty"` // the top_k that the rollout requests from a teacher
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

// drop returns a drop for the item or a part of it.
func (s *subject) drop(unit string, why *cause) ledger.Drop {
	d := *s.Drop
	d.Unit, d.Reason, d.Detail = unit, why.Reason, why.Detail
	return d
}

// book counts an item's outcome. It returns the number of the item's task, or -1, and the rows that go into batches.
func (s *summary) book(it *subject, dropped bool, o *counts) (group int64, rows []rowCounts) {
	group = -1
	if it.Task != nil {
		group = s.tasks.add(*it.Task, it.Reward)
		if asked := it.TopK; s.tasks.ask(group, asked) {
			s.keys.In++
			s.dropped(it.drop(s.keys.Unit, refuse(KeyDiffers, "group_overrides.teacher_top_k is %d; an earlier "+
				"rollout of the task has %d", *asked, s.tasks.list[group].TopK)))
		}
	}
	s.group = s.stats.Forward.count(o, !dropped && o.Refused == nil, s.group)
	if dropped {
		return group, nil
	}
	count := func(a *ledger.Account, n int, lost []cause) {
		a.In, a.Out = a.In+int64(n), a.Out+int64(n-len(lost))
		for i := range lost {
			s.dropped(it.drop(a.Unit, &lost[i]))
		}
	}
	s.records.In++
	count(&s.turns, o.Turns, o.TurnDrops)
	for _, n := range o.Sizes {
		s.stats.Sizes.Add(n)
	}
	count(&s.sites, o.Sites, o.SiteDrops)
	if o.Refused != nil {
		s.dropped(it.drop("record", o.Refused))
		return group, nil
	}
	s.records.Out++
	s.stats.LeftOut.Reasoning += o.LeftOut.Reasoning
	s.stats.LeftOut.Calls += o.LeftOut.Calls
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

// endGroup counts the tokens in the group's rows, counting each shared prefix once.
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
