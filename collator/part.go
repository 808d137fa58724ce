package collator

import (
	"strings"

	"github.com/nat-go/nat-go/collator/turns"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/chat/template"
)

// Part is the part of a trained turn that is in the loss.
type Part uint8

// The parts. The template's text before a part belongs to it, and the end of a turn to its last part.
const (
	WholeTurn Part = iota
	Reasoning
	Text  // without reasoning
	Calls // tool calls
	// answer is a whole turn without its reasoning; the template's text before that is in the loss.
	answer
)

// partOf is a piece of a turn that shows a part of its message.
type partOf struct {
	chat.Span
	part Part
}

// partsOf lists the pieces of a turn in the order of the text.
func (m *material) partsOf(t *turns.Turn, res *template.Result) (out []partOf) {
	thought := m.nodes[t.Message].Message.Thought()
	for _, s := range res.Spans {
		if s.Message != t.Message || s.Start < t.Start || s.Start >= t.End || s.Start == s.End {
			continue
		}
		switch {
		case turns.IsReasoning(s.Field):
			out = append(out, partOf{s.Span, Reasoning})
		case strings.HasPrefix(s.Field, "tool_calls"):
			out = append(out, partOf{s.Span, Calls})
		case s.Field == "content":
			if s.Offset < thought {
				split := min(s.End, s.Start+thought-s.Offset)
				out = append(out, partOf{chat.Span{Start: s.Start, End: split}, Reasoning})
				s.Start = split
			}
			if s.Start < s.End {
				out = append(out, partOf{s.Span, Text})
			}
		}
	}
	return out
}

// contextOf lists the bytes of a trained turn that are context because only a part of it is in the loss.
func (m *material) contextOf(t *turns.Turn, res *template.Result) (out []chat.Span) {
	if m.part == WholeTurn {
		return nil
	}
	parts, from := m.partsOf(t, res), t.Start
	for i, p := range parts {
		switch {
		case m.part == answer:
			if p.part == Reasoning {
				out = append(out, p.Span)
			}
			continue
		case i == len(parts)-1:
			p.End = t.End
		}
		if p.part != m.part {
			out = append(out, chat.Span{Start: from, End: p.End})
		}
		from = p.End
	}
	return out
}

// has reports whether a message has the part.
func (p Part) has(m *chat.Message) bool {
	switch p {
	case Reasoning:
		return m.Thinks()
	case Text:
		without := *m
		without.ToolCalls = nil
		return without.Says()
	case Calls:
		return len(m.ToolCalls) > 0
	case answer:
		return m.Says()
	}
	return m.Says() || m.Thinks()
}
