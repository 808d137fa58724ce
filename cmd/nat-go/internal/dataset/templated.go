package dataset

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/collator"
	"github.com/nat-go/nat-go/collator/rows"
	"github.com/nat-go/nat-go/collator/tokenizer"
	"github.com/nat-go/nat-go/collator/turns"
	"github.com/nat-go/nat-go/internal/lists"
	"github.com/nat-go/nat-go/internal/terminal"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/chat/template"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// templated counts the effects of a chat template on the conversations of a data set, as trainers of text rows render
// them. A prompt and each answer to it form a conversation.
type templated struct {
	Conversations int64  `json:"conversations"`
	Refused       int64  `json:"refused"` // conversations on which the template raises an error
	Why           string `json:"why,omitempty"`
	Reasoning     part   `json:"reasoning"`  // assistant messages with reasoning
	Calls         part   `json:"tool_calls"` // assistant messages with tool calls
}

// part counts the messages that contain a given kind of part, and the messages whose part the template omits.
type part struct {
	Messages int64 `json:"messages"`
	LeftOut  int64 `json:"left_out"`
}

// templateTrial renders a row's conversations with a template.
type templateTrial struct {
	render *turns.Renderer
	room   template.Room
	counts templated
}

func (a *templateTrial) row(row *rows.Row) {
	for _, answer := range []builders.Passage{row.Chosen, row.Rejected, row.Completion} {
		if len(answer.Nodes) > 0 {
			a.conversation(slices.Concat(row.Prompt.Nodes, answer.Nodes), row.Tools)
		}
	}
}

func (a *templateTrial) conversation(nodes []ttc.Node, tools []chat.Tool) {
	a.counts.Conversations++
	messages := lists.Map(nodes, func(n ttc.Node) chat.Message { return n.Message })
	shown, err := a.shown(messages, tools)
	if err != nil {
		a.counts.Refused++
		a.counts.Why = cmp.Or(a.counts.Why, err.Error())
		return
	}
	for i := range messages {
		if messages[i].Reasoning != "" {
			a.counts.Reasoning.add(shown[i].Reasoning)
		}
		if len(messages[i].ToolCalls) > 0 {
			a.counts.Calls.add(shown[i].Calls)
		}
	}
}

func (a *templateTrial) shown(messages []chat.Message, tools []chat.Tool) ([]turns.Shown, error) {
	values, err := template.Conversation(messages)
	if err != nil {
		return nil, err
	}
	list, err := template.ToolList(tools)
	if err != nil {
		return nil, err
	}
	res, err := a.render.RenderIn(&a.room, &turns.Conversation{Messages: values, Tools: list})
	if err != nil {
		return nil, err
	}
	return turns.ShownOf(&res, len(messages)), nil
}

func (p *part) add(shown bool) {
	p.Messages++
	if !shown {
		p.LeftOut++
	}
}

// rendererOf compiles the chat template in a model's folder.
func rendererOf(folder string) (*turns.Renderer, error) {
	c, err := tokenizer.ReadConfig(folder)
	if err != nil {
		return nil, err
	}
	text, err := collator.TemplateText(c, "")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", folder, err)
	}
	now, err := collator.ParseTemplateTime(collator.DefaultTemplateTime)
	if err != nil {
		return nil, err
	}
	return turns.New(text, turns.Settings{Now: now, Vars: collator.TemplateVars(c, nil)})
}

// lines describes the counts in lines of text.
func (t *templated) lines() (out []string) {
	if t.Conversations == 0 {
		return []string{"the template was not used: the rows hold text instead of messages"}
	}
	out = append(out, fmt.Sprintf("the template renders %d of %s", t.Conversations-t.Refused,
		ledger.Quantity(t.Conversations, "conversation")))
	if t.Refused > 0 {
		out = append(out, "the template rejects the other conversations, the first with the error: "+
			terminal.Line(strings.TrimSpace(t.Why)))
	}
	for _, x := range []struct {
		what string
		n    part
	}{{"the reasoning", t.Reasoning}, {"the tool calls", t.Calls}} {
		if x.n.Messages > 0 {
			out = append(out, fmt.Sprintf("the template omits %s in %d of %s with any", x.what, x.n.LeftOut,
				ledger.Quantity(x.n.Messages, "message")))
		}
	}
	return out
}
