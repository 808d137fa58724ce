package chat

import (
	"bytes"
	"slices"
)

// Equal reports whether two messages are the same in all fields, with raw values compared byte for byte. Parsed is
// ignored, because it is derived from Arguments.
func Equal(a, b *Message) bool {
	return a.Role == b.Role && a.Form == b.Form && a.Text == b.Text && a.Name == b.Name &&
		a.ToolCallID == b.ToolCallID &&
		a.Reasoning == b.Reasoning && a.ReasoningKey == b.ReasoningKey &&
		slices.EqualFunc(a.Parts, b.Parts, equalParts) &&
		slices.EqualFunc(a.ToolCalls, b.ToolCalls, equalCalls) &&
		slices.EqualFunc(a.Extra, b.Extra, equalMembers)
}

func equalParts(a, b Part) bool {
	return a.Type == b.Type && a.Text == b.Text && bytes.Equal(a.Raw, b.Raw)
}

func equalCalls(a, b ToolCall) bool {
	return a.ID == b.ID && a.Type == b.Type && a.Name == b.Name && a.Arguments == b.Arguments &&
		a.AsObject == b.AsObject &&
		slices.EqualFunc(a.Extra, b.Extra, equalMembers)
}

func equalMembers(a, b Member) bool { return a.Key == b.Key && bytes.Equal(a.Value, b.Value) }
