package rows

import (
	"bytes"
	"slices"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/json"
)

// plainMessages appends messages as [{"role", "content"}, ...]. check rejects messages that have more than that.
func (e *Encoder) plainMessages(dst []byte, nodes []ttc.Node, check func(*chat.Message)) []byte {
	dst = append(dst, '[')
	for i := range nodes {
		m := e.content(&nodes[i].Message)
		check(m)
		dst = e.member(item(dst), `{"role": `, m.Role)
		dst = append(e.member(dst, `, "content": `, m.Text), '}')
	}
	return append(dst, ']')
}

// fullMessages appends messages in the form that Hugging Face chat templates expect. A call's arguments are an object
// (with textArguments, a string), and a tool result has the id of its call.
func (e *Encoder) fullMessages(dst []byte, nodes []ttc.Node) []byte {
	dst = append(dst, '[')
	for i := range nodes {
		dst = e.fullMessage(item(dst), e.shown(&nodes[i].Message))
	}
	return append(dst, ']')
}

// content is like shown, for rows that hold only a message's text. It returns the message unchanged if Options.NAT is
// set.
func (e *Encoder) content(m *chat.Message) *chat.Message {
	shown := e.shown(m)
	e.omitText(m.ReasoningKey, m.Reasoning)
	e.omitText("name", m.Name)
	e.omitText("tool_call_id", m.ToolCallID)
	if !e.opts.NAT {
		return shown
	}
	return m
}

// shown returns the result of asText, and records the names of members that a row can't hold.
func (e *Encoder) shown(m *chat.Message) *chat.Message {
	e.omit("", m.Extra)
	for i := range m.ToolCalls {
		e.omit("tool_calls.", m.ToolCalls[i].Extra)
	}
	for _, p := range m.Parts {
		if p.Type != "text" || !json.Valid(p.Raw) { // a plugin's part may be invalid JSON
			continue
		}
		for key, value := range p.Raw.Members() {
			if name, _ := key.Text(); name != "type" && name != "text" {
				e.omit("content.", []chat.Member{{Key: name, Value: value}})
			}
		}
	}
	return asText(m)
}

// maxOmitted limits the number of recorded names, which are untrusted. Members with further names count as "other".
const maxOmitted = 100

// omit records the names of members whose value isn't null or an empty string, list or object.
func (e *Encoder) omit(of string, members []chat.Member) {
	for _, x := range members {
		empty := x.Value.Kind() == json.Null || len(bytes.Trim(x.Value, "\"[]{} \t\r\n")) == 0
		if !empty {
			e.omitText(of+x.Key, "value")
		}
	}
}

// omitText records the name of a member whose value isn't empty.
func (e *Encoder) omitText(name, value string) {
	if value == "" {
		return
	}
	if len(e.omitted) >= maxOmitted {
		name = "other"
	}
	if !slices.Contains(e.omitted, name) {
		e.omitted = append(e.omitted, name)
	}
}

// has reports whether kind returns true for any message of a record.
func has(r *builders.Resolved, kind func(*chat.Message) bool) bool {
	for _, p := range []*builders.Passage{&r.Messages, &r.Prompt, &r.Chosen, &r.Rejected} {
		for i := range p.Nodes {
			if kind(&p.Nodes[i].Message) {
				return true
			}
		}
	}
	return false
}

// moreThanText reports whether a message has more than a role and content.
func moreThanText(m *chat.Message) bool {
	return m.ReasoningKey != "" || m.ToolCallID != "" || len(m.ToolCalls) > 0 || m.Name != ""
}

// named reports whether a message has a name, or reasoning that isn't the assistant's. A tool result's name doesn't
// count, because the row contains it in the call.
func named(m *chat.Message) bool {
	return m.Name != "" && m.Role != "tool" || m.ReasoningKey != "" && m.Role != "assistant"
}

// unnamed is like shown, for rows that can't hold the members for which named returns true.
func (e *Encoder) unnamed(m *chat.Message) *chat.Message {
	if m.Role != "tool" {
		e.omitText("name", m.Name)
	}
	if m.Role != "assistant" {
		e.omitText(m.ReasoningKey, m.Reasoning)
	}
	return e.shown(m)
}

// asText joins content that is a list of text parts into a single string, so that all values in a content column have
// the same shape.
func asText(m *chat.Message) *chat.Message {
	if m.Form != chat.Parts {
		return m
	}
	flat := *m
	flat.FlattenText()
	return &flat
}

func (e *Encoder) fullMessage(dst []byte, m *chat.Message) []byte {
	dst = e.member(dst, `{"role": `, m.Role)
	switch m.Form {
	case chat.Text:
		dst = e.member(dst, `, "content": `, m.Text)
	case chat.Parts:
		for _, p := range m.Parts {
			if p.Type != "text" {
				e.refuse("a message of role %s has a part of type %q", m.Role, p.Type)
			}
		}
	case chat.Null, chat.Absent:
		dst = append(dst, `, "content": null`...)
	}
	if m.ReasoningKey != "" && e.Service {
		e.refuse("the %s message has reasoning, which the format cannot hold", m.Role)
	}
	if m.ReasoningKey != "" {
		dst = e.member(dst, `, "reasoning_content": `, m.Reasoning)
	}
	if len(m.ToolCalls) > 0 {
		dst = e.toolCalls(dst, m)
	}
	if m.ToolCallID != "" {
		dst = e.member(dst, `, "tool_call_id": `, m.ToolCallID)
	}
	if m.Name != "" {
		dst = e.member(dst, `, "name": `, m.Name)
	}
	return append(dst, '}')
}

func (e *Encoder) toolCalls(dst []byte, m *chat.Message) []byte {
	dst = append(dst, `, "tool_calls": [`...)
	for i := range m.ToolCalls {
		c := &m.ToolCalls[i]
		// Parsed arguments may come from a plugin, so they might not be a single JSON value.
		if !e.Service && (c.Parsed.Kind() != json.Object || !json.Valid(c.Parsed)) {
			return e.refused(dst, "the arguments of a call to %q are not a JSON object", c.Name)
		}
		dst = append(item(dst), '{')
		if c.ID != "" {
			dst = append(e.member(dst, `"id": `, c.ID), ", "...)
		}
		dst = e.member(dst, `"type": "function", "function": {"name": `, c.Name)
		dst = append(dst, `, "arguments": `...)
		if e.textArguments {
			dst = e.text(dst, c.Arguments)
		} else {
			dst = e.compact(dst, c.Parsed)
		}
		dst = append(dst, "}}"...)
	}
	return append(dst, ']')
}
