package collator

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/collator/batch"
	"github.com/nat-go/nat-go/collator/tokenizer"
	"github.com/nat-go/nat-go/collator/turns"
	"github.com/nat-go/nat-go/internal/lists"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/pyvalue"
)

// RowUnit selects the part of a conversation that makes one row.
type RowUnit uint8

// The row units.
const (
	// Auto makes one trajectory if the template renders all its trained turns as they were sampled and the
	// trajectory fits into MaxLength, possibly after cutting. Otherwise, it makes one row per turn.
	Auto       RowUnit = iota
	Trajectory         // a whole conversation; turns rendered differently from the sampled text are not trained on
	PerTurn            // one trained turn, with the model input that precedes it
)

// Weight selects the unit whose weights in the loss sum to 1, even if a template needs several rows for it. These
// weights are then multiplied by a demonstration's own weight.
type Weight uint8

// The units.
const (
	ByToken Weight = iota // each trained token or pair has weight 1, which makes the loss a mean over tokens or pairs
	// the tokens of each hint's target have a total weight of 1; records without hints are weighted as in ByRollout
	BySite
	ByRollout // the tokens of a record, or in rl the rows of a record, have a total weight of 1
)

// Config specifies how to collate records. Tokenizer, Template, MaxLength and BatchTokens must be set.
type Config struct {
	Tokenizer    *tokenizer.Tokenizer
	Template     string        // source of the chat template; see TemplateText
	TemplateVars *pyvalue.Dict // additional template variables (enable_thinking, ...); may be nil
	TemplateTime time.Time     // returned by strftime_now; zero means DefaultTemplateTime

	// Policy is the model to be trained. Text sampled by other models is off-policy. If Policy is empty, on-policy text
	// cannot be distinguished.
	Policy    string
	MaxLength int // tokens per row, at least 2; README.md describes how longer rows are cut
	// MaxPairLength limits the tokens of each side of a preference; 0 means MaxLength.
	MaxPairLength int
	BatchTokens   int // tokens per batch, including padding; at least MaxLength and MaxPairLength
	Rows          RowUnit
	Weight        Weight
	Layout        batch.Layout
	Form          batch.Form
	Steps         bool // also write step files, which combine all channels; needs the composer layout and equal width
	ByExample     bool // each row in a step is an example; needs Steps, Cumulative, Trajectory and Order.Added
	// id that fills the space after a row's end; nil means the tokenizer's pad token or, without one, its eos token
	PadID   *int64
	Order   batch.Order // order of the rows
	Workers int         // number of goroutines, which doesn't affect the output; 0 means 1

	Advantages Advantages // rl: how rewards become advantages
	// RenderedRollouts admits rollouts without token ids to rl, with ids made from their text, and rollouts from an
	// unknown model. Their rows are marked, and have no log-probs for ids made from text. Set it only for trainers
	// that accept such rows.
	RenderedRollouts bool
	Reference        *Reference // dpo: log-probs of pairs under a reference model; nil if unused
	NullHints        bool       // sdpo: omit the hints, as a control in which teacher and student are equal
	// sdpo: a teacher has all of its row's hints, and a target sees those before it; if false, each teacher has one
	Cumulative bool
	HintSpan   string // sdpo: the part of each target that is in the loss: turn (or empty), call, text, reasoning
	// Neutral is a neutral hint for sdpo. For each hint, the row also stores the tokens of Neutral in the hint's
	// place, as a baseline. If Neutral is empty, there is no baseline.
	Neutral string
	// Contrast stores the tokens of another site's hint with each sdpo site, as Neutral does. Sites without another
	// hint to store are dropped.
	Contrast bool
}

// Collator makes batches from records. It is safe for concurrent use.
type Collator struct {
	cfg         Config
	render      *turns.Renderer
	terminators []int32 // ids that end a turn, in the order of the template's terminators
	pad         int64
	vocab       int64
	restores    bool // the tokenizer restores ASCII text exactly, even when tokens are decoded piece by piece
	passesArgs  bool // the template prints argument strings unchanged
}

// For returns a copy of the collator with the given Config.Policy.
func (c *Collator) For(policy string) *Collator {
	other := *c
	other.cfg.Policy = policy
	return &other
}

