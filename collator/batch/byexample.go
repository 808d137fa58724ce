package batch

import (
	"slices"
	"strconv"

	"github.com/nat-go/nat-go/internal/tensors"
)

// A step file with a row for each example combines a rollout's row of the rl channel with its row of the sdpo channel,
// in example order, as the reference composite trainer's collator does:
//
//	input_ids attention_mask position_ids response_mask          [B,T]  a rollout, padded where its teacher has a hint
//	rewards advantages reward_null group row_...                 [B]
//	old_logprobs                                                 [B,T]  if the rollouts have them
//	ctx_teacher_ + the first three, sdpo_loss_mask               [B,T]  the rollout with its hints; if there are hints
//	sdpo_row_weight                                              [B]    weight of a masked position; 0 without hints
//	dpo_...                                                      as in the other step files

// exampleColumns appends the rollouts' columns, and their teachers' masks and weights.
func exampleColumns(dst []tensors.Tensor, a *assembly) []tensors.Tensor {
	dst = rolloutColumns(dst, a)
	return append(dst, a.lossMask(), a.floats("sdpo_row_weight", hintWeight))
}

// hintWeight returns the weight of each pair in a row made by combine, or 0 for a row without sites.
func hintWeight(r *Row) float32 {
	if len(r.Meta.Sites) == 0 {
		return 0
	}
	return r.Meta.Sites[0].Weight
}

// hints finds the sdpo row that belongs to a rollout. The two rows come from different records of the same example.
type hints map[string][]*Row

func exampleKey(m *Meta) string { return strconv.Itoa(m.Run) + "/" + m.Example }

// add adds a row of the sdpo channel.
func (h hints) add(r *Row) { h[exampleKey(&r.Meta)] = append(h[exampleKey(&r.Meta)], r) }

// take removes and returns the sdpo row that belongs to a rollout, or nil if the rollout has none. A rollout that was
// cut at a different position than its sdpo row has none, because the two rows begin differently.
func (h hints) take(rollout *Row) *Row {
	key, ids := exampleKey(&rollout.Meta), rollout.Sides[0].IDs
	i := slices.IndexFunc(h[key], func(r *Row) bool {
		student := r.Sides[0].IDs
		return len(r.Sides) == 2 && len(student) <= len(ids) && slices.Equal(student, ids[:len(student)])
	})
	if i < 0 {
		return nil
	}
	found := h[key][i]
	h[key] = slices.Delete(h[key], i, i+1)
	return found
}

// combine pairs each rollout with its teacher. A rollout without an sdpo row serves as its own teacher.
func (h hints) combine(rollouts []*Row) []*Row {
	out := make([]*Row, len(rollouts))
	for i, r := range rollouts {
		both := *r
		both.Meta.Sites, both.Sides = nil, []Side{r.Sides[0], {IDs: r.Sides[0].IDs}}
		if s := h.take(r); s != nil {
			rest := r.Sides[0].IDs[len(s.Sides[0].IDs):] // an sdpo row ends with its last target
			both.Sides[1] = Side{IDs: slices.Concat(s.Sides[1].IDs, rest), Trained: s.Sides[1].Trained}
			both.Meta.Sites = slices.Clone(s.Meta.Sites)
			for k := range both.Meta.Sites { // all of a row's sites have the same weight
				both.Meta.Sites[k].Weight = s.Weight
			}
		}
		out[i] = &both
	}
	return out
}

// exampleTensors makes the tensors of a step file except those of its pairs. Without hints, the file has no teacher
// columns.
func exampleTensors(rows []*Row, form Form, pad int64) []tensors.Tensor {
	if !slices.ContainsFunc(rows, func(r *Row) bool { return len(r.Meta.Sites) > 0 }) {
		return assemble(RL, rows, Composer, form.forChannel(RL, Composer), pad)
	}
	form = form.forChannel(SDPO, Composer)
	form.EqualWidth = true
	return assemble(examples, rows, Composer, form, pad)
}
