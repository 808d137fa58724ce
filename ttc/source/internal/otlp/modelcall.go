package otlp

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
)

// modelCall is a model's input and output.
type modelCall struct {
	id, model, finish string
	input             []chat.Message
	outputs           []exchange.Answer // the choices, or the parts of a response within which the server ran tools
	said              []calls.Message   // messages of a response within which the server ran tools
	tools             []chat.Tool
	toolsUnsaid       bool // the convention doesn't require programs to record tools
	gaps              ttc.Gaps
	usage             calls.Usage
	failed            []string // the calls whose results in the input report a failure
	alone             bool     // the answer has text and calls, but its finish reason is stop
	broken            string   // why the call can't be reconstructed
}

// details is the name of the log record that holds all messages of a call.
const details = "gen_ai.client.inference.operation.details"

// genAI reads the GenAI conventions. The same content may be on the span and on a record next to it.
func (e *modelCall) genAI(s *span) {
	// The AI SDK sets this attribute, and always records tools.
	e.toolsUnsaid = s.attributes["gen_ai.client.operation.duration"] == nil
	from, cut := s.attributes, s.cut
	if from["gen_ai.output.messages"] == nil {
		for _, ev := range s.events {
			if ev.name == details {
				from, cut = ev.attributes, ev.cut
				e.id = cmp.Or(e.id, from.text("gen_ai.response.id"))
				e.model = cmp.Or(e.model, from.first("gen_ai.response.model", "gen_ai.request.model"))
			}
		}
	}
	e.tools = exchange.Tools(e.list(from, "gen_ai.tool.definitions"))
	input, wrote := from["gen_ai.input.messages"] != nil, from["gen_ai.output.messages"] != nil
	switch {
	case input != wrote && cut:
		e.broken = overLimit
		return
	case !input && !wrote && s.cutEvents:
		e.broken = overEvents
		return
	case !input && !wrote:
		e.legacy(s.events)
		return
	}
	if text := from.text("gen_ai.system_instructions"); text != "" && text[0] != '[' {
		e.input = append(e.input, chat.Message{Role: "system", Form: chat.Text, Text: text})
	} else if from["gen_ai.system_instructions"] != nil {
		parts := slices.Collect(e.list(from, "gen_ai.system_instructions").Elements())
		e.input = append(e.input, partsMessage("system", parts)...)
	}
	for m := range e.list(from, "gen_ai.input.messages").Elements() {
		e.input = append(e.input, messageOf(m)...)
	}
	if cut { // the tools and the instructions may be among the missing attributes
		e.toolsUnsaid = true
		if len(e.input) == 0 || e.input[0].Role != "system" {
			e.gaps |= ttc.NoSystem
		}
	}
	for m := range e.list(from, "gen_ai.output.messages").Elements() {
		out := messageOf(m)
		if len(out) != 1 || out[0].Role != "assistant" {
			e.broken = "gen_ai.output.messages has a message that is not the model's"
			return
		}
		e.outputs = append(e.outputs, exchange.Answer{Message: out[0], Finish: session.Text(m, "finish_reason")})
	}
}

// list returns a list of messages, parts, calls or tools.
func (e *modelCall) list(a attributes, key string) json.Raw {
	list := a.structured(key)
	if a[key] != nil && list.Kind() != json.Array {
		e.broken = key + " is not a list; was it cut off?"
	}
	return list
}

// messageOf reads a message made of parts. Each tool result becomes a separate message. Results in a model's message
// are from tools that the provider ran. Parts after such results were written later, and form another message.
func messageOf(raw json.Raw) (out []chat.Message) {
	role := exchange.Role(session.Text(raw, "role"))
	content, ok := raw.Get("parts")
	if !ok {
		content = session.At(raw, "content")
	}
	if text, ok := content.Text(); ok {
		return []chat.Message{{Role: role, Form: chat.Text, Text: text}}
	}
	parts, from := slices.Collect(content.Elements()), 0
	for i := range parts {
		if i > 0 && role == "assistant" && isResult(parts[i-1]) && !isResult(parts[i]) {
			out = append(out, partsMessage(role, parts[from:i])...)
			from = i
		}
	}
	out = append(out, partsMessage(role, parts[from:])...)
	if name := session.Text(raw, "name"); name != "" && len(out) == 1 {
		out[0].Name = name
	}
	return out
}

