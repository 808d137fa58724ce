package collator

import (
	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/collator/batch"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// demonstration makes the rows of the sft channel.
func (w *worker) demonstration(it *Item) outcome {
	d := it.Record.Record.(*builders.Demonstration)
	nodes := it.Record.Messages.Nodes
	m := &material{
		nodes: nodes, trained: d.Train.Turns(nodes, d.Trained), tools: it.Record.Origin.Tools,
	}
	if d.MaskReasoning {
		m.part = answer
	}
	n := count(m.trained)
	if n == 0 {
		return refused(refuse(ledger.NothingTrained, "none of %d messages is a sampled assistant message that the loss policy trains", len(nodes)))
	}
	rows, lost, whole := w.rollout(m, fitSide(blocks))
	out := w.outcome(it, m, rows, lost, whole, w.rowWeight(rows, d.Weight))
	for i := range out.Rows {
		out.Rows[i].Sides[0].LogProbs = nil // sft doesn't use log-probs
	}
	return out
}

// rowWeight returns the weight of each token in the rows of one record.
func (w *worker) rowWeight(rows []madeSide, weight float64) float32 {
	if w.cfg.Weight == ByToken {
		return float32(weight)
	}
	tokens := 0
	for i := range rows {
		tokens += rows[i].Active()
	}
	return float32(weight / float64(max(1, tokens)))
}

// outcome makes the rows of one conversation, with the given weight for each token.
func (w *worker) outcome(it *Item, m *material, rows []madeSide, lost []cause, whole *cause, weight float32) outcome {
	out := outcome{counts: counts{Refused: whole, Turns: count(m.trained), TurnDrops: lost}}
	if whole != nil {
		// A turn without its own reason gets the record's.
		for len(out.TurnDrops) < out.Turns {
			out.TurnDrops = append(out.TurnDrops, *whole)
		}
		return out
	}
	for i := range rows {
		r := batch.Row{Weight: weight, Sides: []batch.Side{rows[i].Side}}
		r.Meta = w.meta(it, m.nodes, m.trained)
		r.Meta.Part = i
		out.addOmissions(rows[i].left)
		w.describeSide(&r.Meta, &rows[i], it.Record)
		r.Meta.Sampling = sampling(it.Record.Origin.Sampling, rows[i].sampled)
		out.Rows = append(out.Rows, r)
	}
	return out
}
