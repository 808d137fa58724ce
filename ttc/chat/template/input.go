package template

import (
	"fmt"
	"strconv"

	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/pyvalue"
)

// ParseMessages parses a conversation's JSON array into the form of Input.Messages, with every value as Python sees it
// and its origin attached. The messages are neither changed nor checked.
func ParseMessages(raw json.Raw) ([]pyvalue.Value, error) {
	v, err := pyvalue.Parse(raw)
	if err != nil {
		return nil, err
	}
	if v.Kind() != pyvalue.KindList {
		return nil, fmt.Errorf("expected a list of messages, got %s", v.TypeName())
	}
	out := make([]pyvalue.Value, len(v.Items()))
	for i, m := range v.Items() {
		out[i] = WithOrigin(m, i)
	}
	return out, nil
}

// ParseTools parses the JSON array of tool definitions into the form of Input.Tools.
func ParseTools(raw json.Raw) (pyvalue.Value, error) {
	v, err := pyvalue.Parse(raw)
	if err != nil {
		return pyvalue.None, err
	}
	return toolOrigin(v), nil
}

// ToolList builds Input.Tools from tool definitions. It returns None for an empty list.
func ToolList(tools []chat.Tool) (pyvalue.Value, error) {
	if len(tools) == 0 {
		return pyvalue.None, nil
	}
	items := make([]val, len(tools))
	for i, t := range tools {
		v, err := pyvalue.Parse(t.Raw)
		if err != nil {
			return pyvalue.None, fmt.Errorf("tool %d (%s): %w", i, t.Name, err)
		}
		items[i] = v
	}
	return toolOrigin(pyvalue.NewList(items)), nil
}

func toolOrigin(v val) val { return originOf(v, &Source{FromTools, "tools"}) }

// WithOrigin returns a message dict in which every value is marked as belonging to the message with that index.
func WithOrigin(message pyvalue.Value, index int) pyvalue.Value {
	if message.Kind() != pyvalue.KindDict {
		return originOf(message, &Source{index, ""})
	}
	d := message.Dict()
	out := pyvalue.NewDict(d.Len())
	out.Tag = &Source{index, ""}
	for i := range d.Len() {
		k, v := d.At(i)
		_ = out.Set(k, originOf(v, &Source{index, k.Text()})) // dict keys are hashable
	}
	return pyvalue.OfDict(out)
}

func originOf(v val, src *Source) val {
	switch v.Kind() {
	case pyvalue.KindList:
		items := make([]val, len(v.Items()))
		for i, e := range v.Items() {
			items[i] = originOf(e, &Source{src.Message, src.Field + "[" + strconv.Itoa(i) + "]"})
		}
		l := pyvalue.NewList(items)
		l.List().Tag = src
		return l
	case pyvalue.KindDict:
		d := v.Dict()
		out := pyvalue.NewDict(d.Len())
		out.Tag = src
		for i := range d.Len() {
			k, e := d.At(i)
			key := k.WithTag(newSingle(Span{chat.Span{End: len(k.Text())}, src, 0, Flat}).asTag())
			_ = out.Set(key, originOf(e, &Source{src.Message, src.Field + "." + k.Text()}))
		}
		return pyvalue.OfDict(out)
	case pyvalue.KindObject:
		return v
	}
	return v.WithTag(newSingle(Span{chat.Span{End: len(v.Text())}, src, 0, Linear}).asTag())
}

// reasoningKeys are the keys under which messages carry hidden reasoning, in the order in which transformers tries
// them.
var reasoningKeys = []string{"reasoning_content", "thinking", "reasoning"}

// AliasReasoning prepares a message as transformers does before rendering: a message with reasoning under any of these
// keys also gets it as `thinking`, placed first, unless it already has that key, and as `reasoning_content`. The
// function is idempotent.
func AliasReasoning(message pyvalue.Value) pyvalue.Value {
	d := message.Dict()
	if d == nil {
		return message
	}
	var reasoning val
	for _, key := range reasoningKeys {
		if v, ok := d.GetStr(key); ok && !v.IsNone() {
			reasoning = v
			break
		}
	}
	if reasoning.IsNone() {
		return message
	}
	out := pyvalue.NewDict(d.Len() + 2)
	out.Tag = d.Tag
	out.SetStr("thinking", reasoning)
	for i := range d.Len() {
		k, v := d.At(i)
		_ = out.Set(k, v)
	}
	out.SetStr("reasoning_content", reasoning)
	return pyvalue.OfDict(out)
}

