package collate

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/config"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/curate"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/recordlog"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage"
	"github.com/nat-go/nat-go/collator"
	"github.com/nat-go/nat-go/collator/batch"
	"github.com/nat-go/nat-go/collator/tokenizer"
	"github.com/nat-go/nat-go/internal/objects"
	natjson "github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/pyvalue"
)

// Tokens holds the components used to make token batches. It is nil for a run without a tokenizer.
type Tokens struct {
	tokenizer *tokenizer.Tokenizer
	collator  *collator.Collator
	policy    string // the model to be trained, if only the inputs name it
	Template  string
	time      time.Time // the time that strftime_now returns in the template
}

// Open loads the tokenizer and the template before anything is built, because a run that can't make its batches should
// not start. It returns nil if the configuration doesn't name a tokenizer.
func Open(ctx context.Context, c config.Collator, seed uint64) (*Tokens, error) {
	return stage.UnlessEnded(ctx, func() (*Tokens, error) {
		if c.Tokenizer == "" {
			return nil, nil
		}
		t := &Tokens{}
		path, err := localTokenizer(ctx, c.Tokenizer)
		if err == nil {
			t.tokenizer, err = tokenizer.Load(path)
		}
		if err != nil {
			return nil, exit.Environmentf("collator.tokenizer: %w", err)
		}
		if err := t.open(c, seed); err != nil {
			t.Close()
			return nil, err
		}
		return t, nil
	})
}

// localTokenizer returns the tokenizer's folder on this machine. A tokenizer in object storage is first copied to the
// user's cache. Its files are requested by name, because a listing may be incomplete.
func localTokenizer(ctx context.Context, path string) (string, error) {
	if !objects.Is(path) {
		return path, nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("cannot find the user's cache folder: %w", err)
	}
	prefix := strings.TrimSuffix(strings.TrimRight(path, "/"), "/tokenizer.json")
	return objects.OfProcess().Copy(ctx, prefix, tokenizer.FileNames(), tokenizer.MaxTokenizerBytes,
		filepath.Join(cache, "nat-go", "tokenizers"))
}

func (t *Tokens) open(c config.Collator, seed uint64) error {
	cfg, err := CollatorConfig(c, seed)
	if err != nil {
		return exit.With(exit.Usage, err)
	}
	cfg.Tokenizer = t.tokenizer
	if cfg.Template, err = collator.TemplateText(t.tokenizer.Config, c.Template); err != nil {
		return exit.Usagef("collator.template: %w", err)
	}
	t.Template, t.time = cfg.Template, cfg.TemplateTime
	if cfg.Reference, err = readReference(c.Reference); err != nil {
		return err
	}
	t.collator, err = collator.New(cfg)
	return exit.Default(exit.Usage, err)
}

// Fingerprint identifies the tokenizer.
func (t *Tokens) Fingerprint() string { return t.tokenizer.Fingerprint() }

// Close closes the tokenizer.
func (t *Tokens) Close() {
	if t != nil {
		t.tokenizer.Close()
	}
}

// readReference reads the file that `collator.reference` specifies.
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

