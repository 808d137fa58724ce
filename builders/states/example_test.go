package states_test

import (
	"context"
	"fmt"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/builders/schema"
	"github.com/nat-go/nat-go/builders/states"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// output prints states.
type output struct{}

func (output) Record(r builders.Record) error {
	s := r.(*builders.State)
	at, _ := s.Metadata.Get("at")
	fmt.Printf("a prompt of task %s that ends before message %d; class of its error: %s\n",
		s.Task, s.Messages.Ref.Last+1, at)
	return nil
}

func (output) Drop(d ledger.Drop) error {
	fmt.Println("dropped", d.Example, d.Reason)
	return nil
}

func (output) Count(string, int64) error { return nil }

// failed returns a rollout whose first call fails.
func failed() *ttc.Example {
	call := func(args string) chat.Message {
		return chat.Message{Role: "assistant", Form: chat.Null, ToolCalls: []chat.ToolCall{
			{ID: args, Name: "find", Arguments: args, Parsed: json.Raw(args)},
		}}
	}
	return &ttc.Example{ID: "a", Task: "order", Graph: ttc.Chain([]chat.Message{
		{Role: "user", Form: chat.Text, Text: "Where is order 7?"},
		call(`{"order": 7}`),
		{Role: "tool", Form: chat.Text, Text: "Error: order must be a string", ToolCallID: `{"order": 7}`},
		call(`{"order": "7"}`),
		{Role: "tool", Form: chat.Text, Text: "in transit", ToolCallID: `{"order": "7"}`},
		{Role: "assistant", Form: chat.Text, Text: "It is on its way."},
	}, ttc.Yes)}
}

// The messages before a failed call are a prompt to sample from.
func Example() {
	cfg := schema.New[states.Config]()
	cfg.At = []string{"failed_calls"}
	b, err := states.New(cfg)
	if err != nil {
		panic(err)
	}
	g := &ttc.Group{Examples: []*ttc.Example{failed()}}
	if err := b.Build(context.Background(), g, output{}); err != nil {
		panic(err)
	}
	// Output:
	// a prompt of task order that ends before message 1; class of its error: "message"
}
