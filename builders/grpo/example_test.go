package grpo_test

import (
	"context"
	"fmt"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/builders/grpo"
	"github.com/nat-go/nat-go/builders/schema"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// output prints rollouts.
type output struct{}

func (output) Record(r builders.Record) error {
	x := r.(*builders.Rollout)
	fmt.Printf("rollout %d of %s: reward %g\n", x.Example, x.Task, *x.Reward)
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

// All rollouts of a task are passed on, with their rewards.
func Example() {
	cfg := schema.New[grpo.Config]()
	cfg.NeedSpread = true
	b, err := grpo.New(cfg)
	if err != nil {
		panic(err)
	}
	g := &ttc.Group{Examples: []*ttc.Example{rollout("a", "5", 0), rollout("b", "4", 1)}}
	if err := b.Build(context.Background(), g, output{}); err != nil {
		panic(err)
	}
	// Output:
	// rollout 0 of sum: reward 0
	// rollout 1 of sum: reward 1
}
