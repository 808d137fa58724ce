package rows

import (
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/json"
)

// plainMessages appends [{"role", "content"}, ...]. It calls ok for each message first.
func (e *Encoder) plainMessages(dst []byte, nodes []ttc.Node, ok func(*chat.Message) error) ([]byte, error) {
	var err error
	dst = append(dst, '[')
	for i := range nodes {
		m := e.content(&nodes[i].Message)
		if err := ok(m); err != nil {
			return dst, err
		}
		if i > 0 {
			dst = append(dst, ", "...)
		}
		dst = append(dst, `{"role": `...)
		if dst, err = e.text(dst, m.Role); err != nil {
			return dst, err
		}
		dst = append(dst, `, "content": `...)
		if dst, err = e.text(dst, m.Text); err != nil {
			return dst, err
		}
		dst = append(dst, '}')
	}
	return append(dst, ']'), nil
}

// fullMessages appends messages the way Hugging Face chat templates expect them: content, tool calls with their
// arguments as an object (as a string with textArguments), results with the id of their call.
func (e *Encoder) fullMessages(dst []byte, nodes []ttc.Node) ([]byte, error) {
	var err error
	dst = append(dst, '[')
	for i := range nodes {
		if i > 0 {
			dst = append(dst, ", "...)
		}
		if dst, err = e.fullMessage(dst, asText(&nodes[i].Message)); err != nil {
			return dst, err
		}
	}
	return append(dst, ']'), nil
}

// content applies asText unless rows are written as NAT writes them.
func (e *Encoder) content(m *chat.Message) *chat.Message {
	if e.opts.NAT {
		return m
	}
	return asText(m)
}

// asText turns content that is a list of only texts into a single text, so that a content column has one shape.
func asText(m *chat.Message) *chat.Message {
	if m.Form != chat.Parts {
		return m
	}
	flat := *m
	flat.FlattenText()
	return &flat
}

func (e *Encoder) fullMessage(dst []byte, m *chat.Message) ([]byte, error) {
	var err error
	member := func(key, text string) {
		if err == nil {
			dst = append(append(dst, key...), ": "...)
			dst, err = e.text(dst, text)
		}
	}
	member(`{"role"`, m.Role)
	switch m.Form {
	case chat.Text:
		member(`, "content"`, m.Text)
	case chat.Parts:
		for _, p := range m.Parts {
			if p.Type != "text" {
				return dst, e.refuse("a message of role %s has a part of type %q", m.Role, p.Type)
			}
		}
	case chat.Null, chat.Absent:
		dst = append(dst, `, "content": null`...)
	}
	if m.ReasoningKey != "" && e.Service {
		return dst, e.refuse("the %s message has reasoning, for which it has no place", m.Role)
	}
	if m.ReasoningKey != "" {
		member(`, "reasoning_content"`, m.Reasoning)
	}
	if len(m.ToolCalls) > 0 && err == nil {
		dst, err = e.toolCalls(dst, m)
	}
	if m.ToolCallID != "" {
		member(`, "tool_call_id"`, m.ToolCallID)
	}
	if m.Name != "" {
		member(`, "name"`, m.Name)
	}
	return append(dst, '}'), err
}

func (e *Encoder) toolCalls(dst []byte, m *chat.Message) ([]byte, error) {
	var err error
	dst = append(dst, `, "tool_calls": [`...)
	for i := range m.ToolCalls {
		c := &m.ToolCalls[i]
		// Parsed arguments may come from a plugin: nothing guarantees that they are a single JSON value.
		if !e.Service && (c.Parsed.Kind() != json.Object || !json.Valid(c.Parsed)) {
			return dst, e.refuse("the arguments of a call of %q are not a JSON object", c.Name)
		}
		if i > 0 {
			dst = append(dst, ", "...)
		}
		dst = append(dst, '{')
		if c.ID != "" {
			dst = append(dst, `"id": `...)
			if dst, err = e.text(dst, c.ID); err != nil {
				return dst, err
			}
			dst = append(dst, ", "...)
		}
		dst = append(dst, `"type": "function", "function": {"name": `...)
		if dst, err = e.text(dst, c.Name); err != nil {
			return dst, err
		}
		dst = append(dst, `, "arguments": `...)
		if e.textArguments {
			if dst, err = e.text(dst, c.Arguments); err != nil {
				return dst, err
			}
		} else {
			dst = e.compact(dst, c.Parsed)
		}
		dst = append(dst, "}}"...)
	}
	return append(dst, ']'), nil
}
