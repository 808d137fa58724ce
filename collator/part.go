package collator

import (
	"strings"

	"github.com/nat-go/nat-go/collator/turns"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/chat/template"
)

// part selects which part of a trained turn is in the loss.
type part uint8

// The parts of a turn. Template text before a part belongs to that part; text at the end of a turn belongs to its last
// part.
const (
	wholeTurn part = iota
	reasoning
	text  // the content, apart from any reasoning
	calls // tool calls
	// answer is a whole turn without its reasoning; the template's text before the reasoning is in the loss.
	answer
)

// hintParts maps the values of Config.HintSpan to parts.
var hintParts = map[string]part{"": wholeTurn, "turn": wholeTurn, "reasoning": reasoning, "text": text, "call": calls}

// partOf is a piece of a turn that renders one part of its message.
type partOf struct {
	chat.Span
	part part
}

// partsOf lists the pieces of a turn in text order.
func (m *material) partsOf(t *turns.Turn, res *template.Result) (out []partOf) {
	thought := m.nodes[t.Message].Message.Thought()
	for _, s := range res.Spans {
		if s.Message != t.Message || s.Start < t.Start || s.Start >= t.End || s.Start == s.End {
			continue
		}
		switch {
		case turns.IsReasoning(s.Field):
			out = append(out, partOf{s.Span, reasoning})
		case strings.HasPrefix(s.Field, "tool_calls"):
			out = append(out, partOf{s.Span, calls})
		case s.Field == "content":
			if s.Offset < thought {
				split := min(s.End, s.Start+thought-s.Offset)
				out = append(out, partOf{chat.Span{Start: s.Start, End: split}, reasoning})
				s.Start = split
			}
			if s.Start < s.End {
				out = append(out, partOf{s.Span, text})
			}
		}
	}
	return out
}

// contextOf lists the byte ranges of a trained turn that are context because only a part of it is in the loss.
func (m *material) contextOf(t *turns.Turn, res *template.Result) (out []chat.Span) {
	if m.part == wholeTurn {
		return nil
	}
	parts, from := m.partsOf(t, res), t.Start
	for i, p := range parts {
		switch {
		case m.part == answer:
			if p.part == reasoning {
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
func (p part) has(m *chat.Message) bool {
	switch p {
	case reasoning:
		return m.Thinks()
	case text:
		without := *m
		without.ToolCalls = nil
		return without.Says()
	case calls:
		return len(m.ToolCalls) > 0
	case answer:
		return m.Says()
	}
	return m.Says() || m.Thinks()
}
