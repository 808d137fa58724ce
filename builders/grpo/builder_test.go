package grpo

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/ledger"
)

type lines []string

func (l *lines) Record(r builders.Record) error {
	x := r.(*builders.Rollout)
	reward := "none"
	if x.Reward != nil {
		reward = fmt.Sprint(*x.Reward)
	}
	*l = append(*l, fmt.Sprintf("%d to %d of %s: %s", x.Example, x.Messages.Ref.Last, x.Task, reward))
	return nil
}

func (l *lines) Drop(d ledger.Drop) error {
	*l = append(*l, fmt.Sprintf("%s %s", d.Example, d.Reason))
	return nil
}
func (l *lines) Count(string, int64) error { return nil }

func rollout(id string, reward *float64) *ttc.Example {
	return &ttc.Example{
		ID:     id,
		Task:   "t",
		Reward: reward,
		Graph: ttc.Chain([]chat.Message{
			{Role: "user", Form: chat.Text, Text: "q"},
			{Role: "assistant", Form: chat.Text, Text: id},
		}, ttc.Yes),
	}
}

func TestRollouts(t *testing.T) {
	one, zero, nan := 1.0, 0.0, math.NaN()
	branched := rollout("branched", &one)
	branched.Graph.Nodes = append(branched.Graph.Nodes, ttc.Node{
		Parent:  0,
		Message: chat.Message{Role: "assistant"},
		Sampled: ttc.Yes,
	})
	alone := rollout("alone", &one)
	alone.Task = ""
	context_ := rollout("context", &one)
	context_.Graph.Nodes[1].Sampled = ttc.No
	for name, c := range map[string]struct {
		cfg  Config
		exs  []*ttc.Example
		want lines
	}{
		"all go on, scored or not": {
			Config{MinRollouts: 1},
			[]*ttc.Example{rollout("a", &one), rollout("b", nil), rollout("c", &zero)},
			lines{"0 to 1 of t: 1", "1 to 1 of t: none", "2 to 1 of t: 0"},
		},
		"branches share the reward": {
			Config{MinRollouts: 1},
			[]*ttc.Example{branched},
			lines{"0 to 1 of t: 1", "0 to 2 of t: 1"},
		},
		"alone": {Config{MinRollouts: 1}, []*ttc.Example{alone}, lines{"0 to 1 of alone: 1"}},
		"no number, nothing sampled": {
			Config{MinRollouts: 1},
			[]*ttc.Example{rollout("a", &nan), context_},
			lines{"a non_finite_score", "context nothing_to_train"},
		},
		"unscored ones are left out": {
			Config{MinRollouts: 1, NeedReward: true},
			[]*ttc.Example{rollout("a", nil)},
			lines{"a no_reward"},
		},
		"too few scored: all are left": {
			Config{MinRollouts: 2},
			[]*ttc.Example{rollout("a", &one), rollout("b", nil)},
			lines{"a few_rollouts", "b few_rollouts"},
		},
		"equal rewards": {
			Config{MinRollouts: 1, NeedSpread: true},
			[]*ttc.Example{rollout("a", &one), rollout("b", &one), rollout("c", nil)},
			lines{"a equal_rewards", "b equal_rewards", "c equal_rewards"},
		},
		"some spread": {
			Config{MinRollouts: 2, NeedSpread: true},
			[]*ttc.Example{rollout("a", &one), rollout("b", &zero)},
			lines{"0 to 1 of t: 1", "1 to 1 of t: 0"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.cfg.Leaks = "drop"
			b, err := New(c.cfg)
			if err != nil {
				t.Fatal(err)
			}
			var got lines
			if err := b.Build(context.Background(), &ttc.Group{Examples: c.exs}, &got); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("%s: %s", name, d)
			}
		})
	}
	if _, err := New(Config{}); err == nil {
		t.Error("min_rollouts of 0")
	}
}
