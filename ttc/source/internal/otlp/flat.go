package otlp

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/nat-go/nat-go/internal/lists"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/source/internal/compose"
	"github.com/nat-go/nat-go/ttc/source/internal/exchange"
	"github.com/nat-go/nat-go/ttc/source/internal/session"
)

// node is a value spread over many attributes: a.0.b, a.0.c, a.1.b.
type node struct {
	value json.Raw
	inner map[string]*node
}

// nested collects the attributes below a prefix.
func (a attributes) nested(prefix string) *node {
	root := &node{}
	for key, value := range a {
		rest, ok := strings.CutPrefix(key, prefix+".")
		if !ok {
			continue
		}
		at := root
		for range maxDepth {
			name, more, found := strings.Cut(rest, ".")
			at = at.child(name)
			if rest = more; !found {
				break
			}
		}
		at.value = value
	}
	return root
}

func (n *node) child(name string) *node {
	if n.inner == nil {
		n.inner = map[string]*node{}
	}
	c := n.inner[name]
	if c == nil {
		c = &node{}
		n.inner[name] = c
	}
	return c
}

// descend returns the node at a path of names, or an empty node if there is none.
func (n *node) descend(names ...string) *node {
	for _, name := range names {
		if n = n.inner[name]; n == nil {
			return &node{}
		}
	}
	return n
}

func (n *node) text(names ...string) string { return session.Text(n.descend(names...).value) }

// list returns a node's numbered children, in numerical order.
func (n *node) list() (out []*node) {
	numbered := map[int]*node{}
	for name, child := range n.inner {
		if i, err := strconv.Atoi(name); err == nil && i >= 0 && strconv.Itoa(i) == name {
			numbered[i] = child
		}
	}
	for _, i := range slices.Sorted(maps.Keys(numbered)) {
		out = append(out, numbered[i])
	}
	return out
}

// overLimit and overEvents are reasons why a call that is spread over attributes or events can't be reconstructed.
const (
	overLimit  = "missing attributes: the span had more than the exporter's limit (OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT)"
	overEvents = "missing events or parts of events: the span had more than the exporter's limits " +
		"(OTEL_SPAN_EVENT_COUNT_LIMIT, OTEL_EVENT_ATTRIBUTE_COUNT_LIMIT)"
)

// numbered reads the attributes that OpenLLMetry wrote up to version 0.45: gen_ai.prompt.0.role and so on. It writes
// a role for each message, so a number without a role shows that attributes are missing, even if the span doesn't
// report that.
func (e *modelCall) numbered(s *span) {
	a := s.attributes
	prompts := a.nested("gen_ai.prompt")
	cut := s.cut
	for i, n := range prompts.list() {
		cut = cut || prompts.text(strconv.Itoa(i), "role") == ""
		e.input = append(e.input, numberedMessage(n))
	}
	if cut {
		e.broken = overLimit
		return
	}
	e.outputs = lists.Map(a.nested("gen_ai.completion").list(), func(n *node) exchange.Answer {
		return exchange.Answer{Message: numberedMessage(n), Finish: n.text("finish_reason")}
	})
	for _, n := range a.nested("llm.request.functions").list() {
		parameters, _ := json.Parse(n.descend("parameters").value.Bytes(), json.Limits{})
		tool := compose.Object(nil).Text("name", n.text("name")).Name("description", n.text("description"))
		e.addTool(tool.Set("parameters", parameters).End())
	}
}

// addTool adds a tool, given as the JSON text of its definition.
func (e *modelCall) addTool(text []byte) {
	raw, err := json.Parse(text, json.Limits{})
	if err != nil && len(text) > 0 {
		e.broken = "a tool definition is not JSON; was it cut off?"
	}
	if tool, ok := exchange.ToolOf(raw); ok {
		e.tools = append(e.tools, tool)
	}
}

// call reads a call below a node with its name and arguments.
func (n *node) call(id string) chat.ToolCall {
	call := chat.ToolCall{ID: id, Type: "function", Name: n.text("name")}
	exchange.Arguments(&call, n.descend("arguments").value)
	return call
}

