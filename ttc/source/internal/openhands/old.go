package openhands

import (
	"slices"

	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/source/internal/exchange"
	"github.com/nat-go/nat-go/ttc/source/internal/session"
)

// ignoredOld lists actions and observations of versions 0.x that are not shown to the model.
var ignoredOld = []string{
	"null", "change_agent_state", "agent_state_changed", "condensation_request", "loop_recovery", "loop_detection",
	"start", "pause", "resume", "stop",
}

// old returns the context after an event of version 0.x.
func (r *reader) old(e event, before *session.Given) *session.Given {
	kind, args := session.Text(e.Raw, "action"), session.Value(e.Raw, "args")
	byUser := session.Text(e.Raw, "source") == "user"
	switch response := session.Value(session.Value(e.Raw, "tool_call_metadata"), "model_response"); {
	case kind == "":
		return r.observation(e, before)
	case response != nil:
		return r.responded(e, response, before)
	case kind == "system":
		r.gaps &^= ttc.NoSystem
		r.offer(session.Value(args, "tools"))
		return r.tell(e, before, "system", block(session.Text(args, "content")))
	case kind == "message" && byUser:
		return r.add(e, before, session.Text(args, "content"))
	case kind == "message":
		return r.answer(e, said(args, "content", nil), before)
	case kind == "finish" && !byUser:
		return r.answer(e, said(args, "thought", nil), before)
	case kind == "run" && byUser:
		return r.add(e, before, "User executed the command:\n"+session.Text(args, "command"))
	case kind == "condensation":
		return r.condense(e, args, before)
	case kind != "recall": // a recall is counted by its observation, not here
		r.unread(kind, ignoredOld)
	}
	return before
}

// add returns the context after a user's text is added.
func (r *reader) add(e event, before *session.Given, text string) *session.Given {
	if before != nil && r.s.At(before.Ref).Role == "user" {
		text = "\n\n" + text
	}
	return before.Then(e.id(), r.s.Message(exchange.TextMessage("user", text)))
}

// responded adds a model's response, which is stored with each action that it led to.
func (r *reader) responded(e event, response json.Raw, before *session.Given) *session.Given {
	id, choices := session.Text(response, "id"), exchange.Choices(response)
	if len(choices) == 0 {
		r.tally.CountUnread("responses without choices", 1)
		return before
	}
	if id != "" && id == r.response {
		return before
	}
	r.response, r.model = id, session.Text(response, "model")
	after := r.answer(e, choices[0].Message, before)
	if session.Text(e.Raw, "action") == "finish" { // later requests contain the answer's text but not its call
		return before.Then(e.id(), r.s.Message(exchange.TextMessage("assistant", choices[0].Text)))
	}
	return after
}

// observation returns the context after an observation in version 0.x.
func (r *reader) observation(e event, before *session.Given) *session.Given {
	kind, text := session.Text(e.Raw, "observation"), session.Text(e.Raw, "content")
	byUser := session.Value(e.Raw, "tool_call_metadata") == nil
	switch kind {
	case "run":
		if text = rendered(text, session.Value(session.Value(e.Raw, "extras"), "metadata")); byUser {
			text = "\nObserved result of command executed by user:\n" + text
		}
	case "error":
		text += "\n[Error occurred in processing last action]"
	case "user_rejected":
		text = "OBSERVATION:\n" + text + "\n[Last action has been rejected by the user]"
	case "recall", "":
		r.unread(kind, ignoredOld)
		return before
	}
	if slices.Contains(ignoredOld, kind) {
		return before
	}
	if byUser {
		return r.add(e, before, text)
	}
	failed := kind == "error" || kind == "user_rejected"
	m := exchange.TextMessage("tool", text)
	m.Error = &failed
	m.ToolCallID = session.Text(session.Value(e.Raw, "tool_call_metadata"), "tool_call_id")
	return before.Then(e.id(), r.s.Message(m))
}

func (r *reader) unread(kind string, ignored []string) {
	if !slices.Contains(ignored, kind) {
		r.tally.CountUnread("events of kind "+session.Name(kind), 1)
	}
}
