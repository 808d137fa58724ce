package divergence_test

import (
	"context"
	"fmt"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/builders/divergence"
	"github.com/nat-go/nat-go/builders/schema"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// output prints pairs.
type output struct{ group *ttc.Group }

func (o output) Record(r builders.Record) error {
	pair := r.(*builders.Preference)
	chosen, err := builders.Resolve(o.group, pair.Chosen)
	if err != nil {
		return err
	}
	rejected, err := builders.Resolve(o.group, pair.Rejected)
	if err != nil {
		return err
	}
	fmt.Printf("%q rather than %q\n", chosen.Nodes[0].Message.Text, rejected.Nodes[0].Message.Text)
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

// Two rollouts of a task differ in the answer, so the answers are paired.
func Example() {
	b, err := divergence.New(schema.New[divergence.Config]())
	if err != nil {
		panic(err)
	}
	g := &ttc.Group{Examples: []*ttc.Example{rollout("a", "5", 0), rollout("b", "4", 1)}}
	if err := b.Build(context.Background(), g, output{g}); err != nil {
		panic(err)
	}
	// Output:
	// "4" rather than "5"
}
