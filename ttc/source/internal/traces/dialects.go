package traces

import (
	"slices"
	"strings"

	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/source/internal/exchange"
)

// foreign reads messages from frameworks that don't write them in the chat API's form: Responses API items, as the
// OpenAI Agents SDK keeps them, and pydantic-ai's requests and responses. It returns false for other messages.
func foreign(list json.Raw) ([]chat.Message, bool) {
	for m := range list.Elements() {
		content, _ := m.Get("content")
		switch {
		case isItem(m) || isItemContent(content):
			return itemMessages(list), true
		case isPydantic(m):
			return pydanticMessages(list), true
		}
	}
	return nil, false
}

// isItem reports whether an element is a Responses API item other than a message.
func isItem(m json.Raw) bool {
	_, role := m.Get("role")
	typ, _ := m.Get("type")
	name, _ := typ.Text()
	return !role && (name == "reasoning" || exchange.IsCall(name) || exchange.IsResult(name))
}

// isItemContent reports whether content belongs to a Responses API message.
func isItemContent(content json.Raw) bool {
	for p := range content.Elements() {
		typ, _ := p.Get("type")
		return typ.Is("output_text") || typ.Is("input_text")
	}
	return false
}

func itemMessages(list json.Raw) (out []chat.Message) {
	var items exchange.Items
	items.Add(list)
	for _, m := range items.End() {
		if m.Error != nil && *m.Error {
			m.Extra = append(m.Extra, chat.Member{Key: "is_error", Value: json.Raw("true")})
		}
		out = append(out, m.Message)
	}
	return out
}

// isPydantic reports whether an element is a pydantic-ai request or response.
func isPydantic(m json.Raw) bool {
	kind, _ := m.Get("kind")
	parts, _ := m.Get("parts")
	return parts.Kind() == json.Array && (kind.Is("request") || kind.Is("response"))
}

func pydanticMessages(list json.Raw) (out []chat.Message) {
	for m := range list.Elements() {
		parts, _ := m.Get("parts")
		answer := chat.Message{Role: "assistant", Form: chat.Null}
		for p := range parts.Elements() {
			if said, ok := pydanticPart(p, &answer); ok {
				out = append(out, said)
			}
		}
		if answer.Form == chat.Text || answer.ToolCalls != nil || answer.Reasoning != "" {
			out = append(out, answer)
		}
	}
	return out
}

// pydanticPart reads a part: the model's parts are added to its answer, and any other part becomes a separate message.
func pydanticPart(p json.Raw, answer *chat.Message) (chat.Message, bool) {
	get := func(key string) json.Raw { v, _ := p.Get(key); return v }
	text := pydanticText(get("content"))
	id, _ := get("tool_call_id").Text()
	name, _ := get("tool_name").Text()
	switch kind, _ := get("part_kind").Text(); kind {
	case "system-prompt":
		return chat.Message{Role: "system", Form: chat.Text, Text: text}, true
	case "tool-return":
		return chat.Message{Role: "tool", Form: chat.Text, Text: text, ToolCallID: id}, true
	case "retry-prompt":
		if name == "" {
			return chat.Message{Role: "user", Form: chat.Text, Text: text}, true
		}
		failed := []chat.Member{{Key: "is_error", Value: json.Raw("true")}}
		return chat.Message{Role: "tool", Form: chat.Text, Text: text, ToolCallID: id, Extra: failed}, true
	case "text":
		answer.Form, answer.Text = chat.Text, answer.Text+text
	case "thinking":
		answer.Reasoning, answer.ReasoningKey = answer.Reasoning+text, "reasoning_content"
	case "tool-call":
		call := chat.ToolCall{ID: id, Type: "function", Name: name}
		exchange.Arguments(&call, get("args"))
		answer.ToolCalls = append(answer.ToolCalls, call)
	default: // user-prompt
		return chat.Message{Role: "user", Form: chat.Text, Text: text}, true
	}
	return chat.Message{}, false
}

// pydanticText converts content to text: a string, several strings, or a value.
func pydanticText(content json.Raw) string {
	if text, ok := content.Text(); ok {
		return text
	}
	if content.Kind() != json.Array {
		return string(content)
	}
	var texts []string
	for e := range content.Elements() {
		text, ok := e.Text()
		if !ok {
			return string(content)
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, "\n")
}

// areOfOne reports whether all entries are messages, which may form a single conversation.
func areOfOne(entries []json.Raw) bool {
	return len(entries) > 0 && !slices.ContainsFunc(entries, func(m json.Raw) bool {
		_, role := m.Get("role")
		_, content := m.Get("content")
		return m.Kind() != json.Object || !(role && content) && !isItem(m) && !isPydantic(m)
	})
}
