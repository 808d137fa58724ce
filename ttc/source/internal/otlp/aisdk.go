package otlp

import (
	"strings"

	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/source/internal/exchange"
	"github.com/nat-go/nat-go/ttc/source/internal/session"
)

// aiSDK reads an AI SDK call: the messages as given to the provider, and an answer spread over attributes. Up to
// version 5, reasoning is recorded only in the histories of later calls. Missing attributes may include parts of the
// answer.
func (e *modelCall) aiSDK(s *span) {
	a := s.attributes
	if s.cut {
		e.broken = overLimit
		return
	}
	for tool := range e.list(a, "ai.prompt.tools").Elements() {
		e.addTool(tool.Bytes())
	}
	for m := range e.list(a, "ai.prompt.messages").Elements() {
		e.input = append(e.input, messageOf(m)...)
		for p := range session.At(m, "content").Elements() {
			id := session.Text(p, "toolCallId")
			if id != "" && strings.HasPrefix(session.Text(p, "output", "type"), "error-") {
				e.failed = append(e.failed, id)
			}
		}
	}
	m := chat.Message{Role: "assistant", Form: chat.Text, Text: a.first("ai.response.text", "ai.response.object")}
	m.ToolCalls = toolCalls(e.list(a, "ai.response.toolCalls"))
	exchange.Think(&m, a.text("ai.response.reasoning"))
	exchange.NullIfEmpty(&m)
	if a["ai.response.object"] != nil {
		e.gaps |= ttc.ParsedArguments // some versions re-encode the object
	}
	e.finish = a.text("ai.response.finishReason")
	e.alone = m.ToolCalls != nil && m.Text != "" && e.finish == "stop"
	if m.ToolCalls != nil || m.Text != "" || m.Reasoning != "" {
		e.outputs = []exchange.Answer{{Message: m}}
	}
}
