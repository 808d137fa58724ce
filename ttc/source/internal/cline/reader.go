package cline

import (
	"path/filepath"
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
		Type: "cline", Tried: "Cline 3.0.65", Doc: "sessions and tasks of Cline (~/.cline, api_conversation_history.json)",
		Extensions: []string{".messages.json", "api_conversation_history.json"},
		Recognize:  session.Marked(isMark, "sessionId", "role"),
		Read:       session.Headed{Mark: isMark, ID: sessionID, Name: taskOf, Session: add}.Read,
	}.Factory()
}

// sessionID returns the id of a stored session, or "" for a task's message.
func sessionID(entry json.Raw) string {
	if session.At(entry, "messages").Kind() != json.Array || session.Text(entry, "agent") == "" {
		return ""
	}
	return session.Text(entry, "sessionId")
}

// isMark reports whether an entry is a stored session, or a user's message with Cline's additions.
func isMark(entry json.Raw) bool {
	return sessionID(entry) != "" || session.Text(entry, "role") == "user" &&
		slices.ContainsFunc(exchange.Blocks(session.At(entry, "content")), func(b json.Raw) bool {
			text := session.Text(b, "text")
			return strings.HasPrefix(text, "<task>\n") || strings.HasPrefix(text, "<environment_details>\n")
		})
}

// taskOf returns the id of the task that a file belongs to: the name of its folder.
func taskOf(path string) string {
	if dir := filepath.Base(filepath.Dir(path)); dir != "." {
		return dir
	}
	return session.Stem(path)
}

// reader reads a session's messages.
type reader struct {
	s     *calls.Session
	tally *source.Tally
	said  calls.Walk
	gaps  ttc.Gaps
}

func add(s *calls.Session, entries []session.Kept, tally *source.Tally) {
	r := &reader{s: s, tally: tally, gaps: ttc.RebuiltHistory | ttc.NoTools | ttc.NoSystem}
	for _, part := range entries {
		entry := json.Raw(part.JSON)
		if sessionID(entry) == "" {
			r.message(part, entry)
			continue
		}
		if text := session.Text(entry, "system_prompt"); text != "" {
			r.tell(exchange.TextMessage("system", text))
			r.gaps &^= ttc.NoSystem
		}
		for m := range session.At(entry, "messages").Elements() {
			r.message(part, m)
		}
	}
}

func (r *reader) tell(m calls.Message) { r.said = r.s.Extend(r.said, r.s.Message(m)) }

// message adds a message to the context. If it is from the model, it is also a call.
func (r *reader) message(part session.Kept, m json.Raw) {
	content := session.At(m, "content")
	switch role := session.Text(m, "role"); role {
	case "assistant":
	case "user":
		for _, told := range told(content) {
			r.tell(told)
		}
		return
	default:
		r.tally.CountUnread("messages of role "+session.Name(role), 1)
		return
	}
	a, hidden := exchange.AnswerOf(exchange.Blocks(content))
	c := calls.Call{
		ID: session.Text(m, "id"), Model: session.Text(session.Value(m, "modelInfo"), "id"), After: r.said, Output: a,
		Gaps: r.gaps | exchange.Gap(&a), File: part.Path, Offset: part.Offset,
	}
	if hidden {
		c.Gaps |= ttc.HiddenReasoning
	}
	if n, ok := session.At(m, "ts").Int64(); ok && n > 0 && n < 1e13 {
		c.Time = n * 1e6
	}
	r.s.Add(c)
	r.tell(calls.Message{Message: a})
}

// told returns the call results and the user's text in a message.
func told(content json.Raw) []calls.Message {
	out := exchange.AnthropicMessages("user", content)
	i := 0
	for _, b := range exchange.Blocks(content) {
		if session.Text(b, "type") != "tool_result" {
			continue
		}
		if v := session.At(b, "content"); isValue(v) {
			out[i].Message = chat.Message{Role: "tool", Form: chat.Text, ToolCallID: out[i].ToolCallID}
			out[i].Text = string(json.AppendCompact(nil, v))
		}
		i++
	}
	if i < len(out) {
		out[i].Text = unwrapped(out[i].Text)
	}
	return out
}

// isValue reports whether a result is a value rather than text or blocks.
func isValue(v json.Raw) bool {
	return v.Kind() == json.Object || session.Any(v, func(block json.Raw) bool {
		typ := session.Text(block, "type")
		return typ != "text" && typ != "image"
	})
}

// unwrapped returns a user's text without the enclosing tag, which records the user's mode and isn't sent to the model.
func unwrapped(text string) string {
	inner, ok := strings.CutSuffix(text, "</user_input>")
	if _, inner, found := strings.Cut(inner, ">"); ok && found && strings.HasPrefix(text, `<user_input mode="`) {
		return inner
	}
	return text
}
