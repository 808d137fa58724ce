package geminicli

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

// Gemini returns the factory for Gemini CLI sessions, which a configuration selects by its type.
func Gemini() source.Factory {
	isHeader := func(entry json.Raw) bool { return headerID(entry) != "" }
	return session.Format{
		Type: "gemini_cli", Tried: "Gemini CLI 0.61.0", Doc: "sessions of Gemini CLI (~/.gemini)",
		Extensions: []string{".jsonl", ".json"}, Recognize: session.Marked(isHeader, "projectHash"),
		Read: session.Headed{Mark: isHeader, ID: headerID, Session: addGemini}.Read,
	}.Factory()
}

// headerID returns the id in a session's first entry. In the older form, that entry is the whole session.
func headerID(entry json.Raw) string {
	if session.Text(entry, "projectHash") == "" {
		return ""
	}
	return session.Text(entry, "sessionId")
}

// gemini reads a session's records. A record may be rewritten with the same id: the last version counts, in the
// position of the first.
type gemini struct {
	*reader
	s        *calls.Session
	last     map[string]json.Raw
	before   map[string]calls.Walk // context before each record, by the record's id
	context  calls.Walk
	answered map[string]bool // ids of calls whose results appear in records
}

func addGemini(s *calls.Session, entries []session.Kept, tally *source.Tally) {
	g := &gemini{&reader{tally}, s, map[string]json.Raw{}, map[string]calls.Walk{}, 0, map[string]bool{}}
	for _, entry := range entries {
		for record := range recordsOf(entry.JSON) {
			g.last[session.Text(record, "id")] = record
			for part := range session.Value(record, "content").Elements() {
				g.answered[session.Text(session.Value(part, "functionResponse"), "id")] = true
			}
		}
	}
	for _, entry := range entries {
		if g.entry(entry); s.TooLarge() {
			return
		}
	}
}

// listed returns the list of records with which an entry replaces all previous ones.
func listed(entry json.Raw) json.Raw {
	if set := session.Value(entry, "$set"); set != nil {
		entry = set
	}
	return session.Value(entry, "messages")
}

// recordsOf iterates over the records of an entry.
func recordsOf(entry json.Raw) func(func(json.Raw) bool) {
	if list := listed(entry); list != nil {
		return list.Elements()
	}
	return func(yield func(json.Raw) bool) {
		if session.Text(entry, "type") != "" {
			yield(entry)
		}
	}
}

func (g *gemini) entry(part session.Kept) {
	entry := json.Raw(part.JSON)
	list := listed(entry)
	if to := session.Text(entry, "$rewindTo"); to != "" {
		g.context = g.before[to]
		return
	}
	if list != nil {
		g.context = 0
	}
	for record := range recordsOf(entry) {
		id := session.Text(record, "id")
		if _, known := g.before[id]; known && id != "" && list == nil {
			return // the record is already in the context
		}
		g.record(part, record)
	}
}

// record adds a record to the context, and its call if it is a new answer.
func (g *gemini) record(part session.Kept, record json.Raw) {
	id := session.Text(record, "id")
	_, known := g.before[id]
	g.before[id] = g.context
	if id != "" {
		record = g.last[id]
	}
	content := session.Value(record, "content")
	if content.Kind() != json.Array {
		content = json.Raw("[" + string(content) + "]")
	}
	switch typ := session.Text(record, "type"); typ {
	case "user":
		g.tell(g.parts("user", content))
	case "gemini":
		g.answer(part, record, content, known && id != "")
	case "info", "error", "warning": // the program's message to its user
	default:
		g.tally.CountUnread("records of type "+session.Name(typ), 1)
	}
}

func (g *gemini) tell(messages []calls.Message) {
	for _, m := range messages {
		g.context = g.s.Extend(g.context, g.s.Message(m))
	}
}

func (g *gemini) answer(part session.Kept, record, content json.Raw, known bool) {
	m := chat.Message{Role: "assistant", Form: chat.Text}
	for _, said := range g.parts("assistant", content) {
		m = said.Message
	}
	var thoughts []string
	for t := range session.Value(record, "thoughts").Elements() {
		thoughts = append(thoughts, session.Text(t, "description"))
	}
	if thoughts != nil {
		m.Reasoning, m.ReasoningKey = strings.Join(thoughts, "\n"), "reasoning_content"
	}
	var results []calls.Message
	for call := range session.Value(record, "toolCalls").Elements() {
		id := session.Text(call, "id")
		// the call may also be recorded as a part
		if !slices.ContainsFunc(m.ToolCalls, func(c chat.ToolCall) bool { return c.ID == id }) {
			m.ToolCalls = append(m.ToolCalls, callOf(call))
		}
		if result, ran := geminiResult(call); ran && !g.answered[id] {
			results = append(results, result)
		}
	}
	exchange.NullIfEmpty(&m)
	if !known {
		tokens := session.Value(record, "tokens")
		given, _ := session.Value(tokens, "input").Int64()
		made, _ := session.Value(tokens, "output").Int64()
		g.s.Add(calls.Call{
			ID: cmp.Or(session.Text(record, "id"), session.Text(record, "timestamp")), Output: m, After: g.context,
			Model: session.Text(record, "model"), Time: session.Nanoseconds(session.Text(record, "timestamp")),
			Usage: calls.Usage{Input: given, Output: made}, File: part.Path, Offset: part.Offset,
			Gaps: ttc.RebuiltHistory | ttc.NoSystem | ttc.NoTools | exchange.Gap(&m),
		})
	}
	g.tell(append([]calls.Message{{Message: m}}, results...))
}

// geminiResult returns the result that is stored with a call; ran is false if the call was never run.
func geminiResult(call json.Raw) (m calls.Message, ran bool) {
	for part := range session.Value(call, "result").Elements() {
		if response := session.Value(part, "functionResponse"); response != nil {
			m, ran = resultOf(response), true
			break
		}
	}
	if !ran {
		m = exchange.TextMessage("tool", "")
		m.Text, ran = session.Value(call, "resultDisplay").Text()
	}
	m.ToolCallID = session.Text(call, "id")
	return m, ran
}
