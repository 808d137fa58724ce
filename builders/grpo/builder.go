package grpo

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/builders/schema"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// Info describes the builder.
func Info() builders.Info {
	return builders.Info{
		Name: "grpo_traj_builder", Version: "1.0.0", Stability: "stable",
		Doc:  "rollouts with their rewards, grouped by task; scored answers to one prompt are rollouts of one turn",
		Unit: builders.UnitTask, Kinds: []builders.Kind{builders.KindRollout}, Config: new(Config),
	}
}

// Builder passes on rollouts. Build may be called concurrently.
type Builder struct{ cfg Config }

var _ builders.Builder = (*Builder)(nil)

// New returns a builder, or an error that explains why its configuration is invalid.
func New(cfg Config) (*Builder, error) {
	if err := schema.Validate(&cfg); err != nil {
		return nil, err
	}
	return &Builder{cfg}, nil
}

// Build emits a record for each branch of each rollout of the task, and for each scored answer.
func (b *Builder) Build(ctx context.Context, g *ttc.Group, out builders.Output) error {
	task, detail := b.judge(g)
	answers := b.answersOf(g)
	good := b.labels(g)
	for e, ex := range g.Examples {
		if err := ctx.Err(); err != nil {
			return err
		}
		if len(ex.Graph.Nodes) == 0 && len(ex.Candidates) > 0 {
			if err := answers.emit(g, e, out); err != nil {
				return err
			}
			continue
		}
		why, what := task, detail
		if why == "" {
			why, what = b.rollout(ex)
		}
		if why != "" {
			d := builders.NewDrop(ex, "example", why)
			d.Detail = what
			if err := out.Drop(d); err != nil {
				return err
			}
			continue
		}
		label, known := good(ex)
		if err := countLabel(label, known, out); err != nil {
			return err
		}
		if err := emit(g, e, metadata(label, known), out); err != nil {
			return err
		}
	}
	return nil
}

// judge returns the reason to drop a whole task, if there is one.
func (b *Builder) judge(g *ttc.Group) (why ledger.Reason, detail string) {
	scored, equal, first := 0, true, 0.0
	for _, ex := range g.Examples {
		if !isScored(ex) {
			continue
		}
		if scored++; scored == 1 {
			first = *ex.Reward
		}
		equal = equal && *ex.Reward == first
	}
	switch {
	case scored < b.cfg.MinRollouts && b.cfg.MinRollouts > 1:
		return fewRollouts, fmt.Sprintf("%d scored rollouts; min_rollouts is %d", scored, b.cfg.MinRollouts)
	case b.cfg.NeedSpread && equal:
		return equalRewards, fmt.Sprintf("%d scored rollouts", scored)
	}
	return "", ""
}

// rollout returns the reason to exclude a rollout from its task, if there is one.
func (b *Builder) rollout(ex *ttc.Example) (why ledger.Reason, detail string) {
	switch {
	case !sampled(&ex.Graph):
		return ledger.NothingTrained, ""
	case ex.Reward != nil && !isScored(ex):
		return ledger.NonFiniteScore, fmt.Sprintf("reward %v", *ex.Reward)
	case ex.Reward == nil && b.cfg.NeedReward:
		return ledger.NoReward, ""
	}
	return "", ""
}

func isScored(ex *ttc.Example) bool {
	return ex.Reward != nil && !math.IsNaN(*ex.Reward) && !math.IsInf(*ex.Reward, 0)
}

func sampled(g *ttc.Graph) bool {
	return slices.ContainsFunc(g.Nodes, func(n ttc.Node) bool {
		return n.Message.Role == "assistant" && n.Sampled != ttc.No
	})
}

func emit(g *ttc.Group, e int, about json.Raw, out builders.Output) error {
	ex := g.Examples[e]
	task := cmp.Or(ex.Task, ex.ID)
	for _, leaf := range ex.Graph.Leaves() {
		if err := out.Record(&builders.Rollout{
			Head:     builders.Head{Example: e, Metadata: about},
			Messages: builders.Content{Ref: builders.Ref{Part: builders.NodeSpan, Example: e, Last: leaf}},
			Reward:   ex.Reward, Task: task,
		}); err != nil {
			return err
		}
	}
	return nil
}
