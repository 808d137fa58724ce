package copilot

import (
	"cmp"
	"slices"
	"strings"

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
		Type: "copilot", Tried: "Copilot CLI 1.0.102", Doc: "sessions of Copilot CLI (~/.copilot/session-state)",
		Extensions: []string{".jsonl"}, Recognize: session.Marked(isMark, "data"),
		Read: session.Headed{Mark: isMark, ID: sessionID, Session: add}.Read,
	}.Factory()
}

// sessionID returns the session's id, as given by the first event.
func sessionID(event json.Raw) string {
	if session.Text(event, "type") != "session.start" {
		return ""
	}
	return session.Text(session.Value(event, "data"), "sessionId")
}

// isMark reports whether an entry is the first event, or an answer.
func isMark(event json.Raw) bool {
	return sessionID(event) != "" || session.Text(event, "type") == "assistant.message" &&
		session.Value(session.Value(event, "data"), "toolRequests") != nil
}

// reader reads a session's events.
type reader struct {
	s     *calls.Session
	tally *source.Tally
	talks map[string]*conversation // conversations, by agent
}

// conversation is an agent's conversation so far.
type conversation struct {
	system  []calls.Ref // the system prompt, if any
	said    []calls.Ref
	walk    calls.Walk
	walked  int            // number of messages in the walk that come from said; negative if the walk must be rebuilt
	before  map[string]int // number of messages in said before each event
	answer  chat.Message   // the beginning of an answer that spans several events
	made    []string       // the calls of the last answer
	results map[string]calls.Message
	asked   bool   // a message with a prompt has followed the last answer
	prompt  string // a prompt found only in a hook event; empty if there is none
}

func add(s *calls.Session, events []session.Kept, tally *source.Tally) {
	r := &reader{s, tally, map[string]*conversation{}}
	for _, event := range events {
		if r.event(event); s.TooLarge() {
			return
		}
	}
	for _, t := range r.talks {
		if t.answer.Role != "" {
			tally.CountUnread("answers without their last event", 1)
		}
	}
}

// ignored lists the kinds of events that are not counted as unread, because they don't affect a model's input, or
// because the method event reads them. Truncations are counted although they are session events.
var ignored = []string{
	"session", "assistant", "tool", "model", "hook", "permission", "subagent", "user_input", "elicitation", "command",
	"commands", "capabilities", "exit_plan_mode", "external_tool", "mcp", "mcp_app", "pending_messages", "sampling",
	"sandbox", "ui", "workflow", "auto_mode_switch", "human_response", "session_limits_exhausted", "tool_search",
}

func (r *reader) event(part session.Kept) {
	event := json.Raw(part.JSON)
	data, agent := session.Value(event, "data"), session.Text(event, "agentId")
	t := r.talks[agent]
	if t == nil {
		t = &conversation{walked: -1, before: map[string]int{}, results: map[string]calls.Message{}}
		r.talks[agent] = t
	}
	t.before[session.Text(event, "id")] = len(t.said)
	switch typ := session.Text(event, "type"); typ {
	case "system.message":
		r.system(t, data)
	case "hook.start":
		if session.Text(data, "hookType") == "userPromptSubmitted" && !t.asked {
			t.prompt = session.Text(session.Value(data, "input"), "prompt")
		}
	case "user.message", "system.notification", "skill.context_delivered":
		t.asked, t.prompt = true, ""
		r.say(t, cmp.Or(session.Text(data, "transformedContent"), session.Text(data, "content")))
	case "assistant.message":
		r.answer(t, agent, part)
	case "tool.execution_complete":
		t.results[session.Text(data, "toolCallId")] = result(data)
	case "session.compaction_complete", "session.context_cleared":
		summary := cmp.Or(session.Text(data, "summaryContent"), session.Text(data, "initialMessage"))
		if typ == "session.context_cleared" || summary != "" {
			t.truncate(0)
		}
		r.say(t, summary)
	case "session.snapshot_rewind":
		if said, known := t.before[session.Text(data, "upToEventId")]; known {
			t.truncate(said)
		}
	default:
		kind, _, _ := strings.Cut(typ, ".")
		if typ == "session.truncation" || !slices.Contains(ignored, kind) {
			r.tally.CountUnread("events of type "+session.Name(typ), 1)
		}
	}
}