// Conversation builds Input.Messages from messages, normalised the way templates expect them: null or absent content
// becomes an empty string, and reasoning gets the additional keys of AliasReasoning. Arguments that parse as a JSON
// object become a dict, with the keys in the model's order.
func Conversation(messages []chat.Message) ([]pyvalue.Value, error) {
	return conversation(messages, false)
}

// RawConversation is like Conversation, but keeps all arguments as the sampled text, for templates that expect text.
func RawConversation(messages []chat.Message) ([]pyvalue.Value, error) {
	return conversation(messages, true)
}

func conversation(messages []chat.Message, raw bool) ([]pyvalue.Value, error) {
	out := make([]pyvalue.Value, len(messages))
	for i := range messages {
		m, err := messageValue(&messages[i], raw)
		if err != nil {
			return nil, fmt.Errorf("message %d: %w", i, err)
		}
		out[i] = AliasReasoning(WithOrigin(m, i))
	}
	return out, nil
}

func messageValue(m *chat.Message, raw bool) (val, error) {
	d := pyvalue.NewDict(4)
	d.SetStr("role", pyvalue.Str(m.Role))
	content := pyvalue.Str(m.Text) // "" if the message has no text
	if m.Form == chat.Parts {
		parts := make([]val, len(m.Parts))
		for i, p := range m.Parts {
			v, err := pyvalue.Parse(p.Raw)
			if err != nil {
				return val{}, fmt.Errorf("content part %d: %w", i, err)
			}
			parts[i] = v
		}
		content = pyvalue.NewList(parts)
	}
	d.SetStr("content", content)
	if m.ReasoningKey != "" {
		d.SetStr(m.ReasoningKey, pyvalue.Str(m.Reasoning))
	}
	if m.ToolCalls != nil {
		calls := make([]val, len(m.ToolCalls))
		for i := range m.ToolCalls {
			v, err := callValue(&m.ToolCalls[i], raw)
			if err != nil {
				return val{}, fmt.Errorf("tool call %d: %w", i, err)
			}
			calls[i] = v
		}
		d.SetStr("tool_calls", pyvalue.NewList(calls))
	}
	if m.ToolCallID != "" {
		d.SetStr("tool_call_id", pyvalue.Str(m.ToolCallID))
	}
	if m.Name != "" {
		d.SetStr("name", pyvalue.Str(m.Name))
	}
	return pyvalue.OfDict(d), extras(d, m.Extra)
}

func callValue(c *chat.ToolCall, raw bool) (val, error) {
	fn := &pyvalue.Dict{}
	fn.SetStr("name", pyvalue.Str(c.Name))
	arguments := pyvalue.Str(c.Arguments)
	if c.Parsed.Kind() == json.Object && !raw {
		v, err := pyvalue.Parse(c.Parsed)
		if err != nil {
			return val{}, err
		}
		arguments = v
	}
	fn.SetStr("arguments", arguments)
	d := &pyvalue.Dict{}
	if c.ID != "" {
		d.SetStr("id", pyvalue.Str(c.ID))
	}
	d.SetStr("type", pyvalue.Str("function"))
	d.SetStr("function", pyvalue.OfDict(fn))
	return pyvalue.OfDict(d), extras(d, c.Extra)
}

func extras(d *pyvalue.Dict, members []chat.Member) error {
	for _, m := range members {
		v, err := pyvalue.Parse(m.Value)
		if err != nil {
			return fmt.Errorf("%s: %w", m.Key, err)
		}
		if !v.IsNone() { // null is equivalent to a missing key, but templates test whether the key exists
			d.SetStr(m.Key, v)
		}
	}
	return nil
}
