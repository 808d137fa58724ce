package traces

import (
	"slices"
	"strings"

	"github.com/nat-go/nat-go/internal/calls"
	"github.com/nat-go/nat-go/internal/lists"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/source/internal/exchange"
	"github.com/nat-go/nat-go/ttc/source/internal/session"
)

// foreign reads messages from frameworks that don't write them in the chat API's form: Responses API items, as the
// OpenAI Agents SDK keeps them, and pydantic-ai's requests and responses. It returns false for other messages.
func foreign(list json.Raw) ([]chat.Message, bool) {
	for m := range list.Elements() {
		switch {
		case isItem(m) || isItemContent(session.At(m, "content")):
			return lists.Map(exchange.ItemMessages(list), withError), true
		case isPydantic(m):
			return pydanticMessages(list), true
		}
	}
	return nil, false
}

// isItem reports whether an element is a Responses API item other than a message.
func isItem(m json.Raw) bool {
	name := session.Text(m, "type")
	return !session.Has(m, "role") && (name == "reasoning" || exchange.IsCall(name) || exchange.IsResult(name))
}

// isItemContent reports whether content belongs to a Responses API message.
func isItemContent(content json.Raw) bool {
	typ := session.Text(session.First(content), "type")
	return typ == "output_text" || typ == "input_text"
}

// withError returns a message with its error, if any, as an extra key, as entries have it.
func withError(m calls.Message) chat.Message {
	if m.Error != nil && *m.Error {
		m.Extra = append(m.Extra, chat.Member{Key: "is_error", Value: json.Raw("true")})
	}
	return m.Message
}

// isPydantic reports whether an element is a pydantic-ai request or response.
func isPydantic(m json.Raw) bool {
	kind := session.Text(m, "kind")
	return session.At(m, "parts").Kind() == json.Array && (kind == "request" || kind == "response")
}

func pydanticMessages(list json.Raw) (out []chat.Message) {
	for m := range list.Elements() {
		answer := chat.Message{Role: "assistant", Form: chat.Null}
		for p := range session.At(m, "parts").Elements() {
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

// pydanticPart reads a part. It adds the model's parts to the answer, and returns any other part as a separate message.
func pydanticPart(p json.Raw, answer *chat.Message) (chat.Message, bool) {
	m := exchange.TextMessage("user", pydanticText(session.At(p, "content")))
	kind := session.Text(p, "part_kind")
	retry := kind == "retry-prompt" && session.Text(p, "tool_name") != ""
	switch {
	case kind == "system-prompt":
		m.Role = "system"
	case kind == "tool-return" || retry:
		m.Role, m.ToolCallID, m.Error = "tool", session.Text(p, "tool_call_id"), &retry
	case kind == "text":
		answer.Form, answer.Text = chat.Text, answer.Text+m.Text
		return m.Message, false
	case kind == "thinking":
		answer.Reasoning, answer.ReasoningKey = answer.Reasoning+m.Text, "reasoning_content"
		return m.Message, false
	case kind == "tool-call":
		answer.ToolCalls = append(answer.ToolCalls, exchange.CallOf(p, "tool_call_id", "tool_name", "args"))
		return m.Message, false
	}
	return withError(m), true // user-prompt or another kind
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
		return m.Kind() != json.Object || !session.Has(m, "role", "content") && !isItem(m) && !isPydantic(m)
	})
}
