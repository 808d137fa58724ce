package collate

import (
	"slices"
	"strings"

	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/source"
)

// Prover returns a function that checks traces' claims about one model's calls, using its tokenizer and template. It
// doesn't check the calls of other models, whose tokenizers may differ.
func (t *Tokens) Prover(model string) source.Prove {
	return func(c *source.Claim) (proven ttc.Proofs, refuted ttc.Gaps) {
		if c.Model == model {
			proven, refuted = t.prove(c)
		}
		return proven, refuted
	}
}

func (t *Tokens) prove(c *source.Claim) (proven ttc.Proofs, refuted ttc.Gaps) {
	if c.PromptTokens > 0 {
		counts, err := t.collator.PromptTokens(c.Given, c.Tools)
		switch {
		case err != nil: // the template rejects these messages, which is reported when rows are made
		case slices.Contains(counts, int(c.PromptTokens)):
			proven |= ttc.PromptProven
		default:
			refuted |= ttc.PromptDiffers
		}
	}
	if len(c.IDs) > 0 {
		if text, err := t.tokenizer.Decode(c.IDs, false); err == nil && saysSame(text, c.Answer) {
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
