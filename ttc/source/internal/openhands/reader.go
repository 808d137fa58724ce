package openhands

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
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
		Type: "openhands", Tried: "OpenHands SDK 1.58.2",
		Doc:        "conversations of OpenHands (~/.openhands/conversations, exported events)",
		Extensions: []string{".json", ".jsonl"},
		Recognize:  session.Marked(isMark, "kind", "args", "extras", "items", "agent"),
		Read:       session.Headed{Mark: isMark, ID: noID, Name: conversationOf, Session: add}.Read,
	}.Factory()
}

// noID returns an empty id for every entry, because events don't name their conversation; see conversationOf.
func noID(json.Raw) string { return "" }

// isMark reports whether an entry is an event, a list of events, or the state next to the events.
func isMark(entry json.Raw) bool {
	return isEvent(entry) || session.Any(session.At(entry, "items"), isEvent) ||
		modelOf(entry) != "" && session.Has(entry, "id")
}

func isEvent(entry json.Raw) bool {
	return session.Has(entry, "id", "timestamp", "source") &&
		(session.Has(entry, "kind") || session.Has(entry, "action", "args") ||
			session.Has(entry, "observation", "extras"))
}

// modelOf returns the model that a conversation's state names.
func modelOf(state json.Raw) string {
	return session.Text(session.Value(session.Value(state, "agent"), "llm"), "model")
}

// conversationOf returns the id of a file's conversation: the name of the conversation's folder or, without one, of the
// file.
func conversationOf(path string) string {
	dir, name := filepath.Split(filepath.Clean(path))
	switch folder := filepath.Base(dir); {
	case folder == "events":
		return filepath.Base(filepath.Dir(filepath.Clean(dir)))
	case name == "base_state.json":
		return folder
	}
	return session.Stem(path)
}

type event struct {
	json.Raw
	part session.Kept
}

// id returns the event's id: a string, or a number in versions 0.x.
func (e event) id() string { return source.IDText(session.Value(e.Raw, "id")) }

type reader struct {
	s        *calls.Session
	tally    *source.Tally
	contexts map[string]*session.Given // context after each event, by id
	model    string
	gaps     ttc.Gaps
	tools    []chat.Tool
	response string // id of the last response whose calls were read, in versions 0.x
}

func add(s *calls.Session, entries []session.Kept, tally *source.Tally) {
	r := &reader{s: s, tally: tally, contexts: map[string]*session.Given{}}
	r.gaps = ttc.RebuiltHistory | ttc.NoTools | ttc.NoSystem
	var events []event
	for _, part := range entries {
		entry := json.Raw(part.JSON)
		if model := modelOf(entry); model != "" {
			r.model = model
			continue
		}
		items, listed := entry.Get("items")
		for e := range items.Elements() {
			if e.Kind() == json.Object {
				events = append(events, event{e, part})
			}
		}
		if !listed {
			events = append(events, event{entry, part})
		}
	}
	var last *session.Given
	for len(events) > 0 && !s.TooLarge() {
		batch := events[:batched(events)]
		before := last
		if parent := session.Text(batch[0].Raw, "parent_id"); parent == "__root__" {
			before = nil
		} else if context, known := r.contexts[parent]; known && parent != "" {
			before = context
		}
		if session.Text(batch[0].Raw, "kind") != "" {
			last = r.event(batch, before)
		} else {
			last = r.old(batch[0], before)
		}
		for _, e := range batch {
			r.contexts[e.id()] = last
		}
		events = events[len(batch):]
	}
}

// batched returns the number of events at the start that are calls from the same response.
func batched(events []event) int {
	responseOf := func(e event) string {
		if session.Text(e.Raw, "kind") != "ActionEvent" {
			return ""
		}
		return session.Text(e.Raw, "llm_response_id")
	}
	response, n := responseOf(events[0]), 1
	for response != "" && n < len(events) && responseOf(events[n]) == response {
		n++
	}
	return n
}

// ignored lists the kinds of events that are not shown to the model.
var ignored = []string{
	"ConversationStateUpdateEvent", "CondensationRequest", "CondensationSummaryEvent", "LLMCompletionLogEvent",
	"PauseEvent", "InterruptEvent", "TokenEvent", "StreamingDeltaEvent", "ConversationErrorEvent", "HookExecutionEvent",
}

// event returns the context after the events of a batch.
func (r *reader) event(batch []event, before *session.Given) *session.Given {
	e := batch[0]
	switch kind := session.Text(e.Raw, "kind"); kind {
	case "SystemPromptEvent":
		r.gaps &^= ttc.NoSystem
		r.offer(session.Value(e.Raw, "tools"))
		prompts := []json.Raw{session.Value(e.Raw, "system_prompt"), session.Value(e.Raw, "dynamic_context")}
		prompts = slices.DeleteFunc(prompts, func(v json.Raw) bool { return v == nil })
		return r.tell(e, before, "system", prompts...)
	case "MessageEvent":
		message := session.Value(e.Raw, "llm_message")
		if session.Text(e.Raw, "source") != "agent" {
			said := append(blocks(message, "content"), blocks(e.Raw, "extended_content")...)
			return r.tell(e, before, "user", said...)
		}
		return r.answer(e, said(message, "content", nil), before)
	case "ActionEvent":
		return r.answer(e, said(e.Raw, "thought", batch), before)
	case "ObservationEvent":
		content := observed(session.Value(e.Raw, "observation"))
		return r.tell(e, before, "tool", append(content, blocks(e.Raw, "extended_content")...)...)
	case "UserRejectObservation":
		return r.tell(e, before, "tool", block("Action rejected: "+session.Text(e.Raw, "rejection_reason")))
	case "AgentErrorEvent":
		return r.tell(e, before, "tool", block(session.Text(e.Raw, "error")))
	case "Condensation":
		return r.condense(e, e.Raw, before)
	default:
		r.unread(kind, ignored)
	}
	return before
}

