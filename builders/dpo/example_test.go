package dpo_test

import (
	"context"
	"fmt"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/builders/dpo"
	"github.com/nat-go/nat-go/builders/schema"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// output prints the texts of pairs.
type output struct{ group *ttc.Group }

func (o output) Record(r builders.Record) error {
	pair := r.(*builders.Preference)
	chosen, err := builders.Resolve(o.group, pair.Chosen)
	if err != nil {
		return err
	}
	rejected, err := builders.Resolve(o.group, pair.Rejected)
	fmt.Printf("%q rather than %q, reward %.1f\n", chosen.Text, rejected.Text, pair.Reward)
	return err
}

func (output) Drop(d ledger.Drop) error {
	fmt.Println("dropped", d.Example, d.Reason)
	return nil
}

func (output) Count(string, int64) error { return nil }

// The best answer to a prompt is paired with the worst.
func Example() {
	cfg := schema.New[dpo.Config]()
	cfg.StepName, cfg.Strategy = "answer", "best_vs_worst"
	b, err := dpo.New(cfg)
	if err != nil {
		panic(err)
	}
	answer := func(text string, score float64) ttc.Candidate {
		return ttc.Candidate{Step: "answer", Turn: "first", Output: text, Score: score}
	}
	g := &ttc.Group{Examples: []*ttc.Example{
		{ID: "sum", Candidates: []ttc.Candidate{answer("5", 0.1), answer("4", 0.9)}},
	}}
	if err := b.Build(context.Background(), g, output{g}); err != nil {
		panic(err)
	}
	// Output:
	// "4" rather than "5", reward 0.8
}