func isResult(part json.Raw) bool {
	typ := session.Text(part, "type")
	return typ == "tool_call_response" || typ == "tool-result"
}

// partsMessage builds messages from parts, which have different names in the AI SDK.
func partsMessage(role string, parts []json.Raw) (out []chat.Message) {
	m := chat.Message{Role: role, Form: chat.Text}
	var content, thoughts []string
	for _, p := range parts {
		switch typ := session.Text(p, "type"); typ {
		case "text":
			if text := partText(p); text != "" { // streams contain an empty text part before calls
				content = append(content, text)
				m.Parts = append(m.Parts, exchange.TextPart(text))
			}
		case "reasoning", "thinking":
			thoughts = append(thoughts, partText(p))
		case "tool_call", "tool-call":
			m.ToolCalls = append(m.ToolCalls, toolCall(p))
		case "tool_call_response", "tool-result":
			id := cmp.Or(session.Text(p, "id"), session.Text(p, "toolCallId"))
			out = append(out, chat.Message{Role: "tool", Form: chat.Text, Text: resultText(p), ToolCallID: id})
		default:
			m.Form = chat.Parts
			m.Parts = append(m.Parts, chat.Part{Type: typ, Raw: slices.Clone(p)})
		}
	}
	exchange.Think(&m, strings.Join(thoughts, "\n"))
	finishContent(&m, content)
	switch {
	case role == "assistant":
		return append([]chat.Message{m}, out...)
	case out != nil && len(content) == 0 && m.Form != chat.Parts:
		return out
	}
	return append(out, m)
}

func partText(p json.Raw) string { return cmp.Or(session.Text(p, "content"), session.Text(p, "text")) }

// finishContent gives a message the simplest form that can hold its content.
func finishContent(m *chat.Message, texts []string) {
	switch {
	case m.Form == chat.Parts || len(texts) > 1:
		m.Form = chat.Parts
	case len(texts) == 1:
		m.Text, m.Parts = texts[0], nil
	case m.ToolCalls != nil:
		m.Form, m.Parts = chat.Null, nil
	}
}

// resultText returns a tool's result: text, or a value converted to text.
func resultText(p json.Raw) string {
	for _, key := range []string{"response", "result", "content", "output"} {
		v, ok := p.Get(key)
		if !ok {
			continue
		}
		if inner, ok := v.Get("value"); ok && (key == "output" || session.Text(v, "type") == "content") {
			v = inner // the value in the AI SDK's {type, value}
		}
		if text, ok := v.Text(); ok && (key != "result" || session.Text(p, "type") != "tool-result") {
			return text
		}
		return string(v) // up to version 4, the AI SDK sent even plain text as JSON
	}
	return ""
}

// toolCall reads a call: {id, name, arguments}, or the AI SDK's {toolCallId, toolName, input}.
func toolCall(p json.Raw) chat.ToolCall {
	if session.Text(p, "toolName") != "" {
		if _, ok := p.Get("input"); !ok { // the form used up to version 4
			return exchange.CallOf(p, "toolCallId", "toolName", "args")
		}
		return exchange.CallOf(p, "toolCallId", "toolName", "input")
	}
	call, err := chat.ParseToolCall(p)
	if err != nil {
		call = chat.ToolCall{ID: session.Text(p, "id")}
	}
	call.Type, call.Extra = "function", nil
	return call
}

