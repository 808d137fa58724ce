package claudecode

import (
	"strings"

	"github.com/nat-go/nat-go/ttc/calls"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/source/session"
)

// block is a piece of an answer.
type block struct {
	index int64 // -1: not said
	raw   json.Raw
}

// answerOf makes a message of the blocks of an answer. hidden says that it had reasoning whose text is not stored.
func answerOf(blocks []json.Raw) (m chat.Message, hidden bool) {
	m = chat.Message{Role: "assistant", Form: chat.Null}
	var texts, thoughts []string
	for _, b := range blocks {
		switch kind := session.Text(b, "type"); kind {
		case "text":
			texts = append(texts, session.Text(b, "text"))
		case "thinking":
			if t := session.Text(b, "thinking"); t != "" {
				thoughts = append(thoughts, t)
			} else {
				hidden = true
			}
		case "redacted_thinking":
			hidden = true
		case "tool_use", "server_tool_use", "mcp_tool_use":
			m.ToolCalls = append(m.ToolCalls, toolCall(b))
		default:
			m.Extra = append(m.Extra, chat.Member{Key: kind, Value: clone(b)})
		}
	}
	if texts != nil {
		m.Form, m.Text = chat.Text, strings.Join(texts, "\n")
	}
	if thoughts != nil {
		m.Reasoning, m.ReasoningKey = strings.Join(thoughts, "\n"), "reasoning_content"
	}
	return m, hidden
}

func toolCall(b json.Raw) chat.ToolCall {
	input, _ := b.Get("input")
	if input == nil {
		input = json.Raw("{}")
	}
	input = clone(input)
	return chat.ToolCall{
		ID: session.Text(b, "id"), Type: "function", Name: session.Text(b, "name"),
		Arguments: string(input), Parsed: input, AsObject: input.Kind() == json.Object,
	}
}

// messagesOf makes chat messages of one message of a request: each result of a tool is one, and so is all else
// together.
func messagesOf(role string, content json.Raw) []calls.Message {
	if role == "assistant" {
		m, _ := answerOf(elements(content))
		return []calls.Message{{Message: m}}
	}
	var out []calls.Message
	var rest []json.Raw
	for _, b := range elements(content) {
		if session.Text(b, "type") == "tool_result" {
			out = append(out, toolResult(b))
		} else {
			rest = append(rest, b)
		}
	}
	if rest != nil {
		out = append(out, calls.Message{Message: contentOf(role, rest)})
	}
	return out
}

func toolResult(b json.Raw) calls.Message {
	content, _ := b.Get("content")
	m := contentOf("tool", elements(content))
	m.ToolCallID = session.Text(b, "tool_use_id")
	failed := false // as the format has it, where nothing is said
	if v, ok := b.Get("is_error"); ok {
		failed, _ = v.Bool()
	}
	return calls.Message{Message: m, Error: &failed}
}

// contentOf makes a message of blocks: a text, if they are texts alone.
func contentOf(role string, blocks []json.Raw) chat.Message {
	m := chat.Message{Role: role, Form: chat.Text}
	var texts []string
	for _, b := range blocks {
		if session.Text(b, "type") != "text" {
			m.Form = chat.Parts
			continue
		}
		texts = append(texts, session.Text(b, "text"))
	}
	if m.Form == chat.Text {
		m.Text = strings.Join(texts, "\n")
		return m
	}
	for _, b := range blocks {
		p := chat.Part{Type: session.Text(b, "type"), Raw: clone(b)}
		if p.Type == "text" {
			p.Text = session.Text(b, "text")
		}
		m.Parts = append(m.Parts, p)
	}
	return m
}

// elements are the blocks of a content; a text is one block of text.
func elements(content json.Raw) []json.Raw {
	if content.Kind() == json.String {
		b := append(json.Raw(`{"type":"text","text":`), content...)
		return []json.Raw{append(b, '}')}
	}
	var out []json.Raw
	for e := range content.Elements() {
		if e.Kind() == json.String {
			out = append(out, elements(e)...)
		} else if e.Kind() == json.Object {
			out = append(out, e)
		}
	}
	return out
}

// tools reads definitions of tools: with input_schema, as requests have them, or under schema, as snapshots do.
func tools(raw json.Raw) []chat.Tool {
	out := []chat.Tool{}
	for e := range raw.Elements() {
		if s, ok := e.Get("schema"); ok {
			e = s
		}
		name, ok := e.Get("name")
		if !ok || name.Kind() != json.String {
			continue
		}
		b := append([]byte(`{"type":"function","function":{"name":`), name...)
		if d, ok := e.Get("description"); ok {
			b = append(append(b, `,"description":`...), d...)
		}
		if p, ok := e.Get("input_schema"); ok {
			b = append(append(b, `,"parameters":`...), p...)
		}
		text, _ := name.Text()
		out = append(out, chat.Tool{Name: text, Raw: append(b, "}}"...)})
	}
	return out
}

func clone(raw json.Raw) json.Raw { return append(json.Raw(nil), raw...) }
