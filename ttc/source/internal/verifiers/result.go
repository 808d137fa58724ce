package verifiers

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/nat-go/nat-go/internal/calls"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/source/internal/compose"
	"github.com/nat-go/nat-go/ttc/source/internal/exchange"
	"github.com/nat-go/nat-go/ttc/source/internal/session"
	"github.com/nat-go/nat-go/ttc/source/internal/source"
)

// result reads a result from version 0: the turns if they were kept, otherwise prompt and completion as one
// conversation. i is the rollout's index within its example.
func (r *reader) result(raw json.Raw, part session.Kept, i int) {
	id := source.IDText(session.At(raw, "example_id"))
	s := r.limits.New(session.ID(id) + "/" + strconv.Itoa(i))
	s.Task, s.Trial, s.Reward = id, strconv.Itoa(i), session.Finite(session.Value(raw, "reward"))
	if err := turns(s, raw, exchange.Tools(session.At(raw, "tool_defs")), part); err != nil {
		r.tally.DropSession(source.BadExample, err.Error(), s.ID, part.Path, part.Offset)
		return
	}
	if session.Text(raw, "stop_condition") == "error" {
		for range s.Len() {
			r.tally.DropCall(FailedRollout, "the rollout ended in an error", s.ID, part.Path, part.Offset)
		}
		return
	}
	r.out = append(r.out, s)
}

func turns(s *calls.Session, raw json.Raw, defs []chat.Tool, part session.Kept) error {
	c := calls.Call{Time: 1, Tools: defs, File: part.Path, Offset: part.Offset}
	steps := session.At(raw, "trajectory")
	if steps.Kind() != json.Array {
		return chain(s, raw, c)
	}
	for step := range steps.Elements() {
		c.ID, c.Model = s.ID+"/"+strconv.FormatInt(c.Time, 10), session.Text(step, "response", "model")
		if err := chain(s, step, c); err != nil {
			return err
		}
		c.Time++
	}
	return nil
}

// chain adds a call for each assistant message in an entry's completion.
func chain(s *calls.Session, entry json.Raw, c calls.Call) error {
	if c.Tools == nil {
		c.Gaps |= ttc.NoTools
	}
	prompt, completion := session.At(entry, "prompt"), session.At(entry, "completion")
	var history []calls.Ref
	for _, list := range []json.Raw{prompt, completion} {
		ours := len(completion) > 0 && len(list) > 0 && &list[0] == &completion[0]
		for e := range list.Elements() {
			m, err := message(e)
			if err != nil {
				return err
			}
			if ours && m.Role == "assistant" {
				call := c
				call.Input, call.Output = slices.Clone(history), m
				s.Add(call)
				c.Time++
			}
			history = append(history, s.Message(calls.Message{Message: m}))
		}
	}
	return nil
}

// message reads a message from either version. In results from version 0, calls are given as JSON text.
func message(raw json.Raw) (chat.Message, error) {
	if raw.Kind() != json.Object {
		return chat.Message{}, fmt.Errorf("expected a message object, got %s", raw.Kind())
	}
	if texts := session.At(raw, "tool_calls"); texts.Kind() == json.Array {
		var inner compose.List
		for e := range texts.Elements() {
			call, err := source.Inner(e)
			if err != nil {
				return chat.Message{}, fmt.Errorf("invalid tool call JSON: %w", json.LineError(err))
			}
			inner = inner.Add(call)
		}
		var parsed compose.Object
		for k, v := range raw.Members() {
			if k.Is("tool_calls") {
				v = inner.End()
			}
			parsed = parsed.Member(k, v)
		}
		raw = parsed.End()
	}
	ms, err := chat.ParseMessages(compose.List(nil).Add(raw).End())
	if err != nil {
		return chat.Message{}, err
	}
	m := ms[0]
	m.Extra = nil // drops keys such as provider_state
	for i := range m.ToolCalls {
		m.ToolCalls[i].Type = cmp.Or(m.ToolCalls[i].Type, "function")
	}
	return m, nil
}
