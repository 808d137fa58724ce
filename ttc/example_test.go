package ttc_test

import (
	"fmt"

	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
)

// A conversation is a graph with one branch; only what the model sampled may be trained.
func ExampleChain() {
	g := ttc.Chain([]chat.Message{
		{Role: "user", Form: chat.Text, Text: "2 + 2?"},
		{Role: "assistant", Form: chat.Text, Text: "4"},
	}, ttc.Yes)
	for _, i := range g.Branch(g.Leaves()[0]) {
		n := &g.Nodes[i]
		fmt.Println(n.Message.Role, n.Message.Text, n.Sampled == ttc.Yes)
	}
	// Output:
	// user 2 + 2? false
	// assistant 4 true
}
