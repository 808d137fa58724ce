package exchange

import (
	"maps"
	"slices"
	"strings"

	"github.com/nat-go/nat-go/internal/calls"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/source/internal/compose"
	"github.com/nat-go/nat-go/ttc/source/internal/session"
	"github.com/nat-go/nat-go/ttc/source/internal/source"
)

// Responses reads a Responses API request and its response. summaries counts summaries as reasoning, because servers
// of open models put the reasoning there.
func Responses(request, response json.Raw, summaries bool) Exchange {
	e := Exchange{
		ID: session.Text(response, "id"), Model: session.Text(response, "model"), Tools: requestTools(request),
		Previous: session.Text(request, "previous_response_id"),
		Time:     session.Seconds(session.At(response, "created_at")),
	}
	in := items{summaries: summaries}
	if text := session.Text(request, "instructions"); text != "" {
		in.out, e.Instructed = []calls.Message{TextMessage("system", text)}, true
	}
	in.add(session.At(request, "input"))
	out := items{summaries: summaries, unread: in.unread}
	out.add(session.At(response, "output"))
	e.Input, e.Said, e.Answers, e.Unread = in.out, out.out, out.answers, out.unread
	n := len(e.Answers)
	if n > 0 { // earlier answers ended where the server ran tools
		e.Answers[n-1].Finish = responseFinish(response, &e.Answers[n-1].Message)
	}
	// The server adds a conversation's earlier items, and the messages and tools of a prompt that it stores.
	prompt := session.Value(request, "prompt") != nil
	if e.Unread != nil || prompt || session.Value(request, "conversation") != nil {
		e.Gaps |= ttc.RebuiltHistory
	}
	if prompt && len(e.Tools) == 0 {
		e.Tools = nil
	}
	if usage := session.At(response, "usage"); n == 1 {
		e.Usage = calls.Usage{Input: count(usage, "input_tokens"), Output: count(usage, "output_tokens")}
	}
	return e
}

// responseFinish returns the reason the last answer in a response ended.
func responseFinish(response json.Raw, m *chat.Message) string {
	switch reason := session.Text(response, "incomplete_details", "reason"); {
	case reason == "max_output_tokens":
		return "length"
	case reason != "":
		return reason
	case m.ToolCalls != nil:
		return "tool_calls"
	}
	return "stop"
}

// items builds messages from Responses API items. A turn's text, reasoning and calls are separate items, which become
// one message.
type items struct {
	summaries bool             // read summaries as reasoning
	unread    map[string]int64 // number of items that aren't understood, by type
	out       []calls.Message
	answers   []Answer // the model's messages among them
	open      *Answer  // the turn being read
}

// ItemMessages returns the messages in a list of items.
func ItemMessages(list json.Raw) []calls.Message {
	var t items
	t.add(list)
	return t.out
}

// add adds a list of items or a string, which is a user message.
func (t *items) add(list json.Raw) {
	if list.Kind() == json.String {
		t.say(calls.Message{Message: Content("user", list)})
		return
	}
	for item := range list.Elements() {
		t.item(item)
	}
	t.end()
}

func (t *items) item(item json.Raw) {
	typ := session.Text(item, "type")
	switch {
	case typ == "message" || typ == "":
		content := session.At(item, "content")
		if role := Role(session.Text(item, "role")); role != "assistant" {
			t.say(calls.Message{Message: Content(role, content)})
			return
		}
		AddText(&t.turn(item).Message, Content("assistant", content))
	case typ == "reasoning":
		if a := t.turn(item); !AddReasoning(&a.Message, item, t.summaries) {
			a.Gaps |= ttc.HiddenReasoning
		}
	case IsCall(typ):
		a := t.turn(item)
		a.ToolCalls = append(a.ToolCalls, ItemCall(typ, item))
	case IsResult(typ):
		t.say(ItemResult(item))
	default:
		if t.unread == nil {
			t.unread = map[string]int64{}
		}
		t.unread[typ]++
	}
}

