package chat

import "strings"

// The tags around the reasoning that some servers keep at the beginning of a model's text.
const (
	ThoughtStart = "<think>"
	ThoughtEnd   = "</think>"
)

// Thinks reports whether a message has reasoning, either in Reasoning or at the start of its text.
func (m *Message) Thinks() bool {
	return strings.TrimSpace(m.Reasoning) != "" || m.Thought() > 0
}

// Thought returns the position of the tag that ends the reasoning at the start of a message's text; the opening tag and
// the reasoning precede it. It returns 0 if the text doesn't begin with reasoning.
func (m *Message) Thought() int {
	if m.Form != Text || !strings.HasPrefix(strings.TrimLeft(m.Text, " \n"), ThoughtStart) {
		return 0
	}
	return max(0, strings.Index(m.Text, ThoughtEnd))
}

// Says reports whether a message contains text, parts or calls, apart from any reasoning.
func (m *Message) Says() bool {
	return len(m.ToolCalls) > 0 || len(m.Parts) > 0 ||
		strings.TrimSpace(strings.TrimPrefix(m.Text[m.Thought():], ThoughtEnd)) != ""
}
