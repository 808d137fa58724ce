package pi

import (
	"slices"

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
		Type: "pi", Doc: "sessions of Pi, OpenClaw and OMP (~/.pi, ~/.openclaw, ~/.omp)", Extensions: []string{".jsonl"},
		Recognize: session.Marked(isMark, "cwd", "message"),
		Read:      session.Headed{Mark: isMark, ID: sessionID, Session: add}.Read,
	}.Factory()
}

// isMark reports whether an entry is a header, or a model's answer as stored by these programs.
func isMark(entry json.Raw) bool {
	message := session.Value(entry, "message")
	switch session.Text(entry, "type") {
	case header:
		return session.Text(entry, "id") != "" && session.Text(entry, "cwd") != ""
	case "message":
		return session.Text(message, "role") == "assistant" && session.Text(message, "provider") != ""
	}
	return false
}

// sessionID returns the id that a header gives to its session.
func sessionID(entry json.Raw) string {
	if session.Text(entry, "type") != header {
		return ""
	}
	return session.Text(entry, "id")
}

type reader struct{ tally *source.Tally }

// add adds the calls in a file's entries.
func add(s *calls.Session, entries []session.Kept, tally *source.Tally) {
	r := &reader{tally}
	contexts := map[string]*session.Given{} // context after each entry, by id
	var last *session.Given
	for _, part := range entries {
		entry := json.Raw(part.JSON)
		id, before := session.Text(entry, "id"), last
		parent, ok := entry.Get("parentId")
		name, _ := parent.Text()
		if context, known := contexts[name]; known || ok && parent.Kind() == json.Null {
			before = context
		}
		last = r.after(s, part, before)
		contexts[id] = last
		if s.TooLarge() {
			break
		}
	}
}

// header is the type of a file's first entry.
const header = "session"

// ignoredTypes are the types of entries that aren't sent to a model.
var ignoredTypes = []string{header, "model_change", "thinking_level_change", "label", "custom", "session_info"}

// after returns the context after an entry, and adds the call if the entry is an answer.
func (r *reader) after(s *calls.Session, part session.Kept, before *session.Given) *session.Given {
	entry := json.Raw(part.JSON)
	id, m := session.Text(entry, "id"), calls.Message{}
	switch typ := session.Text(entry, "type"); typ {
	case "message":
		message := session.Value(entry, "message")
		if session.Text(message, "role") == "assistant" {
			return r.answer(s, part, message, before)
		}
		var ok bool
		if m, ok = r.message(message); !ok {
			return before
		}
	case "custom_message":
		m.Message = exchange.Content("user", session.Value(entry, "content"))
	case "compaction", "branch_summary":
		m.Message = chat.Message{Role: "user", Form: chat.Text, Text: session.Text(entry, "summary")}
		if typ == "compaction" {
			all := before.Links()
			s.Give(len(all)) // the kept messages are relinked
			context := (*session.Given)(nil).Then(id, s.Message(m))
			first, kept := session.Text(entry, "firstKeptEntryId"), false
			for _, g := range all {
				if kept = kept || g.Entry == first && first != ""; kept {
					context = context.Then(g.Entry, g.Ref)
				}
			}
			return context
		}
	default:
		if !slices.Contains(ignoredTypes, typ) {
			r.tally.CountUnread("entries of type "+session.Name(typ), 1)
		}
		return before
	}
	return before.Then(id, s.Message(m))
}

// answer adds the call that produced an answer, and returns the context after it.
func (r *reader) answer(s *calls.Session, part session.Kept, message json.Raw, before *session.Given) *session.Given {
	entry := json.Raw(part.JSON)
	id, stop := session.Text(entry, "id"), session.Text(message, "stopReason")
	if stop == "error" || stop == "aborted" { // such an answer is not resent to the model
		r.tally.DropCall(session.FailedCall, stop, s.ID, part.Path, part.Offset)
		return before
	}
	m := r.said(message)
	c := calls.Call{
		ID: id, Model: session.Text(message, "model"), Output: m, FinishReason: stop,
		Time: session.Nanoseconds(session.Text(entry, "timestamp")), File: part.Path, Offset: part.Offset,
		Gaps: ttc.RebuiltHistory | ttc.NoSystem | ttc.NoTools | (&exchange.Answer{Message: m}).Gap(),
	}
	c.Input = before.Input()
	s.Add(c)
	return before.Then(id, s.Message(calls.Message{Message: m}))
}

// said reads a model's output: text, thoughts and calls.
func (r *reader) said(message json.Raw) chat.Message {
	m := chat.Message{Role: "assistant", Form: chat.Text}
	for block := range session.Value(message, "content").Elements() {
		switch typ := session.Text(block, "type"); typ {
		case "text":
			m.Text += session.Text(block, "text")
		case "thinking":
			m.Reasoning, m.ReasoningKey = m.Reasoning+session.Text(block, "thinking"), "reasoning_content"
		case "toolCall":
			m.ToolCalls = append(m.ToolCalls, exchange.CallOf(block, "id", "name", "arguments"))
		default:
			r.tally.CountUnread("parts of answers of type "+session.Name(typ), 1)
		}
	}
	exchange.NullIfEmpty(&m)
	return m
}

// message reads a message; ok is false if the model was not given it.
func (r *reader) message(message json.Raw) (m calls.Message, ok bool) {
	content := session.Value(message, "content")
	switch role := session.Text(message, "role"); role {
	case "user", "custom":
		m.Message = exchange.Content("user", content)
	case "toolResult":
		m.Message = exchange.Content("tool", content)
		m.ToolCallID = session.Text(message, "toolCallId")
		if failed, said := session.Value(message, "isError").Bool(); said && failed {
			m.Error = &failed
		}
	case "bashExecution": // a command that the user ran
		if hidden, _ := session.Value(message, "excludeFromContext").Bool(); hidden {
			return m, false
		}
		text := "Ran `" + session.Text(message, "command") + "`\n" + session.Text(message, "output")
		m.Message = chat.Message{Role: "user", Form: chat.Text, Text: text}
	case "branchSummary", "compactionSummary":
		m.Message = chat.Message{Role: "user", Form: chat.Text, Text: session.Text(message, "summary")}
	default:
		r.tally.CountUnread("messages of role "+session.Name(role), 1)
		return m, false
	}
	return m, true
}