// turn returns the answer of the turn that an item belongs to.
func (t *items) turn(item json.Raw) *Answer {
	if t.open == nil {
		t.open = &Answer{Message: chat.Message{Role: "assistant", Form: chat.Null}, Given: len(t.out)}
	}
	if t.open.TokenIDs == nil { // NeMo Gym adds the ids to items
		t.open.TokenIDs, t.open.LogProbs = Tokens(
			session.At(item, "generation_token_ids"), session.At(item, "generation_log_probs"),
		)
	}
	return t.open
}

// say adds a message that isn't the model's.
func (t *items) say(m calls.Message) {
	t.end()
	t.out = append(t.out, m)
}

// end ends the turn.
func (t *items) end() {
	a := t.open
	if a == nil {
		return
	}
	if a.Finish = responseFinish(nil, &a.Message); t.unread != nil { // the model may have seen the unread items
		a.Gaps |= ttc.RebuiltHistory
	}
	t.out, t.answers, t.open = append(t.out, calls.Message{Message: a.Message}), append(t.answers, *a), nil
}

// CountUnread counts items that aren't understood.
func CountUnread(tally *source.Tally, items map[string]int64) {
	for _, typ := range slices.Sorted(maps.Keys(items)) { // in order, because Tally limits the types
		tally.CountUnread("items of type "+session.Name(typ), items[typ])
	}
}

// AddText adds a turn's text to its message.
func AddText(m *chat.Message, said chat.Message) {
	if m.Form == chat.Text && said.Form == chat.Text {
		m.Text += "\n" + said.Text
		return
	}
	m.Form, m.Text, m.Parts = said.Form, said.Text, said.Parts
}

// AddReasoning adds a reasoning item to its turn's message. It returns false if the text is missing, because it is
// encrypted, or because only a summary is present and summaries don't count. Another model may have written a summary.
func AddReasoning(m *chat.Message, item json.Raw, summaries bool) bool {
	texts := textsIn(session.At(item, "content"))
	if texts == nil && summaries {
		texts = textsIn(session.At(item, "summary"))
	}
	if texts == nil {
		return false
	}
	if m.Reasoning != "" {
		m.Reasoning += "\n"
	}
	Think(m, strings.Join(texts, "\n"))
	return true
}

// textsIn returns the texts of parts that have one.
func textsIn(parts json.Raw) (texts []string) {
	for e := range parts.Elements() {
		if s := session.Text(e, "text"); s != "" {
			texts = append(texts, s)
		}
	}
	return texts
}

// IsCall reports whether items of a type are calls to tools that the client runs.
func IsCall(typ string) bool {
	return slices.Contains([]string{"function_call", "custom_tool_call", "local_shell_call", "tool_search_call"}, typ)
}

// IsResult reports whether items of a type are results from tools that the client runs.
func IsResult(typ string) bool {
	return slices.Contains([]string{
		"function_call_output", "custom_tool_call_output", "local_shell_call_output", "tool_search_output",
	}, typ)
}

// ItemCall reads an item that is a call.
func ItemCall(typ string, item json.Raw) chat.ToolCall {
	call := CallOf(item, "call_id", "name", "arguments")
	switch typ {
	case "tool_search_call":
		call.Name = "tool_search"
	case "custom_tool_call":
		// The input is text in the tool's own grammar. Clients that offer such a tool as a function wrap it the same
		// way.
		Arguments(&call, compose.Object(nil).Text("input", session.Text(item, "input")).End())
	case "local_shell_call":
		call.Name = "local_shell"
		Arguments(&call, session.At(item, "action"))
	}
	if namespace := session.Text(item, "namespace"); namespace != "" {
		call.Name = namespace + "." + call.Name
	}
	return call
}

// ItemResult reads the output of a call: text, an object with text under content, or a list of parts.
func ItemResult(item json.Raw) calls.Message {
	output, tools := session.At(item, "output"), session.At(item, "tools")
	var failed *bool
	if output.Kind() == json.Object {
		if success, ok := session.At(output, "success").Bool(); ok {
			no := !success
			failed = &no
		}
		if content, ok := output.Get("content"); ok {
			output = content
		}
	}
	m := Content("tool", output)
	if output == nil {
		m.Text = string(tools) // the tools that a search found
	}
	m.ToolCallID = session.Text(item, "call_id")
	return calls.Message{Message: m, Error: failed}
}
