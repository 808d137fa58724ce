package host

import (
	"strings"
	"testing"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
)

// chainOf returns a group of one example: a conversation of n messages of a thousand bytes.
func chainOf(n int) *ttc.Group {
	messages := make([]chat.Message, n)
	for i := range messages {
		messages[i] = chat.Message{Role: "user", Text: strings.Repeat("x", 1000)}
	}
	return &ttc.Group{Key: "g", Examples: []*ttc.Example{{Graph: ttc.Chain(messages, ttc.No)}}}
}

// TestSpans checks that what records refer to is counted as it is once it is resolved: each span once, without what it
// skips.
func TestSpans(t *testing.T) {
	g := chainOf(100)
	one := nodeBytes(&g.Examples[0].Graph.Nodes[0])
	if one < 1000 {
		t.Fatalf("a message takes %d bytes", one)
	}
	span := func(last, skip int) builders.Content {
		return builders.Content{Ref: builders.Ref{Part: builders.NodeSpan, Last: last, Skip: skip}}
	}
	pair := &builders.Preference{Prompt: span(49, 0), Chosen: span(59, 50), Rejected: span(99, 90)}
	s := spans{group: g}
	for range 3 {
		s.add(pair)
	}
	s.add(&builders.Demonstration{Messages: span(9, 9)})
	s.add(&builders.Rollout{Messages: span(0, 0)})
	s.add(&builders.Distillation{Messages: span(1, 0)})
	s.add(&builders.Demonstration{Messages: builders.Content{Ref: builders.Ref{Part: builders.InlineText}}})
	if want := one * (50 + 10 + 10 + 1 + 1 + 2); s.bytes != want {
		t.Errorf("%d bytes, want %d", s.bytes, want)
	}
	if err := s.check(int(s.bytes), "it"); err != nil {
		t.Error(err)
	}
	if err := s.check(int(s.bytes)-1, "limits.output"); err == nil || !strings.Contains(err.Error(), "limits.output") {
		t.Error(err)
	}
}