// CollatorConfig converts the `collator` section of the configuration.
func CollatorConfig(c config.Collator, seed uint64) (collator.Config, error) {
	out := collator.Config{
		Policy: c.Policy, MaxLength: c.MaxLength, BatchTokens: c.TokensPerBatch(), Workers: runtime.GOMAXPROCS(0),
		Order: batch.Order{Seed: seed, Epoch: c.Epoch, Task: c.BatchBy == "task"},
	}
	switch {
	case c.MaxDPOLength != nil:
		out.MaxPairLength = *c.MaxDPOLength
	case c.Format == "composer": // the same limit as in the reference trainer's collator
		out.MaxPairLength = min(2048, out.BatchTokens)
	}
	out.PadID, out.RenderedRollouts = c.PadID, c.RL.IDs == "rendered"
	out.Form = batch.Form{
		IgnoreIndex: c.IgnoreIndex, SignedMask: c.Composer.Mask == "ignore_index",
		EqualWidth: c.Composer.Width == "equal" || c.Composer.Steps(),
	}
	out.Steps = c.Composer.Steps()
	out.ByExample, out.Order.Added = c.Composer.ByExample(), c.Composer.ByExample()
	out.Cumulative = c.Sites == "cumulative" || out.ByExample
	if c.Teacher != nil && c.Teacher.HintEffect {
		out.Neutral = c.Teacher.Neutral
	}
	out.HintSpan, out.Contrast = c.HintSpan, c.Contrast
	out.NullHints = c.Hints == "none"
	out.Weight = map[string]collator.Weight{
		"token": collator.ByToken, "site": collator.BySite, "rollout": collator.ByRollout,
	}[c.Weight]
	out.Rows = map[string]collator.RowUnit{
		"auto": collator.Auto, "trajectory": collator.Trajectory, "turn": collator.PerTurn,
	}[c.Rows]
	if out.ByExample && out.Rows == collator.Auto {
		out.Rows = collator.Trajectory
	}
	out.Advantages = map[string]collator.Advantages{
		"group": collator.ByGroup, "none": collator.Plain, "batch": collator.ByBatch,
	}[c.Advantages]
	if err := chooseLayout(c, &out); err != nil {
		return out, err
	}
	var err error
	if out.TemplateTime, err = collator.ParseTemplateTime(c.TemplateTime); err != nil {
		return out, err
	}
	out.TemplateVars, err = templateVars(c.TemplateKwargs)
	return out, err
}

// chooseLayout sets the layout. It returns an error if settings are mutually exclusive.
func chooseLayout(c config.Collator, out *collator.Config) error {
	composer := c.Format == batch.Composer.String()
	switch {
	case out.ByExample && out.Rows == collator.PerTurn:
		return errors.New("`collator.composer.rows: example` makes one row per example, and `collator.rows: " +
			"turn` makes several: remove one of them")
	case out.ByExample && out.Order.Task:
		return errors.New("`collator.composer.rows: example` keeps the order of the examples, and `collator.batch_by: " +
			"task` shuffles tasks: remove one of them")
	case out.NullHints && c.Teacher != nil && c.Teacher.HintEffect:
		return errors.New("`collator.hints: none` removes the hints whose effect collator.teacher.hint_effect measures: " +
			"remove one of them")
	case !composer && (out.Form.EqualWidth || out.Form.SignedMask):
		return errors.New("collator.composer requires `collator.format: composer`: set that, or remove collator.composer")
	case composer && c.Layout == batch.Packed.String():
		return errors.New("`collator.format: composer` and `collator.layout: packed` are mutually exclusive: choose one")
	case composer && c.Teacher != nil:
		return errors.New("`collator.format: composer` writes no pair table, which collator.teacher needs: " +
			"remove one of them")
	case composer:
		out.Layout = batch.Composer
	case c.Layout == batch.Packed.String():
		out.Layout = batch.Packed
	}
	return nil
}

// templateVars converts variables from YAML to the Python values passed to a template, sorted by name.
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

// items returns the records of a group that the collator has a channel for. d is nil if no decisions have been made
// yet.
func (t *Tokens) items(g *recordlog.Group, d *curate.Decisions) []collator.Item {
	var items []collator.Item
	contents := g.Contents()
	for i := range g.Records {
		rec := &g.Records[i]
		if !t.collator.Collates(rec.Record.Kind()) {
			continue
		}
		item := collator.Item{Record: rec, Index: i, Hash: hex.EncodeToString(contents[i][:])}
		if d != nil {
			item.Dropped, item.Split = decided(d, g.First+uint64(i))
		}
		items = append(items, item)
	}
	return items
}

// decided converts the decision on a record for use in token batches.
func decided(d *curate.Decisions, ordinal uint64) (dropped bool, split batch.Split) {
	x := d.At(ordinal)
	if x.Validates() && !x.Trains() {
		split = batch.Validation
	}
	return !x.Kept(), split
}
