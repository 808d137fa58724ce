package collator

import (
	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/collator/batch"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// scored makes the rows of the rl channel: answers sampled by the model to be trained, with its own ids and a reward.
func (w *worker) scored(it *Item) outcome {
	nodes := it.Record.Messages.Nodes
	m := &material{nodes: nodes, trained: builders.TrainAll.Turns(nodes, nil), tools: it.Record.Origin.Tools}
	if r := w.onlyOwn(it, m); r != nil {
		return w.outcome(it, m, nil, nil, r, 1)
	}
	rows, lost, whole := w.rollout(m, fitSide(tails))
	weight := float32(1)
	if w.cfg.Weight != ByToken { // trainers that reduce per sequence treat each row as a sequence
		weight = 1 / float32(max(1, len(rows)))
	}
	out := w.outcome(it, m, rows, lost, whole, weight)
	reward := it.Record.Record.(*builders.Rollout).Reward
	for i := range out.Rows {
		s := &batch.Scored{Null: reward == nil} // group and advantage are set later, once all rollouts are known
		if reward != nil {
			s.Reward = *reward
		}
		out.Rows[i].Meta.RL = s
	}
	return out
}

// onlyOwn rejects rollouts that the rl channel can't accept.
func (w *worker) onlyOwn(it *Item, m *material) *cause {
	reward := it.Record.Record.(*builders.Rollout).Reward
	if reward != nil && !usable(*reward) {
		return refuse(ledger.NonFiniteScore, "the reward is %v: expected a finite float32", *reward)
	}
	if count(m.trained) == 0 {
		return refuse(ledger.NothingTrained, "no assistant message was sampled")
	}
	for i := range m.nodes {
		if m.trained[i] && len(m.nodes[i].TokenIDs) == 0 && !w.cfg.RenderedRollouts {
			return refuse(NoSampledIDs, "%s has no token ids", describe(i, &m.nodes[i]))
		}
	}
	p := w.onPolicy(m.nodes, m.trained, it.Record.Origin.Policy)
	if p != "same" && !(w.cfg.RenderedRollouts && p == "unknown") {
		return refuse(OffPolicy, "on_policy is %s: the rollout was sampled by %q, the model to be trained is %q",
			p, it.Record.Origin.Policy, w.cfg.Policy)
	}
	return nil
}
