package exchange

import (
	"fmt"

	"github.com/nat-go/nat-go/internal/calls"
	"github.com/nat-go/nat-go/internal/lists"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/source/internal/compose"
	"github.com/nat-go/nat-go/ttc/source/internal/session"
)

// Chat reads a chat completions request and its response.
func Chat(request, response json.Raw) (Exchange, error) {
	e := Exchange{
		ID: session.Text(response, "id"), Model: session.Text(response, "model"),
		Time:  session.Seconds(session.At(response, "created")),
		Tools: requestTools(request), Answers: Choices(response),
	}
	input, err := ChatMessages(session.At(request, "messages"))
	if err != nil {
		return e, err
	}
	e.Input = lists.Map(input, func(m chat.Message) calls.Message { return calls.Message{Message: m} })
	usage := session.At(response, "usage")
	e.Usage = calls.Usage{Input: count(usage, "prompt_tokens"), Output: count(usage, "completion_tokens")}
	thought := count(session.At(usage, "completion_tokens_details"), "reasoning_tokens") > 0
	for _, a := range e.Answers {
		if thought && a.Reasoning == "" {
			e.Gaps |= ttc.HiddenReasoning
		}
	}
	return e, nil
}

// requestTools returns the tools of a request; the list is empty, not nil, if the request names none.
func requestTools(request json.Raw) []chat.Tool {
	if tools := Tools(session.At(request, "tools")); tools != nil {
		return tools
	}
	return []chat.Tool{}
}

// ChatMessages reads the messages in a chat completions request.
func ChatMessages(list json.Raw) ([]chat.Message, error) {
	messages, err := chat.ParseMessages(list)
	if err != nil {
		return nil, fmt.Errorf("invalid request: %w", err)
	}
	for i := range messages {
		m := &messages[i]
		if m.Role = Role(m.Role); m.Role == "assistant" {
			*m = said(m)
		}
	}
	return messages, nil
}

// said returns an assistant message without the additions made by servers and clients, which are missing from its copy
// in a later request.
func said(m *chat.Message) chat.Message {
	out := *m
	out.Extra = nil
	if out.Role = "assistant"; out.Form == chat.Absent {
		out.Form = chat.Null
	}
	for i := range out.ToolCalls {
		out.ToolCalls[i].Type, out.ToolCalls[i].Extra = "function", nil
	}
	return out
}

// Choices reads the choices in a chat completions response. It returns none if any of them can't be read.
func Choices(response json.Raw) (out []Answer) {
	for c := range session.At(response, "choices").Elements() {
		message, ok := c.Get("message")
		if !ok {
			return nil
		}
		m, err := chat.ParseMessages(compose.List(nil).Add(message).End())
		if err != nil {
			return nil
		}
		a := Answer{Message: said(&m[0]), Finish: session.Text(c, "finish_reason")}
		a.TokenIDs = TokenIDs(session.At(c, "token_ids"))
		var probs []float32
		for p := range session.At(c, "logprobs", "content").Elements() {
			f, ok := session.At(p, "logprob").Float64()
			if !ok || f > 0 { // NaN is kept, so that the drop of its record gives the reason
				probs = nil
				break
			}
			probs = append(probs, float32(f))
		}
		if a.TokenIDs != nil && len(probs) == len(a.TokenIDs) {
			a.LogProbs = probs
		}
		out = append(out, a)
	}
	return out
}
