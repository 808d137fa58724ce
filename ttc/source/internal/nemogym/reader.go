package nemogym

import (
	"cmp"
	"math"
	"strconv"

	"github.com/nat-go/nat-go/internal/calls"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/ledger"
	"github.com/nat-go/nat-go/ttc/source/internal/exchange"
	"github.com/nat-go/nat-go/ttc/source/internal/session"
	"github.com/nat-go/nat-go/ttc/source/internal/source"
)

// Factory returns this source's factory, which a configuration selects by its type.
func Factory() source.Factory {
	return session.Format{
		Type: "nemo_gym", Tried: "nemo-gym 0.4.0", Doc: "rollouts of NeMo Gym (rollouts.jsonl)",
		Extensions: []string{".jsonl"}, Entries: entries,
		Recognize: session.Marked(isRollout, "responses_create_params"),
	}.Factory()
}

// isRollout reports whether an entry is a rollout; a failed one lacks a response.
func isRollout(entry json.Raw) bool {
	request, ok := entry.Get("responses_create_params")
	_, response := entry.Get("response")
	_, reward := entry.Get("reward")
	return ok && request.Kind() == json.Object && (response || reward)
}

// reader builds sessions from rollouts.
type reader struct{ tally *source.Tally }

func entries(tally *source.Tally) session.Entries {
	return session.Entries{ID: key, Others: "lines that are not rollouts", Sessions: (&reader{tally}).sessions}
}

// key returns the session key of a rollout.
func key(entry json.Raw) (string, bool) {
	id, _ := entry.Get("_ng_rollout_id")
	if name := source.IDText(id); name != "" {
		return name, isRollout(entry)
	}
	if task := taskOf(entry); task != "" {
		trial, _ := entry.Get("_ng_rollout_index")
		return task + "/" + source.IDText(trial), isRollout(entry)
	}
	response, _ := entry.Get("response")
	return session.Text(response, "id"), isRollout(entry)
}

// taskOf returns the task that all trials of one problem share. It is empty if the rollout doesn't name one.
func taskOf(entry json.Raw) string {
	index, _ := entry.Get("_ng_task_index")
	task := source.IDText(index)
	agent, _ := entry.Get("agent_ref")
	if name := session.Text(agent, "name"); name != "" && task != "" {
		return name + "/" + task
	}
	return task
}

func (r *reader) sessions(g session.Group) (out []*calls.Session) {
	for i, part := range g.Parts {
		if s := r.rollout(part, g.Limits, i); s != nil {
			out = append(out, s)
		}
	}
	return out
}

// rollout builds the session from a rollout; i is the rollout's position among the rollouts that share its id. It
// returns nil if nothing in it can be trained on.
func (r *reader) rollout(part session.Kept, limits session.Limits, i int) *calls.Session {
	raw := json.Raw(part.JSON)
	id, _ := key(raw)
	s := limits.New(cmp.Or(id, "rollout-"+strconv.Itoa(i)))
	s.Task = taskOf(raw)
	trial, _ := raw.Get("_ng_rollout_index")
	s.Trial = source.IDText(trial)
	reward, _ := raw.Get("reward")
	if f, ok := reward.Float64(); ok && !math.IsNaN(f) && !math.IsInf(f, 0) {
		s.Reward = &f
	}
	request, _ := raw.Get("responses_create_params")
	response, _ := raw.Get("response")
	if !exchange.IsResponses(response) {
		r.drop(part, s.ID, session.FailedCall, "the rollout has no response")
		return nil
	}
	t := turns{request: request, response: response, part: part, s: s}
	t.read()
	exchange.CountUnread(r.tally, t.items.Unread)
	if mask, _ := raw.Get("mask_sample"); mask.Kind() == json.Bool {
		if masked, _ := mask.Bool(); masked {
			for range t.calls {
				r.drop(part, s.ID, maskedSample, "")
			}
			return nil
		}
	}
	t.add()
	return s
}

func (r *reader) drop(part session.Kept, id string, why ledger.Reason, detail string) {
	r.tally.DropCall(why, detail, id, part.Path, part.Offset)
}

// turns holds a rollout's calls.
type turns struct {
	request, response json.Raw
	part              session.Kept
	s                 *calls.Session
	items             exchange.Items
	calls             []turn
}

// turn is a call. Its input consists of the first messages of the rollout; given is their number.
type turn struct {
	calls.Call
	given int
}

// read reads the items in the request and in the response.
func (t *turns) read() {
	t.items.Summaries = true
	t.items.Instructions(t.request)
	input, _ := t.request.Get("input")
	t.items.Add(input)
	t.items.End() // messages in the request weren't written in this rollout
	t.items.Hidden = false
	t.items.Turn = t.turn
	output, _ := t.response.Get("output")
	t.items.Add(output)
	t.items.End()
}

// turn records the call that produced these items.
func (t *turns) turn(items []json.Raw, m *chat.Message) {
	c := turn{calls.Call{Output: *m, FinishReason: "stop"}, t.items.Len() - 1}
	if m.ToolCalls != nil {
		c.FinishReason = "tool_calls"
	}
	if t.items.Hidden {
		c.Gaps |= ttc.HiddenReasoning
		t.items.Hidden = false
	}
	if t.items.Unread != nil { // the model saw the items so far, at least in part
		c.Gaps |= ttc.RebuiltHistory
	}
	for _, item := range items {
		list, _ := item.Get("generation_token_ids")
		if ids := exchange.TokenIDs(list); ids != nil {
			c.TokenIDs = ids
			list, _ = item.Get("generation_log_probs")
			if probs := exchange.LogProbs(list); len(probs) == len(ids) {
				c.LogProbs = probs
			}
			break
		}
	}
	for _, call := range m.ToolCalls {
		if call.AsObject {
			c.Gaps |= ttc.ParsedArguments
		}
	}
	t.calls = append(t.calls, c)
}

// add adds the calls.
func (t *turns) add() {
	e, _ := exchange.Responses(t.request, t.response)
	messages := t.items.End()
	refs := make([]calls.Ref, len(messages))
	for i, m := range messages {
		refs[i] = t.s.Message(m)
	}
	for i := range t.calls {
		c := &t.calls[i]
		c.ID, c.Model, c.Time = t.s.ID+"/"+strconv.Itoa(i+1), e.Model, e.Time+int64(i)+1
		c.Tools, c.File, c.Offset = e.Tools, t.part.Path, t.part.Offset
		c.Input = refs[:c.given:c.given]
		if len(t.calls) == 1 {
			c.Usage = e.Usage
		}
		if i == len(t.calls)-1 {
			c.FinishReason = exchange.ResponseFinish(t.response, &c.Output)
		}
		t.s.Add(c.Call)
	}
}