func block(text string) json.Raw {
	return exchange.TextPart(text).Raw
}

func blocks(object json.Raw, key string) []json.Raw {
	return exchange.Blocks(session.Value(object, key))
}

// said returns the model's output: its text under a key, its reasoning, and the calls in the given events.
func said(object json.Raw, key string, made []event) chat.Message {
	m := exchange.FromBlocks("assistant", blocks(object, key))
	thoughts, _ := exchange.AnswerOf(blocks(object, "thinking_blocks"))
	exchange.Think(&m, cmp.Or(session.Text(object, "reasoning_content"), thoughts.Reasoning))
	for _, e := range made {
		call := chat.ToolCall{
			ID: session.Text(e.Raw, "tool_call_id"), Type: "function", Name: session.Text(e.Raw, "tool_name"),
		}
		exchange.Arguments(&call, session.At(session.Value(e.Raw, "tool_call"), "arguments"))
		m.ToolCalls = append(m.ToolCalls, call)
	}
	exchange.NullIfEmpty(&m)
	return m
}

// observed returns a result as it was presented to the model.
func observed(result json.Raw) []json.Raw {
	content := blocks(result, "content")
	if metadata := session.Value(result, "metadata"); metadata != nil && len(content) == 1 {
		content = []json.Raw{block(rendered(session.Text(content[0], "text"), metadata))}
	}
	if failed, _ := session.Value(result, "is_error").Bool(); failed {
		content = append([]json.Raw{block("[An error occurred during execution.]\n")}, content...)
	}
	return content
}

// rendered returns a command's output with the text that the program adds to it.
func rendered(text string, metadata json.Raw) string {
	text = session.Text(metadata, "prefix") + text + session.Text(metadata, "suffix")
	if dir := session.Text(metadata, "working_dir"); dir != "" {
		text += "\n[Current working directory: " + dir + "]"
	}
	if python := session.Text(metadata, "py_interpreter_path"); python != "" {
		text += "\n[Python interpreter: " + python + "]"
	}
	if code, ok := session.Value(metadata, "exit_code").Int64(); ok && code != -1 {
		text += fmt.Sprintf("\n[Command finished with exit code %d]", code)
	}
	return text
}

// tell returns the context followed by a message made of the given blocks. Consecutive user messages with only text
// become one message.
func (r *reader) tell(e event, before *session.Given, role string, blocks ...json.Raw) *session.Given {
	m := calls.Message{Message: exchange.FromBlocks(role, blocks)}
	if role == "tool" {
		m.ToolCallID = session.Text(e.Raw, "tool_call_id")
		failed, _ := session.Value(session.Value(e.Raw, "observation"), "is_error").Bool()
		failed = failed || session.Text(e.Raw, "kind") != "ObservationEvent"
		m.Error = &failed
	}
	if role == "user" && before != nil && m.Form == chat.Text {
		if last := r.s.At(before.Ref); last.Role == "user" && last.Form == chat.Text {
			m.Text, before = last.Text+"\n"+m.Text, before.Before
		}
	}
	return before.Then(e.id(), r.s.Message(m))
}

// answer adds a call, and returns the context after it.
func (r *reader) answer(e event, m chat.Message, before *session.Given) *session.Given {
	c := calls.Call{
		ID: r.s.ID + "/" + e.id(), Model: r.model, Input: before.Input(), Output: m, Tools: r.tools,
		Time: session.Nanoseconds(session.Text(e.Raw, "timestamp") + "Z"), File: e.part.Path, Offset: e.part.Offset,
		Gaps: r.gaps | exchange.Gap(&m),
	}
	if m.ToolCalls != nil && session.Text(e.Raw, "kind") != "" { // the program re-encodes the arguments
		c.Gaps |= ttc.ParsedArguments
	}
	r.s.Add(c)
	return before.Then(e.id(), r.s.Message(calls.Message{Message: m}))
}

// offer records the tools given to the model, if they are stored in the form that the model sees.
func (r *reader) offer(list json.Raw) {
	bare := session.Any(list, func(tool json.Raw) bool { return !session.Has(tool, "function") })
	if tools := exchange.Tools(list); len(tools) > 0 && !bare {
		r.tools, r.gaps = tools, r.gaps&^ttc.NoTools
	}
}

// condense returns the context after a condensation, without the events that it removes and with its summary.
func (r *reader) condense(e event, how json.Raw, before *session.Given) *session.Given {
	forgotten := map[string]bool{}
	for id := range session.Value(how, "forgotten_event_ids").Elements() {
		forgotten[source.IDText(id)] = true
	}
	first, ranged := session.Value(how, "forgotten_events_start_id").Int64()
	last, _ := session.Value(how, "forgotten_events_end_id").Int64()
	links := before.Links()
	r.s.Give(len(links)) // each remaining event is linked again
	links = slices.DeleteFunc(links, func(g *session.Given) bool {
		n, err := strconv.ParseInt(g.Entry, 10, 64)
		return forgotten[g.Entry] || ranged && err == nil && n >= first && n <= last
	})
	if at, ok := session.Value(how, "summary_offset").Int64(); ok && at >= 0 && session.Text(how, "summary") != "" {
		summary := r.tell(e, nil, "user", block(session.Text(how, "summary")))
		links = slices.Insert(links, int(min(at, int64(len(links)))), summary)
	}
	var after *session.Given
	for _, g := range links {
		after = after.Then(g.Entry, g.Ref)
	}
	return after
}