// truncate removes all but the first n messages.
func (t *conversation) truncate(n int) {
	t.said, t.walked, t.made = t.said[:min(n, len(t.said))], -1, nil
}

// system reads an instruction; a system prompt replaces the previous one.
func (r *reader) system(t *conversation, data json.Raw) {
	ref := r.s.Message(exchange.TextMessage("system", session.Text(data, "content")))
	switch {
	case session.Text(data, "role") == "developer":
		t.said = append(t.said, ref)
	case !slices.Equal(t.system, []calls.Ref{ref}):
		t.system, t.walked = []calls.Ref{ref}, -1
	}
}

func (r *reader) say(t *conversation, text string) {
	r.results(t)
	if text != "" {
		t.said = append(t.said, r.s.Message(exchange.TextMessage("user", text)))
	}
}

// results appends the results of the last answer's calls.
func (r *reader) results(t *conversation) {
	for _, id := range t.made {
		if m, ran := t.results[id]; ran {
			t.said = append(t.said, r.s.Message(m))
		}
	}
	t.made = nil
}

// context returns the input of an agent's next call.
func (r *reader) context(t *conversation) calls.Walk {
	if t.walked < 0 {
		t.walk, t.walked = r.s.Extend(0, t.system...), 0
		r.s.Give(len(t.said))
	}
	t.walk = r.s.Extend(t.walk, t.said[t.walked:]...)
	t.walked = len(t.said)
	return t.walk
}

// answer adds a call when its answer is complete.
func (r *reader) answer(t *conversation, agent string, part session.Kept) {
	event := json.Raw(part.JSON)
	data, m := session.Value(event, "data"), &t.answer
	m.Role, m.Form = "assistant", chat.Text
	m.Text += session.Text(data, "content")
	exchange.Think(m, session.Text(data, "reasoningText"))
	for request := range session.Value(data, "toolRequests").Elements() {
		m.ToolCalls = append(m.ToolCalls, exchange.CallOf(request, "toolCallId", "name", "arguments"))
	}
	index, _ := session.Value(data, "chunkIndex").Int64()
	if count, _ := session.Value(data, "chunkCount").Int64(); index+1 < count {
		return
	}
	exchange.NullIfEmpty(m)
	r.say(t, t.prompt)
	t.asked, t.prompt = false, ""
	c := calls.Call{
		ID: cmp.Or(session.Text(data, "messageId"), session.Text(event, "id")), Agent: agent,
		Model: session.Text(data, "model"), After: r.context(t), Output: *m,
		Time: session.Nanoseconds(session.Text(event, "timestamp")), File: part.Path, Offset: part.Offset,
		Gaps: ttc.RebuiltHistory | ttc.NoTools | exchange.Gap(m),
	}
	if t.system == nil {
		c.Gaps |= ttc.NoSystem
	}
	if session.Text(data, "reasoningOpaque") != "" || session.Text(data, "encryptedContent") != "" {
		c.Gaps |= ttc.HiddenReasoning
	}
	r.s.Add(c)
	t.said = append(t.said, r.s.Message(calls.Message{Message: *m}))
	for _, call := range m.ToolCalls {
		t.made = append(t.made, call.ID)
	}
	t.answer = chat.Message{}
}

// result reads a tool's result as the model sees it.
func result(data json.Raw) calls.Message {
	succeeded, said := session.Value(data, "success").Bool()
	m := exchange.TextMessage("tool", cmp.Or(
		session.Text(session.Value(data, "result"), "content"), session.Text(session.Value(data, "error"), "message"),
	))
	m.ToolCallID = session.Text(data, "toolCallId")
	if failed := !succeeded; said {
		m.Error = &failed
	}
	return m
}