// legacy reads the conventions before 1.37, in which each message is an event.
func (e *modelCall) legacy(events []event) {
	events = slices.Clone(events)
	slices.SortStableFunc(events, func(a, b event) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.place, b.place))
	})
	var choices []choice
	for _, ev := range events {
		switch ev.name {
		case "gen_ai.system.message", "gen_ai.user.message", "gen_ai.assistant.message", "gen_ai.tool.message":
			role := strings.TrimSuffix(strings.TrimPrefix(ev.name, "gen_ai."), ".message")
			e.input = append(e.input, eventMessage(cmp.Or(exchange.Role(session.Text(ev.body, "role")), role), ev.body))
		case "gen_ai.choice":
			n, _ := session.At(ev.body, "index").Int64()
			choices = append(choices, choice{n, ev.body})
		}
	}
	slices.SortStableFunc(choices, func(a, b choice) int { return cmp.Compare(a.index, b.index) })
	for i, c := range choices {
		if i > 0 && c.index == choices[i-1].index {
			continue // the choice was recorded twice
		}
		m := eventMessage("assistant", session.At(c.body, "message"))
		if m.ToolCalls == nil { // OpenLLMetry records calls next to the message
			m.ToolCalls = toolCalls(session.At(c.body, "tool_calls"))
		}
		exchange.NullIfEmpty(&m)
		e.outputs = append(e.outputs, exchange.Answer{Message: m, Finish: session.Text(c.body, "finish_reason")})
	}
}

type choice struct {
	index int64
	body  json.Raw
}

// eventMessage reads a message from an event.
func eventMessage(role string, body json.Raw) chat.Message {
	m := chat.Message{Role: role, Form: chat.Text, ToolCalls: toolCalls(session.At(body, "tool_calls"))}
	if role == "tool" {
		m.ToolCallID = session.Text(body, "id")
	}
	content := session.At(body, "content")
	if content.Kind() == json.Array {
		m.Parts, m.Form = exchange.PartsOf(slices.Collect(content.Elements())), chat.Parts
	} else if text, ok := content.Text(); ok {
		m.Text = text
	} else if len(content) > 0 && content.Kind() != json.Null {
		m.Text = string(content)
	}
	if content == nil && m.ToolCalls != nil {
		m.Form = chat.Absent // openai-v2 omits the text from the history if there are calls
	}
	exchange.NullIfEmpty(&m)
	return m
}

func toolCalls(list json.Raw) (out []chat.ToolCall) {
	for c := range list.Elements() {
		out = append(out, toolCall(c))
	}
	return out
}

// mergeAnswers merges messages that belong to one answer, because some programs record a turn's reasoning, its text
// and each of its calls separately. A text that follows another text, or calls, is a separate answer.
func mergeAnswers(in []chat.Message) []chat.Message {
	var out []chat.Message
	for _, m := range in {
		n := len(out)
		if n == 0 || m.Role != "assistant" || out[n-1].Role != "assistant" || !continues(&out[n-1], &m) {
			out = append(out, m)
			continue
		}
		last := &out[n-1]
		if !says(last) && says(&m) {
			last.Form, last.Text, last.Parts = m.Form, m.Text, m.Parts
		}
		last.ToolCalls = append(slices.Clone(last.ToolCalls), m.ToolCalls...)
		exchange.NullIfEmpty(last)
		if last.Reasoning == "" {
			last.Reasoning, last.ReasoningKey = m.Reasoning, m.ReasoningKey
		}
	}
	return out
}

// continues reports whether a model's message belongs to the same answer as the previous message. It does if the
// message has calls but no content, or if it lacks reasoning and the previous message has only reasoning.
func continues(before, m *chat.Message) bool {
	thought := before.Reasoning != "" && !says(before) && before.ToolCalls == nil
	return thought && m.Reasoning == "" || m.ToolCalls != nil && !says(m)
}

// says reports whether a message has content.
func says(m *chat.Message) bool {
	text, plain := calls.Plain(m)
	return !plain || text != ""
}

// join finds the calls for results that lack an id or have a different kind of id. It matches them by order, if there
// are as many results as calls.
func join(in []chat.Message) {
	for i := range in {
		made := in[i].ToolCalls
		if len(made) == 0 {
			continue
		}
		results := in[i+1:]
		n := 0
		for n < len(results) && results[n].Role == "tool" {
			n++
		}
		known := slices.ContainsFunc(results[:n], func(m chat.Message) bool {
			return slices.ContainsFunc(made, func(c chat.ToolCall) bool { return c.ID == m.ToolCallID && c.ID != "" })
		})
		if n != len(made) || known {
			continue
		}
		for k := range n {
			results[k].ToolCallID = made[k].ID
		}
	}
}