func numberedMessage(n *node) chat.Message {
	m := chat.Message{Role: exchange.Role(n.text("role")), Form: chat.Text, ToolCallID: n.text("tool_call_id")}
	m.Role = cmp.Or(m.Role, "assistant")
	m.Text = n.text("content")
	// the parts are stored as a single string
	if strings.HasPrefix(m.Text, `[{"type":`) || strings.HasPrefix(m.Text, `[{"type" :`) {
		if parts, err := json.Parse([]byte(m.Text), json.Limits{}); err == nil && m.Role != "tool" {
			m.Form, m.Text, m.Parts = chat.Parts, "", exchange.PartsOf(slices.Collect(parts.Elements()))
		}
	}
	exchange.Think(&m, n.text("reasoning_content"))
	for _, c := range n.descend("tool_calls").list() {
		m.ToolCalls = append(m.ToolCalls, c.call(c.text("id")))
	}
	exchange.NullIfEmpty(&m)
	return m
}

// openInference reads OpenInference data. It uses the recorded request and response if their formats are known, and
// otherwise the attributes that contain their parts.
func (e *modelCall) openInference(s *span) {
	a := s.attributes
	request := a.structured("input.value")
	if messages, err := chat.ParseMessages(session.At(request, "messages")); err == nil && len(messages) > 0 {
		e.input, e.tools = messages, exchange.Tools(session.At(request, "tools"))
	}
	response := a.structured("output.value")
	e.id = cmp.Or(e.id, session.Text(response, "id"))
	if e.input != nil { // the request is in a known form, and so is the response
		e.outputs = exchange.Choices(response)
	}
	if s.cut && (e.input == nil || e.outputs == nil) {
		e.broken = overLimit
		return
	}
	if e.input == nil {
		e.input = lists.Map(a.nested("llm.input_messages").list(), inferenceMessage)
	}
	if e.outputs == nil {
		e.spread(a)
	}
	if e.finish = a.text("llm.finish_reason"); e.tools == nil {
		for _, n := range a.nested("llm.tools").list() {
			e.addTool(n.descend("tool", "json_schema").value.Bytes())
		}
	}
	for item := range session.At(response, "output").Elements() {
		if session.Text(item, "type") == "reasoning" {
			e.gaps |= ttc.HiddenReasoning
		}
	}
	if exchange.IsResponses(response) && session.Text(response, "object") == "response" {
		e.ofResponse(request, response)
	}
}

// ofResponse completes the call of a response from the Responses API. The attributes omit context that the server holds
// and tools that it ran. The parts of a response, unlike choices, follow each other.
func (e *modelCall) ofResponse(request, response json.Raw) {
	x := exchange.Responses(request, response, false)
	if e.gaps |= x.Gaps; cmp.Or(x.Previous, session.Text(response, "previous_response_id")) != "" {
		e.gaps |= ttc.RebuiltHistory
	}
	if len(x.Answers) == 0 || len(x.Answers) == 1 && len(e.outputs) == 1 {
		return
	}
	e.outputs, e.said = x.Answers, x.Said
}

// spread reads the answers from the attributes. It merges messages that are one answer recorded in parts.
func (e *modelCall) spread(a attributes) {
	messages := mergeAnswers(lists.Map(a.nested("llm.output_messages").list(), inferenceMessage))
	if len(messages) == 1 {
		messages[0].Role = "assistant"
	}
	e.outputs = lists.Map(messages, func(m chat.Message) exchange.Answer { return exchange.Answer{Message: m} })
}

// inferenceMessage reads an OpenInference message, which is below the given node.
func inferenceMessage(n *node) chat.Message {
	n = n.descend("message")
	m := chat.Message{Role: exchange.Role(n.text("role")), Form: chat.Text, ToolCallID: n.text("tool_call_id")}
	var texts, thoughts []string
	if text := n.text("content"); text != "" {
		texts = append(texts, text)
	}
	for _, part := range n.descend("contents").list() {
		p := part.descend("message_content")
		switch p.text("type") {
		case "text":
			texts = append(texts, p.text("text"))
			m.Parts = append(m.Parts, exchange.TextPart(p.text("text")))
		case "reasoning":
			thoughts = append(thoughts, p.text("text"))
		case "tool_use": // a tool_use part marks only the call's position; the call itself is in tool_calls
		case "image":
			m.Form = chat.Parts
			raw := json.AppendString([]byte(`{"type":"image_url","image_url":{"url":`), p.text("image", "image", "url"))
			m.Parts = append(m.Parts, chat.Part{Type: "image_url", Raw: append(raw, "}}"...)})
		}
	}
	exchange.Think(&m, strings.Join(thoughts, "\n"))
	for _, c := range n.descend("tool_calls").list() {
		c = c.descend("tool_call")
		m.ToolCalls = append(m.ToolCalls, c.descend("function").call(c.text("id")))
	}
	finishContent(&m, texts)
	return m
}