// New checks the configuration, compiles the template and determines how it marks turns.
func New(cfg Config) (*Collator, error) {
	if cfg.Tokenizer == nil {
		return nil, errors.New("collator: missing tokenizer")
	}
	if cfg.MaxLength < 2 {
		return nil, fmt.Errorf("collator: invalid max_length %d: a row has at least two tokens", cfg.MaxLength)
	}
	if cfg.BatchTokens < cfg.MaxLength {
		return nil, fmt.Errorf("collator: batch_tokens (%d) must be at least max_length (%d): the longest row "+
			"would not fit into a batch", cfg.BatchTokens, cfg.MaxLength)
	}
	cfg.MaxPairLength = cmp.Or(cfg.MaxPairLength, cfg.MaxLength)
	switch {
	case cfg.MaxPairLength < 2:
		return nil, fmt.Errorf("collator: invalid max_dpo_length %d: a row has at least two tokens", cfg.MaxPairLength)
	case cfg.BatchTokens < cfg.MaxPairLength:
		return nil, fmt.Errorf("collator: batch_tokens (%d) must be at least max_dpo_length (%d)",
			cfg.BatchTokens, cfg.MaxPairLength)
	case cfg.Form.IgnoreIndex > 0:
		return nil, fmt.Errorf("collator: invalid ignore_index %d: it must be negative, since other values may be token ids",
			cfg.Form.IgnoreIndex)
	}
	if cfg.Steps && (cfg.Layout != batch.Composer || !cfg.Form.EqualWidth) {
		return nil, errors.New("collator: invalid format for step files: expected the composer layout with equal width")
	}
	if cfg.Layout == batch.Composer && cfg.Cumulative {
		switch {
		case !cfg.Form.EqualWidth:
			return nil, errors.New("collator: cannot use cumulative hints in the composer format without equal " +
				"width: one mask serves both sides")
		case cfg.Weight == BySite:
			return nil, errors.New("collator: cannot weight cumulative hints by site: a composer row has " +
				"a single weight")
		}
	}
	if cfg.TemplateTime.IsZero() {
		cfg.TemplateTime, _ = ParseTemplateTime(DefaultTemplateTime)
	}
	render, err := turns.New(cfg.Template, turns.Settings{
		Vars:    TemplateVars(cfg.Tokenizer.Config, cfg.TemplateVars),
		Now:     cfg.TemplateTime,
		Special: lists.Map(cfg.Tokenizer.Specials(), func(s tokenizer.Special) string { return s.Text }),
	})
	if err != nil {
		return nil, fmt.Errorf("collator: cannot compile the chat template: %w", err)
	}
	c := &Collator{cfg: cfg, render: render}
	if err := c.learnTokens(); err != nil {
		return nil, err
	}
	return c, nil
}

// Collates reports whether there is a channel for a kind of record.
func (c *Collator) Collates(k builders.Kind) bool { return channelOf(k) != nil }

// learnTokens determines the tokenizer's properties.
func (c *Collator) learnTokens() error {
	tok := c.cfg.Tokenizer
	for _, text := range c.render.Terminators() {
		var enc tokenizer.Encoding
		if err := tok.EncodeRow(&enc, text, []chat.Span{{Start: 0, End: len(text)}}); err != nil {
			return fmt.Errorf("collator: invalid terminator %q of the template: %w", text, err)
		}
		if len(enc.IDs) == 1 && tok.IsSpecial(enc.IDs[0]) {
			c.terminators = append(c.terminators, enc.IDs[0])
		}
	}
	if len(c.render.Terminators()) > 0 && len(c.terminators) == 0 {
		return fmt.Errorf("collator: no special token of the tokenizer ends the template's turns (%s): template "+
			"and tokenizer belong to different models",
			strings.Join(c.render.Terminators(), ", "))
	}
	c.vocab = max(int64(tok.VocabSize()), int64(tok.MaxID())+1)
	// The pad id comes from the tokenizer unless the configuration sets one. Masks never depend on it (DEFECTS.md,
	// D25).
	for _, name := range []string{"pad_token", "eos_token"} {
		if text, ok := tok.Config.Token(name); ok {
			if id, ok := tok.ID(text); ok {
				c.pad = int64(id)
				break
			}
		}
	}
	if p := c.cfg.PadID; p != nil {
		if *p < 0 || *p >= c.vocab {
			return fmt.Errorf("collator: invalid pad_id %d: the tokenizer has %d ids", *p, c.vocab)
		}
		c.pad = *p
	}
	c.restores = restores(tok)
	c.passesArgs = passesArguments(c.render)
	return nil
}

// restores reports whether the tokenizer restores ASCII text exactly, even when tokens are decoded piece by piece. If
// so, hashing ASCII text doesn't require decoding.
func restores(tok *tokenizer.Tokenizer) bool {
	text := " Hello  world ! It 's n't  a.b , \"q\" \t\n\n x\r\n<tag> [y] {\"k\": -1.50e3}\n```py\n~`@#$%^&*()_+=|\\;:/?\x01\x7f ABC zyx 0123456789 .\n"
	var enc tokenizer.Encoding
	if tok.EncodeRow(&enc, text, nil) != nil {
		return false
	}
	var whole strings.Builder
	for i := range enc.IDs {
		piece, err := tok.Decode(enc.IDs[i:i+1], false)
		if err != nil {
			return false
		}
		whole.WriteString(piece)
	}
	return whole.String() == text
}

// passesArguments reports whether the template prints a call's arguments unchanged if they are a string.
func passesArguments(r *turns.Renderer) bool {
	const raw = `{"qzk":"qzv", "qzl" :1e0,}`
	c, err := conversation([]chat.Message{
		{Role: "user", Form: chat.Text, Text: "a"},
		{
			Role:      "assistant",
			Form:      chat.Null,
			ToolCalls: []chat.ToolCall{{ID: "call00001", Type: "function", Name: "f", Arguments: raw}},
		},
	})
	if err != nil {
		return false
	}
	res, err := r.Render(c)
	return r.RawArguments() || err == nil && strings.Contains(res.Text, raw) && !strings.Contains(res.Text, `"`+raw)
}
