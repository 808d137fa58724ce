package nemogym

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/nat-go/nat-go/internal/calls"
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
	return session.At(entry, "responses_create_params").Kind() == json.Object &&
		(session.Has(entry, "response") || session.Has(entry, "reward"))
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
	response := session.At(raw, "response")
	if !exchange.IsResponses(response) {
		g.Tally.DropCall(session.FailedCall, "the rollout has no response", s.ID, part.Path, part.Offset)
		return nil
	}
	e := exchange.Responses(session.At(raw, "responses_create_params"), response, true)
	exchange.CountUnread(g.Tally, e.Unread)
	if masked, _ := session.At(raw, "mask_sample").Bool(); masked {
		for range e.Answers {
			g.Tally.DropCall(maskedSample, "", s.ID, part.Path, part.Offset)
		}
		return nil
	}
	refs := exchange.Refs(s, slices.Concat(e.Input, e.Said))
	for i, a := range e.Answers {
		given := len(e.Input) + a.Given
		s.Add(calls.Call{
			ID: s.ID + "/" + strconv.Itoa(i+1), Model: e.Model, Time: e.Time + int64(i) + 1, Tools: e.Tools,
			Input: refs[:given:given], Output: a.Message, FinishReason: a.Finish,
			TokenIDs: a.TokenIDs, LogProbs: a.LogProbs, Usage: e.Usage, Gaps: a.Gaps | exchange.Gap(&a.Message),
			File: part.Path, Offset: part.Offset,
		})
	}
	return s
}
