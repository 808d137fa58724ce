package divergence

import (
	"fmt"
	"testing"

	"github.com/nat-go/nat-go/pairs"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
)

// TestSetups: rollouts that share more than texts are compared, and those whose texts differ are not even looked at.
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
	compared := 0
	same := func(a, b []*ttc.Node) bool {
		compared++
		return pairs.SameSetup(a, b)
	}
	got := ""
	for _, set := range setups(all, begins, same) {
		got += fmt.Sprint(len(set), " ")
	}
	if want := "2 1 1 2 1 "; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	all, compared = nil, 0
	for i := range 1000 {
		all = append(all, begin(chat.Message{Text: fmt.Sprint("text ", i)}))
	}
	if sets := setups(all, begins, same); len(sets) != 1000 || compared > 0 {
		t.Errorf("%d setups, compared %d times", len(sets), compared)
	}
}
