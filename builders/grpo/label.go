package grpo

import (
	"fmt"

	"github.com/nat-go/nat-go/builders/internal/emit"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/json"
)

// scoredOf returns the scores of a group's rollouts.
func scoredOf(g *ttc.Group) (s scored) {
	for _, ex := range g.Examples {
		if isScored(ex) {
			s.add(*ex.Reward)
		}
	}
	return s
}

// scored accumulates the scores of a task's rollouts.
type scored struct {
	scale  ttc.Scale
	n, sum float64
}

func (s *scored) add(score float64) {
	s.scale.Add(score)
	s.n, s.sum = s.n+1, s.sum+score
}

// label reports whether a score is good. If GoodFrom is set, a score of at least GoodFrom is good. Otherwise, if
// the input's scores are all 0 or 1, a score of 1 is good; if they aren't, a score above its task's mean is good. known
// is false if that mean is the score of every rollout of the task.
func (b *Builder) label(score float64, task *scored, all ttc.Scale) (good, known bool) {
	switch {
	case b.cfg.GoodFrom != nil:
		return score >= *b.cfg.GoodFrom, true
	case !all.Graded:
		return score == 1, true
	}
	return score > task.sum/task.n, task.scale.Low != task.scale.High
}

// metadata records whether a rollout is good, for formats that label answers.
func metadata(good, known bool) json.Raw {
	if !known {
		return nil
	}
	return fmt.Appendf(nil, `{"label": %v}`, good)
}

func countLabel(good, known bool, out *emit.Output) {
	switch {
	case known && good:
		out.Count("labels/good", 1)
	case known:
		out.Count("labels/bad", 1)
	}
}
