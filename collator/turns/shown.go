package turns

import (
	"strings"

	"github.com/nat-go/nat-go/ttc/chat/template"
)

// Shown records which parts of a message appear in a render.
type Shown struct {
	Reasoning bool
	Calls     bool // at least a part of one call
}

// ShownOf returns the parts of each message that appear in a conversation's render.
func ShownOf(res *template.Result, messages int) []Shown {
	out := make([]Shown, messages)
	for i := range res.Spans {
		s := &res.Spans[i]
		if s.Message < 0 || s.Message >= messages {
			continue
		}
		switch {
		case strings.HasPrefix(s.Field, "tool_calls"):
			out[s.Message].Calls = true
		case IsReasoning(s.Field):
			out[s.Message].Reasoning = true
		}
	}
	return out
}

// IsReasoning reports whether a message's field holds its reasoning.
func IsReasoning(field string) bool {
	return field == "reasoning_content" || field == "reasoning" || field == "thinking"
}
