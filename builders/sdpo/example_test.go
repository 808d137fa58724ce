package sdpo_test

import (
	"context"
	"fmt"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/builders/schema"
	"github.com/nat-go/nat-go/builders/sdpo"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// output prints sites.
type output struct{}

func (output) Record(r builders.Record) error {
	for _, s := range r.(*builders.Distillation).Sites {
		fmt.Printf("call %d of %s failed; hint from %s:\n%s\n", s.Call, s.Tool, s.HintSource, s.Hint)
	}
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

// A failed call is a site, and its error becomes the hint.
func Example() {
	b, err := sdpo.New(schema.New[sdpo.Config]())
	if err != nil {
		panic(err)
	}
	g := &ttc.Group{Examples: []*ttc.Example{failed()}}
	if err := b.Build(context.Background(), g, output{}); err != nil {
		panic(err)
	}
	// Output:
	// call 1 of find failed; hint from feedback:
	// A call of find was tried here before and failed: Error: order must be a string
}
