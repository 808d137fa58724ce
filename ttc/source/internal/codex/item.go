package codex

import (
	"cmp"
	"slices"

	"github.com/nat-go/nat-go/internal/calls"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/source/internal/exchange"
	"github.com/nat-go/nat-go/ttc/source/internal/session"
)

// item adds an item from the history.
func (t *thread) item(payload json.Raw, l session.Line) {
	meta := session.At(l.JSON, "metadata")
	if meta == nil {
		meta = session.At(payload, "metadata")
	}
	sequence, through := number(meta, "history_sequence", 0), number(meta, "sampled_through_sequence", -1)
	switch typ := session.Text(payload, "type"); {
	case typ == "message":
		role := session.Text(payload, "role")
		content := session.At(payload, "content")
		if role != "assistant" {
			t.close()
			t.append(&entry{sequence: sequence, inserted: inserted(role, content), message: calls.Message{
				Message: exchange.Content(exchange.Role(role), content),
			}})
			return
		}
		exchange.AddText(&t.answer(payload, sequence, through, l).call.Output, exchange.Content("assistant", content))
	case typ == "reasoning":
		a := t.answer(payload, sequence, through, l)
		if !exchange.AddReasoning(&a.call.Output, payload, false) {
			a.call.Gaps |= ttc.HiddenReasoning
		}
	case exchange.IsCall(typ):
		call := exchange.ItemCall(typ, payload)
		t.size += int64(len(call.Arguments))
		a := t.answer(payload, sequence, through, l)
		if call.AsObject {
			a.call.Gaps |= ttc.ParsedArguments
		}
		a.call.Output.ToolCalls = append(a.call.Output.ToolCalls, call)
	case exchange.IsResult(typ):
		t.close()
		t.append(&entry{sequence: sequence, message: exchange.ItemResult(payload)})
	default:
		t.unread("items of type " + session.Name(typ))
	}
}

// answer returns the answer that a model's item belongs to: the current one, or a new one.
func (t *thread) answer(payload json.Raw, sequence, through int64, l session.Line) *turn {
	if t.open != nil && t.open.through == through {
		return t.open
	}
	a := &turn{through: through, inherited: t.inherited, missing: t.missing}
	a.input = t.given(through)
	a.call = calls.Call{
		ID: cmp.Or(session.Text(payload, "call_id"), session.Text(payload, "id")), Model: t.model,
		Time:   session.Nanoseconds(session.Text(l.JSON, "timestamp")),
		Output: chat.Message{Role: "assistant", Form: chat.Null}, Tools: t.tools, File: t.path, Offset: l.Offset,
	}
	if t.tools == nil {
		a.call.Gaps |= ttc.NoTools
	}
	if len(a.input) == 0 || a.input[0].message.Role != "system" {
		a.call.Gaps |= ttc.NoSystem
	}
	if t.rebuilt {
		a.call.Gaps |= ttc.RebuiltHistory
	}
	t.open, t.last = a, a
	t.answers = append(t.answers, a)
	t.history = append(t.history, &entry{sequence: sequence, turn: a})
	return a
}

// given returns the part of the history that the model had read. If it had read everything, nothing is copied.
func (t *thread) given(through int64) []*entry {
	t.out.Give(len(t.history))
	unread := func(e *entry) bool { return through >= 0 && e.sequence > through }
	if !slices.ContainsFunc(t.history, unread) {
		return t.history[:len(t.history):len(t.history)]
	}
	return slices.DeleteFunc(slices.Clone(t.history), unread)
}

func number(raw json.Raw, key string, otherwise int64) int64 {
	if n, ok := session.At(raw, key).Int64(); ok {
		return n
	}
	return otherwise
}
