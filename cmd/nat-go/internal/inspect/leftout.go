package inspect

import (
	"errors"
	"fmt"
	"strings"

	"github.com/nat-go/nat-go/collator"
	"github.com/nat-go/nat-go/collator/tokenizer"
	"github.com/nat-go/nat-go/collator/turns"
)

// LeftOut describes the content that a chat template on this machine omits from the examples. Token batches lack it,
// and so does the input of trainers that use the template.
type LeftOut struct {
	Model   string   `json:"model"`             // folder of the model's tokenizer
	What    []string `json:"what,omitempty"`    // omitted content, such as "the reasoning of 3 turns"
	Problem string   `json:"problem,omitempty"` // reason why the template can't be used
}

// String describes the omitted content in words.
func (l LeftOut) String() string {
	if l.Problem != "" {
		return fmt.Sprintf("the template of %s can't be used: %s", l.Model, l.Problem)
	}
	return fmt.Sprintf("the template of %s omits %s; collator.template can specify another", l.Model, strings.Join(l.What, ", "))
}

// leftOut tries the templates of the tokenizers, and lists the templates that omit content or can't be used.
func (r *Report) leftOut() (all []LeftOut) {
	if r.Messages == 0 && r.Candidates == 0 {
		return nil
	}
	for _, dir := range r.Tokenizers {
		l := LeftOut{Model: dir}
		if rep, err := tryTemplate(dir); err != nil {
			l.Problem = err.Error()
		} else {
			l.What = r.missing(rep)
		}
		if l.What != nil || l.Problem != "" {
			all = append(all, l)
		}
	}
	return all
}

// tryTemplate probes the chat template in a model's folder.
func tryTemplate(dir string) (*turns.Report, error) {
	c, err := tokenizer.ReadConfig(dir)
	if err != nil {
		return nil, err
	}
	text, err := collator.TemplateText(c, "")
	if err == nil && text == collator.PlainTemplate {
		err = errors.New("tokenizer has no chat template: " + collator.PlainAdvice)
	}
	if err != nil {
		return nil, err
	}
	return turns.Probe(text, turns.Settings{Vars: collator.TemplateVars(c, nil)})
}

// missing lists the content of the examples that a template omits.
func (r *Report) missing(t *turns.Report) (what []string) {
	if r.WithTools > 0 && !t.ToolsShown {
		what = append(what, "the tools of "+quantity(r.WithTools, "example"))
	}
	if r.ToolCalls > 0 && t.Calls != turns.Kept {
		what = append(what, quantity(r.ToolCalls, "tool call"))
	}
	switch {
	case r.Reasoning > 0 && !t.Reasoning.Last:
		what = append(what, "the reasoning of "+quantity(r.Reasoning, "turn"))
	case r.ReasoningPast > 0 && !t.Reasoning.History:
		what = append(what, "the reasoning of "+quantity(r.ReasoningPast, "turn")+" before the last question")
	}
	return what
}
