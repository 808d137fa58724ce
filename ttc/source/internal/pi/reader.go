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

type reader struct {
	tally  *source.Tally
	places map[string]place // the place after each entry, by the entry's id
}

// add adds the calls in a file's entries.
func add(s *calls.Session, entries []session.Kept, tally *source.Tally) {
	r := &reader{tally, map[string]place{}}
	var last place
	for _, part := range entries {
		entry := json.Raw(part.JSON)
		id, before := session.Text(entry, "id"), last
		parent, ok := entry.Get("parentId")
		if at, known := r.places[session.Text(parent)]; known || ok && parent.Kind() == json.Null {
			before = at
		}
		last = r.after(s, part, before)
		r.places[id] = last
		if s.TooLarge() {
			break
		}
	}
}

// place is a position between two entries.
type place struct {
	given *session.Given // the model's context
	path  *session.Given // all entries from the root, including those whose Ref is unsent
}

// unsent represents the message of an entry that isn't sent to a model.
const unsent calls.Ref = -1

// then returns the place after an entry that adds a message to the context.
func (p place) then(id string, ref calls.Ref) place {
	return place{p.given.Then(id, ref), p.path.Then(id, ref)}
}

// skip returns the place after an entry that does not change the context.
func (p place) skip(id string) place { return place{p.given, p.path.Then(id, unsent)} }

// header is the type of a file's first entry.
const header = "session"

// ignoredTypes are the types of entries that aren't sent to a model.
var ignoredTypes = []string{header, "model_change", "thinking_level_change", "label", "custom", "session_info"}

// after returns the place after an entry, and adds the call if the entry is an answer.
func (r *reader) after(s *calls.Session, part session.Kept, before place) place {
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
			return before.skip(id)
		}
	case "custom_message":
		m.Message = exchange.Content("user", session.Value(entry, "content"))
	case "compaction":
		return r.compact(s, entry, before)
	case "branch_summary":
		m = summary(entry)
	default:
		if !slices.Contains(ignoredTypes, typ) {
			r.tally.CountUnread("entries of type "+session.Name(typ), 1)
		}
		return before.skip(id)
	}
	return before.then(id, s.Message(m))
}

// compact returns the place after a compaction. The model is given the summary, then the messages from the first
// entry that the compaction keeps. That entry may lack a message, because the program also keeps other entries,
// such as a change of model, that directly precede a message.
func (r *reader) compact(s *calls.Session, entry json.Raw, before place) place {
	id, first := session.Text(entry, "id"), session.Text(entry, "firstKeptEntryId")
	var kept []*session.Given // kept entries, last first
	known := false
	if _, stored := r.places[first]; stored && first != "" {
		for g := before.path; g != nil && !known; g = g.Before {
			kept = append(kept, g)
			known = g.Entry == first
		}
		s.Give(len(kept)) // the kept messages are relinked
	}
	if !known {
		r.tally.CountUnread("compactions that keep the messages from an unknown entry on", 1)
		kept = nil
	}
	context := (*session.Given)(nil).Then(id, s.Message(summary(entry)))
	for _, g := range slices.Backward(kept) {
		if g.Ref != unsent {
			context = context.Then(g.Entry, g.Ref)
		}
	}
	return place{context, before.path.Then(id, unsent)}
}

// summary returns the message with an entry's summary, which replaces the summarised messages.
func summary(entry json.Raw) calls.Message {
	return exchange.TextMessage("user", session.Text(entry, "summary"))
}

// answer adds the call that produced an answer, and returns the place after it.
func (r *reader) answer(s *calls.Session, part session.Kept, message json.Raw, before place) place {
	entry := json.Raw(part.JSON)
	id, stop := session.Text(entry, "id"), session.Text(message, "stopReason")
	if stop == "error" || stop == "aborted" { // such an answer is not resent to the model
		r.tally.DropCall(session.FailedCall, stop, s.ID, part.Path, part.Offset)
		return before.skip(id)
	}
	m := r.said(message)
	s.Add(calls.Call{
		ID: id, Model: session.Text(message, "model"), Output: m, FinishReason: stop,
		Time: session.Nanoseconds(session.Text(entry, "timestamp")), File: part.Path, Offset: part.Offset,
		Gaps:  ttc.RebuiltHistory | ttc.NoSystem | ttc.NoTools | exchange.Gap(&m),
		Input: before.given.Input(),
	})
	return before.then(id, s.Message(calls.Message{Message: m}))
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

// message reads a message; ok is false if it was not sent to the model.
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
		m = exchange.TextMessage("user", text)
	case "branchSummary", "compactionSummary":
		m = summary(message)
	default:
		r.tally.CountUnread("messages of role "+session.Name(role), 1)
		return m, false
	}
	return m, true
}
