package grpo

import (
	"cmp"
	"context"
	"fmt"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/builders/internal/emit"
	"github.com/nat-go/nat-go/builders/schema"
	"github.com/nat-go/nat-go/ttc"
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

// New returns a builder, or an error that explains why its configuration is invalid.
func New(cfg Config) (*Builder, error) {
	b := &Builder{cfg}
	return b, schema.Validate(&b.cfg)
}

// Build emits a record for each branch of each rollout of the task, and for each scored answer.
func (b *Builder) Build(ctx context.Context, g *ttc.Group, to builders.Output) error {
	out := &emit.Output{To: to}
	own := scoredOf(g)
	all := own.scale
	if g.Scales != nil {
		all = g.Scales.Rewards
	}
	task, detail := b.judge(&own, "rollouts")
	answers := b.answersOf(g, out)
	for e, ex := range g.Examples {
		if out.Over(ctx) {
			break
		}
		if len(ex.Graph.Nodes) == 0 && len(ex.Candidates) > 0 {
			answers.emit(g, e, out)
			continue
		}
		why, what := task, detail
		if why == "" {
			why, what = b.rollout(ex)
		}
		if why != "" {
			d := builders.NewDrop(ex, "example", why)
			d.Detail = what
			out.Drop(d)
			continue
		}
		label, known := false, isScored(ex)
		if known {
			label, known = b.label(*ex.Reward, &own, all)
		}
		countLabel(label, known, out)
		for _, leaf := range ex.Graph.Leaves() {
			out.Record(&builders.Rollout{
				Head:     builders.Head{Example: e, Metadata: metadata(label, known)},
				Messages: emit.Span(e, leaf, 0),
				Reward:   ex.Reward, Task: cmp.Or(ex.Task, ex.ID),
			})
		}
	}
	return out.Err
}

// judge returns the reason to drop all rollouts of a task, or all answers to a prompt, if there is one.
func (b *Builder) judge(s *scored, what string) (why ledger.Reason, detail string) {
	switch {
	case int(s.n) < b.cfg.MinRollouts && b.cfg.MinRollouts > 1:
		return fewRollouts, fmt.Sprintf("%d scored %s; min_rollouts is %d", int(s.n), what, b.cfg.MinRollouts)
	case b.cfg.NeedSpread && s.scale.Low == s.scale.High:
		return equalRewards, fmt.Sprintf("%d scored %s", int(s.n), what)
	}
	return "", ""
}

// rollout returns the reason to drop a rollout from its task, if there is one.
func (b *Builder) rollout(ex *ttc.Example) (why ledger.Reason, detail string) {
	switch {
	case !emit.HasTurn(&ex.Graph):
		return ledger.NothingTrained, ""
	case ex.Reward != nil && !isScored(ex):
		return ledger.NonFiniteScore, fmt.Sprintf("reward %v", *ex.Reward)
	case ex.Reward == nil && b.cfg.NeedReward:
		return ledger.NoReward, ""
	}
	return "", ""
}

func isScored(ex *ttc.Example) bool { return ex.Reward != nil && emit.Finite(*ex.Reward) }
