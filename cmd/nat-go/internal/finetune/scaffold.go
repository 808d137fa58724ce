package finetune

import (
	"context"
	"slices"
	"strings"

	"github.com/nat-go/nat-go/builders/schema"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/config"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/inspect"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/source"
)

// Inspection is a request to examine inputs.
type Inspection struct {
	inspect.Options
	Keys  []string // meanings of the inputs' keys: "output=response"
	Model model    // model whose calls are checked; the zero value means that calls aren't checked
}

// complete completes the options.
func (in *Inspection) complete() (err error) {
	in.Tokenizers = true
	in.Map, err = keyMap(in.Keys)
	return err
}

// Propose reports how a run would read the inputs, and which records it would make from them.
func Propose(ctx context.Context, in Inspection) (*inspect.Report, error) {
	if err := in.complete(); err != nil {
		return nil, err
	}
	return inspect.Look(ctx, in.Options)
}

// Inspect reports the formats of inputs, their content, and the records that builders could make from them.
func Inspect(ctx context.Context, in Inspection) (*inspect.Inspection, error) {
	if err := in.complete(); err != nil {
		return nil, err
	}
	if in.Model.Name != "" {
		p, err := in.Model.newProver(ctx)
		if err != nil {
			return nil, err
		}
		defer p.tokens.close()
		in.Prove = p.prove
	}
	return inspect.Inspect(ctx, in.Options)
}

// prover checks traces' claims about one model's calls, using its tokenizer and template. It doesn't check the calls of
// other models, whose tokenizers may differ.
type prover struct {
	model  string
	tokens *tokens
}

// model is a model whose calls can be checked.
type model struct{ Name, Tokenizer, Template string }

// newProver loads the files needed to check the model's calls.
func (m model) newProver(ctx context.Context) (*prover, error) {
	c := schema.New[config.Collator]()
	c.Tokenizer, c.Template, c.Policy = m.Tokenizer, m.Template, m.Name
	t, err := openTokens(ctx, &plan{config: &config.Config{Collator: c}})
	if err != nil {
		return nil, err
	}
	return &prover{m.Name, t}, nil
}

// canProve reports whether the run can check the claims of its inputs.
func (in *inputs) canProve() bool {
	return in.plan.config.Collator.Tokenizer != "" && in.plan.config.Collator.Policy != "" && in.source.OpenAll != nil
}

// prove implements source.Prove.
func (p prover) prove(c *source.Claim) (proven ttc.Proofs, refuted ttc.Gaps) {
	if c.Model != p.model {
		return 0, 0
	}
	if c.PromptTokens > 0 {
		counts, err := p.tokens.collator.PromptTokens(c.Given, c.Tools)
		switch {
		case err != nil: // the template rejects these messages, which is reported when rows are made
		case slices.Contains(counts, int(c.PromptTokens)):
			proven |= ttc.PromptProven
		default:
			refuted |= ttc.PromptDiffers
		}
	}
	if len(c.IDs) > 0 {
		if text, err := p.tokens.tokenizer.Decode(c.IDs, false); err == nil && saysSame(text, c.Answer) {
			proven |= ttc.IDsProven
		} else {
			refuted |= ttc.IDsDiffer
		}
	}
	return proven, refuted
}

// saysSame reports whether sampled text contains every part of an answer. It compares only the content of reasoning and
// calls, because their markup depends on the model.
func saysSame(text string, answer *chat.Message) bool {
	parts := []string{answer.Reasoning, answer.Text}
	for i := range answer.Parts {
		parts = append(parts, answer.Parts[i].Text)
	}
	for i := range answer.ToolCalls {
		c := &answer.ToolCalls[i]
		parts = append(parts, c.Name)
		if raw, err := json.Parse([]byte(c.Arguments), json.Limits{}); err == nil {
			parts = appendPlain(parts, raw)
		}
	}
	return !slices.ContainsFunc(parts, func(part string) bool {
		return !strings.Contains(text, strings.TrimSpace(part))
	})
}

// appendPlain appends the strings in a JSON value that look the same in every encoding.
func appendPlain(to []string, v json.Raw) []string {
	switch v.Kind() {
	case json.String:
		if s := strings.Trim(string(v), `"`); !strings.ContainsFunc(s, isEscapable) {
			to = append(to, s)
		}
	case json.Object:
		for _, member := range v.Members() {
			to = appendPlain(to, member)
		}
	case json.Array:
		for e := range v.Elements() {
			to = appendPlain(to, e)
		}
	}
	return to
}

// isEscapable reports whether some JSON encoder escapes the character.
func isEscapable(r rune) bool { return r < ' ' || r > '~' || strings.ContainsRune("\\\"/<>&'", r) }
