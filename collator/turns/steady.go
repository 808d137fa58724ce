package turns

import (
	"slices"
	"strings"

	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/chat/template"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/pyvalue"
)

// steadiness records whether a template shows every turn of simple conversations as it was sampled, without and with
// calls.
type steadiness struct{ texts, calls bool }

// learnSteadiness renders small multi-round conversations and checks every turn.
func (r *Renderer) learnSteadiness() (out [2]steadiness) {
	texts := []chat.Message{ask, answer, user(resultText), answer, user(askText), answer}
	calls := []chat.Message{
		ask, call, result, call, result, answer, user(resultText), call, result, answer, user(askText), answer,
	}
	tools, _ := template.ParseTools(json.Raw(tool))
	for i, tools := range []pyvalue.Value{pyvalue.None, tools} {
		out[i] = steadiness{r.allStable(texts, tools), r.allStable(calls, tools)}
	}
	return out
}

func (r *Renderer) allStable(ms []chat.Message, tools pyvalue.Value) bool {
	c, res, err := r.renderMessages(ms, tools, r.tooled.rawArguments, false)
	if err != nil {
		return false
	}
	found, err := r.Find(c, res)
	return err == nil && r.areStable(c, res, found)
}

// areStable reports whether all turns in a conversation's render are stable.
func (r *Renderer) areStable(c *Conversation, res *template.Result, found []Turn) bool {
	return !slices.ContainsFunc(found, func(t Turn) bool {
		ok, err := r.Stable(c, res, &t)
		return err != nil || !ok
	})
}

// Steady reports whether a conversation is simple enough that the template is known to show every turn as it was
// sampled. Its turns then don't need individual checks, because a check of the last turn's prompt, which contains the
// whole history, covers all of them. A simple conversation lacks reasoning, makes at most one call per turn, and has
// a system message only at the start and no "<" in user or assistant text, because templates look for tags there.
func (r *Renderer) Steady(c *Conversation) bool {
	calls := false
	for i := range c.Messages {
		d := c.Messages[i].Dict()
		if d == nil {
			return false
		}
		role := c.role(i)
		switch role {
		case "user", "assistant", "tool":
		case "system":
			if i > 0 {
				return false
			}
		default:
			return false
		}
		calls = calls || role == "tool"
		for k := range d.Len() {
			key, v := d.At(k)
			switch key.Text() {
			case "thinking", "reasoning", "reasoning_content":
				return false
			case "content":
				if v.Kind() != pyvalue.KindStr ||
					role != "tool" && role != "system" && strings.Contains(v.Text(), "<") {
					return false
				}
			case "tool_calls":
				calls = calls || len(v.Items()) > 0
				if len(v.Items()) > 1 {
					return false
				}
			}
		}
	}
	known := r.steady[0]
	if len(c.Tools.Items()) > 0 {
		known = r.steady[1]
	}
	if calls {
		return known.calls
	}
	return known.texts
}
