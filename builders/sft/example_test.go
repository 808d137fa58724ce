package sft_test

import (
	"context"
	"fmt"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/builders/schema"
	"github.com/nat-go/nat-go/builders/sft"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// output prints demonstrations.
type output struct{ group *ttc.Group }

func (o output) Record(r builders.Record) error {
	shown := r.(*builders.Demonstration)
	p, err := builders.Resolve(o.group, shown.Messages)
	if err != nil {
		return err
	}
	for _, n := range p.Nodes {
		fmt.Printf("%s: %s\n", n.Message.Role, n.Message.Text)
	}
	return nil
}

func (output) Drop(d ledger.Drop) error {
	fmt.Println("dropped", d.Example, d.Reason)
	return nil
}

func (output) Count(string, int64) error { return nil }

// rollout returns an answer to a question, with its reward.
func rollout(id, answer string, reward float64) *ttc.Example {
	return &ttc.Example{ID: id, Task: "sum", Reward: &reward, Graph: ttc.Chain([]chat.Message{
		{Role: "user", Form: chat.Text, Text: "2 + 2?"},
		{Role: "assistant", Form: chat.Text, Text: answer},
	}, ttc.Yes)}
}

// The best rollout of a task is imitated.
func Example() {
	b, err := sft.New(schema.New[sft.Config]())
	if err != nil {
		panic(err)
	}
	g := &ttc.Group{Examples: []*ttc.Example{rollout("a", "5", 0), rollout("b", "4", 1)}}
	if err := b.Build(context.Background(), g, output{g}); err != nil {
		panic(err)
	}
	// Output:
	// dropped a failed_task
	// user: 2 + 2?
	// assistant: 4
}
