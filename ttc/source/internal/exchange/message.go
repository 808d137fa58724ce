package exchange

import (
	"slices"
	"strings"

	"github.com/nat-go/nat-go/internal/calls"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/source/internal/compose"
	"github.com/nat-go/nat-go/ttc/source/internal/session"
)

// Role converts a role to the terms of chat templates.
func Role(role string) string {
	switch role {
	case "developer":
		return "system"
	case "model", "ai":
		return "assistant"
	case "human":
		return "user"
	case "function":
		return "tool"
	}
	return role
}

// Content builds a message from a string or a list of parts; parts that are all text become a single string.
func Content(role string, content json.Raw) chat.Message {
	m := chat.Message{Role: role, Form: chat.Text}
	if text, ok := content.Text(); ok {
		m.Text = text
		return m
	}
	var texts []string
	for e := range content.Elements() {
		switch typ := session.Text(e, "type"); typ {
		case "input_text", "output_text", "text":
			texts = append(texts, session.Text(e, "text"))
			m.Parts = append(m.Parts, TextPart(session.Text(e, "text")))
		default:
			m.Form = chat.Parts
			m.Parts = append(m.Parts, chat.Part{Type: typ, Raw: slices.Clone(e)})
		}
	}
	if m.Form == chat.Text {
		m.Text, m.Parts = strings.Join(texts, "\n"), nil
	}
	return m
}

// TextMessage returns a message with text content.
func TextMessage(role, text string) calls.Message {
	return calls.Message{Message: chat.Message{Role: role, Form: chat.Text, Text: text}}
}

// TextPart returns a text part.
func TextPart(text string) chat.Part {
	return chat.Part{Type: "text", Text: text, Raw: compose.Object(nil).Text("type", "text").Text("text", text).End()}
}

// Arguments sets a call's arguments, which are either the text that the model wrote or a value.
func Arguments(call *chat.ToolCall, value json.Raw) {
	text, ok := value.Text()
	call.AsObject = !ok && value != nil && value.Kind() != json.Null
	if !ok {
		text = string(value)
	}
	call.Arguments = text
	call.Parsed, _ = json.Parse([]byte(text), json.Limits{})
}

// CallOf reads a call whose id, name and arguments are under the given keys.
func CallOf(call json.Raw, id, name, arguments string) chat.ToolCall {
	c := chat.ToolCall{ID: session.Text(call, id), Type: "function", Name: session.Text(call, name)}
	Arguments(&c, session.At(call, arguments))
	return c
}

// Think adds text to a message's reasoning.
func Think(m *chat.Message, text string) {
	if text != "" {
		m.Reasoning, m.ReasoningKey = m.Reasoning+text, "reasoning_content"
	}
}

// NullIfEmpty replaces empty text with null content in an answer that has only calls.
func NullIfEmpty(m *chat.Message) {
	if m.Form == chat.Text && m.Text == "" && m.ToolCalls != nil {
		m.Form = chat.Null
	}
}

// Tools reads tool definitions, each as ToolOf does. It returns nil if list is not an array.
func Tools(list json.Raw) []chat.Tool {
	if list.Kind() != json.Array {
		return nil
	}
	out := []chat.Tool{}
	for t := range list.Elements() {
		if tool, ok := ToolOf(t); ok {
			out = append(out, tool)
		}
	}
	return out
}

// ToolOf converts a definition to the form that chat templates expect: {"type": "function", "function": {...}}. It may
// be flat, as in the Responses API, or have its parameters under input_schema, as with Anthropic.
func ToolOf(raw json.Raw) (chat.Tool, bool) {
	tool, err := chat.ParseTool(raw)
	if err != nil {
		return tool, false
	}
	if fn, ok := raw.Get("function"); ok && fn.Kind() == json.Object {
		return tool, true
	}
	function := compose.Object(nil).Text("name", tool.Name).Set("description", session.At(raw, "description"))
	for _, key := range []string{"parameters", "input_schema", "inputSchema"} {
		if v := session.At(raw, key); v != nil && v.Kind() != json.Null {
			function = function.Set("parameters", v)
			break
		}
	}
	tool.Raw = compose.Object(nil).Text("type", "function").Set("function", function.End()).End()
	return tool, true
}
