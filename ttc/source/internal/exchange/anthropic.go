package exchange

import (
	"slices"
	"strings"

	"github.com/nat-go/nat-go/internal/calls"
	"github.com/nat-go/nat-go/internal/lists"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/source/internal/compose"
	"github.com/nat-go/nat-go/ttc/source/internal/session"
)

// anthropic reads a request to Anthropic's messages API and its response.
func anthropic(request, response json.Raw) (Exchange, error) {
	e := Exchange{
		ID: session.Text(response, "id"), Model: session.Text(response, "model"), Tools: requestTools(request),
		Usage: AnthropicUsage(session.At(response, "usage")),
	}
	if system, ok := request.Get("system"); ok && system.Kind() != json.Null {
		e.Input = append(e.Input, calls.Message{Message: FromBlocks("system", Blocks(system))})
	}
	for m := range session.At(request, "messages").Elements() {
		e.Input = append(e.Input, AnthropicMessages(session.Text(m, "role"), session.At(m, "content"))...)
	}
	answer, hidden := AnswerOf(Blocks(session.At(response, "content")))
	if hidden {
		e.Gaps |= ttc.HiddenReasoning
	}
	e.Answers = []Answer{{Message: answer, Finish: StopReason(session.Text(response, "stop_reason"))}}
	return e, nil
}

// AnthropicUsage reads the token counts. The input count includes all of the model's input, whether cached or not.
func AnthropicUsage(usage json.Raw) (out calls.Usage) {
	for _, key := range []string{"input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"} {
		n, _ := session.At(usage, key).Int64()
		out.Input += n
	}
	out.Output, _ = session.At(usage, "output_tokens").Int64()
	return out
}

// StopReason converts the reason an answer ended to the terms of the chat completions API.
func StopReason(reason string) string {
	switch reason {
	case "end_turn", "stop_sequence":
		return "stop"
	case "max_tokens":
		return "length"
	case "tool_use":
		return "tool_calls"
	}
	return reason
}

// AnswerOf builds a message from an answer's blocks. hidden reports whether it contained reasoning whose text is
// missing.
func AnswerOf(blocks []json.Raw) (m chat.Message, hidden bool) {
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
			m.ToolCalls = append(m.ToolCalls, toolUse(b))
		default:
			m.Extra = append(m.Extra, chat.Member{Key: kind, Value: slices.Clone(b)})
		}
	}
	if texts != nil {
		m.Form, m.Text = chat.Text, strings.Join(texts, "\n")
	}
	Think(&m, strings.Join(thoughts, "\n"))
	return m, hidden
}

func toolUse(b json.Raw) chat.ToolCall {
	input := session.At(b, "input")
	if input == nil {
		input = json.Raw("{}")
	}
	input = slices.Clone(input)
	return chat.ToolCall{
		ID: session.Text(b, "id"), Type: "function", Name: session.Text(b, "name"),
		Arguments: string(input), Parsed: input, AsObject: input.Kind() != json.String,
	}
}

// AnthropicMessages converts a message in a request to chat messages. A model's message becomes one chat message. Any
// other message becomes one chat message per tool result, followed by one for the rest of its content.
func AnthropicMessages(role string, content json.Raw) []calls.Message {
	if role == "assistant" {
		m, _ := AnswerOf(Blocks(content))
		return []calls.Message{{Message: m}}
	}
	var out []calls.Message
	var rest []json.Raw
	for _, b := range Blocks(content) {
		if session.Text(b, "type") == "tool_result" {
			out = append(out, toolResult(b))
		} else {
			rest = append(rest, b)
		}
	}
	if rest != nil {
		out = append(out, calls.Message{Message: FromBlocks(role, rest)})
	}
	return out
}

func toolResult(b json.Raw) calls.Message {
	m := FromBlocks("tool", Blocks(session.At(b, "content")))
	m.ToolCallID = session.Text(b, "tool_use_id")
	failed := false // the format's default
	if v, ok := b.Get("is_error"); ok {
		failed, _ = v.Bool()
	}
	return calls.Message{Message: m, Error: &failed}
}

// FromBlocks builds a message from blocks. If they are all text, its content is a single string.
func FromBlocks(role string, blocks []json.Raw) chat.Message {
	if slices.ContainsFunc(blocks, func(b json.Raw) bool { return session.Text(b, "type") != "text" }) {
		return chat.Message{Role: role, Form: chat.Parts, Parts: PartsOf(blocks)}
	}
	texts := lists.Map(blocks, func(b json.Raw) string { return session.Text(b, "text") })
	return chat.Message{Role: role, Form: chat.Text, Text: strings.Join(texts, "\n")}
}

// PartsOf returns blocks as parts.
func PartsOf(blocks []json.Raw) []chat.Part {
	return lists.Map(blocks, func(b json.Raw) chat.Part {
		p := chat.Part{Type: session.Text(b, "type"), Raw: slices.Clone(b)}
		if p.Type == "text" {
			p.Text = session.Text(b, "text")
		}
		return p
	})
}

// Blocks returns the blocks in a message's content; plain text counts as one text block.
func Blocks(content json.Raw) []json.Raw {
	if content.Kind() == json.String {
		return []json.Raw{compose.Object(nil).Text("type", "text").Set("text", content).End()}
	}
	var out []json.Raw
	for e := range content.Elements() {
		if e.Kind() == json.String {
			out = append(out, Blocks(e)...)
		} else if e.Kind() == json.Object {
			out = append(out, e)
		}
	}
	return out
}
