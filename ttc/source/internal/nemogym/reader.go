package nemogym

import (
	"cmp"
	"strconv"

	"github.com/nat-go/nat-go/internal/calls"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/source/internal/exchange"
	"github.com/nat-go/nat-go/ttc/source/internal/session"
	"github.com/nat-go/nat-go/ttc/source/internal/source"
)

// Factory returns this source's factory, which a configuration selects by its type.
func Factory() source.Factory {
	return session.Format{
		Type: "nemo_gym", Tried: "nemo-gym 0.4.0", Doc: "rollouts of NeMo Gym (rollouts.jsonl)",
		Extensions: []string{".jsonl"}, Recognize: session.Marked(isRollout, "responses_create_params"),
		Entries: session.Stateless("lines that are not rollouts", key, sessions),
	}.Factory()
}

// isRollout reports whether an entry is a rollout; a failed one lacks a response.
func isRollout(entry json.Raw) bool {
	_, response := entry.Get("response")
	_, reward := entry.Get("reward")
	return session.At(entry, "responses_create_params").Kind() == json.Object && (response || reward)
}

// key returns the session key of a rollout.
func key(entry json.Raw) (string, bool) {
	id := source.IDText(session.At(entry, "_ng_rollout_id"))
	if task := taskOf(entry); id == "" && task != "" {
		id = task + "/" + trialOf(entry)
	}
	return cmp.Or(id, session.Text(entry, "response", "id")), isRollout(entry)
}

func trialOf(entry json.Raw) string { return source.IDText(session.At(entry, "_ng_rollout_index")) }

// taskOf returns the task that all trials of one problem share. It is empty if the rollout doesn't name one.
func taskOf(entry json.Raw) string {
	task := source.IDText(session.At(entry, "_ng_task_index"))
	if name := session.Text(entry, "agent_ref", "name"); name != "" && task != "" {
		return name + "/" + task
	}
	return task
}

func sessions(g session.Group) (out []*calls.Session) {
	for i, part := range g.Parts {
		if s := sessionOf(g, part, i); s != nil {
			out = append(out, s)
		}
	}
	return out
}

// sessionOf builds the session from a rollout; i is the rollout's position among the rollouts that share its id. It
// returns nil if nothing in it can be trained on.
func sessionOf(g session.Group, part session.Kept, i int) *calls.Session {
	raw := json.Raw(part.JSON)
	id, _ := key(raw)
	s := g.Limits.New(cmp.Or(id, "rollout-"+strconv.Itoa(i)))
	s.Task, s.Trial, s.Reward = taskOf(raw), trialOf(raw), session.Finite(session.At(raw, "reward"))
	t := turns{
		request: session.At(raw, "responses_create_params"), response: session.At(raw, "response"), part: part, s: s,
	}
	if !exchange.IsResponses(t.response) {
		g.Tally.DropCall(session.FailedCall, "the rollout has no response", s.ID, part.Path, part.Offset)
		return nil
	}
	t.read()
	exchange.CountUnread(g.Tally, t.items.Unread)
	if masked, _ := session.At(raw, "mask_sample").Bool(); masked {
		for range t.calls {
			g.Tally.DropCall(maskedSample, "", s.ID, part.Path, part.Offset)
		}
		return nil
	}
	t.add()
	return s
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
	t.items.Add(session.At(t.request, "input"))
	t.items.End() // messages in the request weren't written in this rollout
	t.items.Hidden = false
	t.items.Turn = t.turn
	t.items.Add(session.At(t.response, "output"))
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
		exchange.SetTokens(&c.Call, session.At(item, "generation_token_ids"), session.At(item, "generation_log_probs"))
		if c.TokenIDs != nil {
			break
		}
	}
	c.Gaps |= exchange.Gap(m)
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
