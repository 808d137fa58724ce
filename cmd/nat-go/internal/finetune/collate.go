package finetune

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"os"
	"runtime"
	"runtime/debug"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/config"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/dataset"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/recordlog"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/collator"
	"github.com/nat-go/nat-go/collator/batch"
	"github.com/nat-go/nat-go/collator/tokenizer"
	natjson "github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/pyvalue"
)

// openCollator loads the tokenizer and the template before anything is built: a run that can't make its batches should not
// start. Without a tokenizer there are no batches.
func (r *run) openCollator() error {
	c := r.plan.config.Collator
	if c.Tokenizer == "" {
		return nil
	}
	tok, err := tokenizer.Load(c.Tokenizer)
	if err != nil {
		return exit.Environmentf("collator.tokenizer: %w", err)
	}
	r.tokenizer = tok
	if r.plan.Now != "" {
		c.TemplateTime = r.plan.Now
	}
	cfg, err := CollatorConfig(c, r.plan.rules.Split.Seed)
	if err != nil {
		return exit.With(exit.Usage, err)
	}
	cfg.Tokenizer = tok
	if cfg.Template, err = collator.TemplateText(tok.Config, c.Template); err != nil {
		return exit.Usagef("collator.template: %w", err)
	}
	if cfg.Reference, err = readReference(c.Reference); err != nil {
		return err
	}
	if r.collator, err = collator.New(cfg); err != nil {
		return exit.With(exit.Usage, err)
	}
	return nil
}

// readReference reads the file of `collator.reference`.
func readReference(c *config.Reference) (*collator.Reference, error) {
	if c == nil {
		return nil, nil
	}
	f, err := os.Open(c.Path)
	if err != nil {
		return nil, exit.Usagef("collator.reference.path: %w", err)
	}
	defer f.Close()
	ref, err := collator.ReadReference(f, c.Fingerprint)
	if err != nil {
		return nil, exit.Usagef("collator.reference.path: %s: %w", c.Path, err)
	}
	return ref, nil
}

// CollatorConfig translates the section `collator`.
func CollatorConfig(c config.Collator, seed uint64) (collator.Config, error) {
	out := collator.Config{
		Policy: c.Policy, MaxLength: c.MaxLength, BatchTokens: c.BatchTokens, Order: batch.Order{Seed: seed, Epoch: c.Epoch},
		Workers: runtime.GOMAXPROCS(0),
	}
	out.Cumulative = c.Sites == "cumulative"
	if c.Teacher != nil && c.Teacher.HintEffect {
		out.Neutral = c.Teacher.Neutral
	}
	out.NullHints = c.Hints == "none"
	out.Rows = map[string]collator.RowUnit{"auto": collator.Auto, "trajectory": collator.Trajectory, "turn": collator.PerTurn}[c.Rows]
	out.Advantages = map[string]collator.Advantages{"group": collator.ByGroup, "none": collator.Plain, "batch": collator.ByBatch}[c.Advantages]
	composer := c.Format == batch.Composer.String()
	switch {
	case out.NullHints && c.Teacher != nil && c.Teacher.HintEffect:
		return out, errors.New("collator.hints none leaves no hint whose effect collator.teacher.hint_effect could measure: leave one of them out")
	case composer && c.Layout == batch.Packed.String():
		return out, errors.New("collator.format composer and collator.layout packed exclude each other: choose one")
	case composer && c.Teacher != nil:
		return out, errors.New("collator.format composer has no pair table that collator.teacher could add to: leave one of them out")
	case composer:
		out.Layout = batch.Composer
	case c.Layout == batch.Packed.String():
		out.Layout = batch.Packed
	}
	var err error
	if out.TemplateTime, err = collator.ParseTemplateTime(c.TemplateTime); err != nil {
		return out, err
	}
	out.TemplateVars, err = templateVars(c.TemplateKwargs)
	return out, err
}

// templateVars are variables of the YAML as the template's Python sees them, in order of their names.
func templateVars(kwargs map[string]any) (*pyvalue.Dict, error) {
	text, err := json.Marshal(kwargs)
	if err != nil || kwargs == nil {
		return nil, err
	}
	v, err := pyvalue.Parse(natjson.Raw(text))
	if err != nil {
		return nil, err
	}
	return v.Dict(), nil
}

// collatePercent is GOGC while token rows are made. They are much garbage on a small heap: two workers that collect it as often
// as the rest of a run does lose a tenth of their time.
const collatePercent = 300

// collate makes token batches of the records that the collator has a channel for.
func (r *run) collate(ctx context.Context) error {
	if r.collator == nil || r.kept() == 0 {
		return nil
	}
	if err := os.RemoveAll(r.plan.folder.Batches()); err != nil { // of an attempt that was cut short
		return exit.Environmentf("can't make the batches: %w", err)
	}
	if os.Getenv("GOGC") == "" {
		defer debug.SetGCPercent(debug.SetGCPercent(collatePercent))
	}
	res, err := r.collator.Collate(ctx, r.items(), string(r.plan.folder), string(r.plan.folder), r.drops.add)
	if err != nil {
		return exit.Environmentf("can't make the batches: %w", err)
	}
	for _, a := range res.Accounts {
		r.book.In(a.Stage, a.Unit, a.In)
		r.book.Out(a.Stage, a.Unit, a.Out)
	}
	taught, err := r.teach(ctx, res.Counts)
	if err != nil {
		return err
	}
	if r.plan.tokenRows {
		w, err := dataset.WriteTokenParquet(r.plan.folder, r.plan.folder.Dataset())
		if err != nil {
			return exit.Environmentf("can't write the token rows: %w", err)
		}
		r.written = append(r.written, w)
	}
	r.batches = &runfolder.Batches{
		Teacher: taught, Tokenizer: r.tokenizer.Fingerprint(), TemplateTime: r.collator.TemplateTime.Format("2006-01-02T15:04:05"),
		Counts: res.Counts, Stats: res.Stats,
	}
	return nil
}

// items yields the records to collate, a group at a time. Left-out rollouts come too: their rewards still count when others
// of their task are compared with each other.
func (r *run) items() iter.Seq2[[]collator.Item, error] {
	return func(yield func([]collator.Item, error) bool) {
		log, err := recordlog.NewReader(r.plan.folder.Records())
		if err != nil {
			yield(nil, err)
			return
		}
		defer log.Close()
		for {
			g, err := log.Next()
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if items := r.groupItems(g); len(items) > 0 && !yield(items, nil) {
				return
			}
			r.tell(Progress{Step: "collate", Done: int64(g.First) + int64(len(g.Records)), Total: int64(r.decisions.Len()), Unit: unitRecord})
		}
	}
}

func (r *run) groupItems(g *recordlog.Group) []collator.Item {
	var items []collator.Item
	hashes := g.Hashes()
	for i := range g.Records {
		rec := &g.Records[i]
		if !r.collator.Collates(rec.Record.Kind()) {
			continue
		}
		d := r.decisions.At(g.First + uint64(i))
		item := collator.Item{Record: rec, Hash: hex.EncodeToString(hashes[i].Content[:]), Dropped: !d.Kept()}
		if d.Validates() && !d.Trains() {
			item.Split = batch.Validation
		}
		items = append(items, item)
	}
	return items
}

// kept is how many records are in the data set.
func (r *run) kept() (n int64) {
	for d, c := range r.decisions.Counts() {
		if d.Kept() {
			n += c
		}
	}
	return n
}
