package grpo

import (
	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/json"
)

// labels returns what says whether a rollout of the task is good; known is false if nothing does: it has no reward, or
// all rollouts of its task have the same, which is then neither above nor below their mean.
func (b *Builder) labels(g *ttc.Group) func(*ttc.Example) (good, known bool) {
	var own ttc.Scale
	n, sum := 0.0, 0.0
	for _, ex := range g.Examples {
		if isScored(ex) {
			own.Add(*ex.Reward)
			n, sum = n+1, sum+*ex.Reward
		}
	}
	all := own
	if g.Scales != nil {
		all = g.Scales.Rewards
	}
	return func(ex *ttc.Example) (good, known bool) {
		switch {
		case !isScored(ex):
			return false, false
		case b.cfg.GoodFrom != nil:
			return *ex.Reward >= *b.cfg.GoodFrom, true
		case !all.Graded:
			return *ex.Reward == 1, true
		}
		return *ex.Reward > sum/n, own.Low != own.High
	}
}

// metadata says whether a rollout is good, for formats that label answers.
func metadata(good, known bool) json.Raw {
	switch {
	case !known:
		return nil
	case good:
		return json.Raw(`{"label": true}`)
	}
	return json.Raw(`{"label": false}`)
}

func countLabel(good, known bool, out builders.Output) error {
	switch {
	case !known:
		return nil
	case good:
		return out.Count("labels/good", 1)
	}
	return out.Count("labels/bad", 1)
}
