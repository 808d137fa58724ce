package builders_test

import (
	"testing"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
)

// TestMessagesNeedNoForm: a message that a builder writes with a text or with parts has them, whether or not it says
// so.
func TestMessagesNeedNoForm(t *testing.T) {
	given := []chat.Message{
		{Role: "user", Text: "q"},
		{Role: "user", Parts: []chat.Part{{Type: "text", Text: "q"}}},
		{Role: "assistant", ToolCalls: []chat.ToolCall{{Name: "f"}}},
		{Role: "assistant", Form: chat.Null, Text: "x"},
	}
	g := &ttc.Group{Examples: []*ttc.Example{{ID: "a"}}}
	r, err := builders.ResolveRecord(g, &builders.Demonstration{
		Messages: builders.Content{Ref: builders.Ref{Part: builders.InlineMessages}, Messages: given},
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []chat.Form{chat.Text, chat.Parts, chat.Absent, chat.Null} {
		if got := r.Messages.Nodes[i].Message.Form; got != want {
			t.Errorf("message %d: form %d, want %d", i, got, want)
		}
	}
	if given[0].Form != chat.Absent {
		t.Error("the builder's own message was changed")
	}
	if _, err := builders.ResolveRecord(g, &builders.Rollout{Head: builders.Head{Example: 3}}); err == nil {
		t.Error("an example that isn't there")
	}
}
