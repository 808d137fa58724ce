package divergence

import (
	"fmt"
	"testing"

	"github.com/nat-go/nat-go/pairs"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
)

// TestSetups checks that rollouts are grouped by all of their first messages, not only by the texts, and by their tools.
func TestSetups(t *testing.T) {
	begin := func(m chat.Message, tools ...chat.Tool) *rollout {
		return &rollout{ex: &ttc.Example{Tools: tools}, nodes: []*ttc.Node{
			{Message: m}, {Message: chat.Message{Role: "assistant"}, Sampled: ttc.Yes},
		}}
	}
	call := func(id, name string) chat.Message {
		return chat.Message{Text: "a", ToolCalls: []chat.ToolCall{{ID: id, Name: name}}}
	}
	all := []*rollout{
		begin(call("1", "f")), begin(call("1", "g")), begin(call("2", "f")), begin(call("2", "g"), chat.Tool{Name: "g"}),
		begin(chat.Message{Text: "a"}), begin(chat.Message{Parts: []chat.Part{{Text: "a"}}}), begin(chat.Message{Text: "a"}),
	}
	got := ""
	for _, set := range setups(all, pairs.SameSetup) {
		got += fmt.Sprint(len(set), " ")
	}
	if want := "2 1 1 2 1 "; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
