package otlp

import (
	"testing"

	"github.com/nat-go/nat-go/ttc/json"
)

// TestKind: an attribute with a known value says what a span is, also beside one with another; a span with a name of
// another kind is no call, whatever it holds.
func TestKind(t *testing.T) {
	for want, texts := range map[spanKind][]string{
		callSpan:  {"gen_ai.operation.name", "chat", "traceloop.span.kind", "agent"},
		agentSpan: {"gen_ai.operation.name", "invoke_workflow", "openinference.span.kind", "AGENT"},
		toolSpan:  {"ai.operationId", "ai.toolCall", "gen_ai.output.messages", "[]"},
		otherSpan: {"gen_ai.operation.name", "agent_step", "gen_ai.output.messages", "[]"},
	} {
		s := &span{attributes: attributes{
			texts[0]: json.AppendString(nil, texts[1]), texts[2]: json.AppendString(nil, texts[3]),
		}}
		if got := s.kind(); got != want {
			t.Errorf("%q: got %d, want %d", texts, got, want)
		}
	}
}
