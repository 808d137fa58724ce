package chat

import (
	"bytes"
	"fmt"

	"github.com/nat-go/nat-go/ttc/json"
)

// ParseMessages reads an array of messages in the format of the OpenAI chat API, which other APIs use too. All
// returned data is copied out of raw. The error names the message and the field that can't be read.
func ParseMessages(raw json.Raw) ([]Message, error) {
	if raw.Kind() != json.Array {
		return nil, fmt.Errorf("expected an array of messages, got %s", raw.Kind())
	}
	var out []Message
	c := raw.Cursor() // reads the array and its messages in one pass
	c.Enter(json.Array)
	for c.Element() {
		m, err := parseMessage(&c)
		if err != nil {
			return nil, fmt.Errorf("messages[%d]: %w", len(out), err)
		}
		out = append(out, m)
	}
	return out, nil
}

// parseMessage reads the message at the cursor: role (required), content (text, null, absent, or parts), name,
// tool_calls, tool_call_id, and hidden reasoning under reasoning_content, reasoning or thinking. Extra gets unknown
// keys, additional reasoning, and null values of known keys except content. Everything it returns is copied.
func parseMessage(c *json.Cursor) (Message, error) {
	var m Message
	if !c.Enter(json.Object) {
		return m, fmt.Errorf("expected a message object, got %s", c.Kind())
	}
	hasRole := false
	for key, ok := c.Member(); ok; key, ok = c.Member() {
		v := c.Value()
		name := key.Bytes()
		var err error
		switch {
		case string(name) == "content":
			err = m.parseContent(v)
		case v.Kind() == json.Null:
			m.Extra = append(m.Extra, Member{string(name), clone(v)})
		case string(name) == "role":
			hasRole = true
			m.Role, err = roleText(v)
		case string(name) == "name":
			m.Name, err = text(v)
		case string(name) == "tool_call_id":
			m.ToolCallID, err = text(v)
		case string(name) == "tool_calls":
			m.ToolCalls, err = parseCalls(v)
		case v.Kind() == json.String && m.ReasoningKey == "" && isReasoning(string(name)):
			m.ReasoningKey = string(name)
			m.Reasoning, err = text(v)
		default:
			m.Extra = append(m.Extra, Member{string(name), clone(v)})
		}
		if err != nil {
			return m, fmt.Errorf("%s: %w", name, err)
		}
	}
	if !hasRole {
		return m, fmt.Errorf("missing role")
	}
	return m, nil
}

// roleText is like text, but doesn't copy common roles.
func roleText(v json.Raw) (string, error) {
	for _, role := range []string{"user", "assistant", "tool", "system"} {
		if v.Is(role) {
			return role, nil
		}
	}
	return text(v)
}

func isReasoning(key string) bool {
	return key == "reasoning_content" || key == "reasoning" || key == "thinking"
}

func (m *Message) parseContent(v json.Raw) error {
	m.Text, m.Parts = "", nil // the last of duplicate keys wins
	switch v.Kind() {
	case json.Null:
		m.Form = Null
	case json.String:
		m.Form = Text
		m.Text, _ = v.Text()
	case json.Array:
		m.Form = Parts
		m.Parts = []Part{}
		for e := range v.Elements() {
			p, err := parsePart(e)
			if err != nil {
				return fmt.Errorf("part %d: %w", len(m.Parts), err)
			}
			m.Parts = append(m.Parts, p)
		}
	default:
		return fmt.Errorf("expected text, null or parts, got %s", v.Kind())
	}
	return nil
}

// parsePart reads a part: an object with a type, or a bare string, which some writers use for a text part.
func parsePart(v json.Raw) (Part, error) {
	p := Part{Raw: clone(v)}
	switch v.Kind() {
	case json.String:
		p.Type = "text"
		p.Text, _ = v.Text()
		return p, nil
	case json.Object:
		kind, _ := v.Get("type")
		var err error
		if p.Type, err = text(kind); err != nil {
			return p, fmt.Errorf("type: %w", err)
		}
		if p.Type == "text" {
			body, _ := v.Get("text")
			if p.Text, err = text(body); err != nil {
				return p, fmt.Errorf("text: %w", err)
			}
		}
		return p, nil
	}
	return p, fmt.Errorf("expected an object, got %s", v.Kind())
}

func parseCalls(v json.Raw) ([]ToolCall, error) {
	if v.Kind() != json.Array {
		return nil, fmt.Errorf("expected an array, got %s", v.Kind())
	}
	out := []ToolCall{}
	for e := range v.Elements() {
		call, err := ParseToolCall(e)
		if err != nil {
			return nil, fmt.Errorf("call %d: %w", len(out), err)
		}
		out = append(out, call)
	}
	return out, nil
}

// ParseToolCall reads a call: {"id", "type", "function": {"name", "arguments"}}, or the same without the nested
// "function".
func ParseToolCall(raw json.Raw) (ToolCall, error) {
	var call ToolCall
	if raw.Kind() != json.Object {
		return call, fmt.Errorf("expected an object, got %s", raw.Kind())
	}
	fn, nested := raw.Get("function")
	nested = nested && fn.Kind() == json.Object
	for key, v := range raw.Members() {
		name, _ := key.Text()
		var err error
		switch {
		case name == "id" && v.Kind() == json.String:
			call.ID, err = text(v)
		case name == "type" && v.Kind() == json.String:
			call.Type, err = text(v)
		case name == "function" && nested:
			for key, v := range v.Members() {
				inner, _ := key.Text()
				if err = call.parseFunction(inner, v); err != nil {
					break
				}
			}
		case !nested:
			err = call.parseFunction(name, v)
		default:
			call.Extra = append(call.Extra, Member{name, clone(v)})
		}
		if err != nil {
			return call, fmt.Errorf("%s: %w", name, err)
		}
	}
	if call.Name == "" {
		return call, fmt.Errorf("missing function name")
	}
	return call, nil
}

func (call *ToolCall) parseFunction(key string, v json.Raw) (err error) {
	switch {
	case key == "name", key == "function" && v.Kind() == json.String:
		call.Name, err = text(v)
	case key == "arguments" && v.Kind() == json.String:
		call.AsObject = false
		call.Arguments, _ = v.Text()
		call.Parsed, _ = json.Parse([]byte(call.Arguments), json.Limits{})
	case key == "arguments" && v.Kind() != json.Null:
		call.AsObject = true
		call.Parsed = clone(v)
		call.Arguments = string(v)
	default:
		call.Extra = append(call.Extra, Member{key, clone(v)})
	}
	return err
}

// ParseTool reads a tool definition: {"type": "function", "function": {"name", ...}}, or just the inner object.
func ParseTool(raw json.Raw) (Tool, error) {
	if raw.Kind() != json.Object {
		return Tool{}, fmt.Errorf("expected a tool object, got %s", raw.Kind())
	}
	inner := raw
	if fn, ok := raw.Get("function"); ok && fn.Kind() == json.Object {
		inner = fn
	}
	v, _ := inner.Get("name")
	name, err := text(v)
	if err != nil {
		return Tool{}, fmt.Errorf("invalid tool name: %w", err)
	}
	return Tool{Name: name, Raw: clone(raw)}, nil
}

func text(v json.Raw) (string, error) {
	s, ok := v.Text()
	if !ok {
		return "", fmt.Errorf("%s, not text", v.Kind())
	}
	return s, nil
}

func clone(v json.Raw) json.Raw { return json.Raw(bytes.Clone(v)) }
