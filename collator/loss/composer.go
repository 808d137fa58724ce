package loss

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/nat-go/nat-go/internal/tensors"
	"github.com/nat-go/nat-go/kernels"
)

// composerNames maps columns to their names in files in the composer layout (collator/batch/composer.go).
var composerNames = map[string]string{
	"advantage":               "advantages",
	"student_input_ids":       "input_ids",
	"student_attention_mask":  "attention_mask",
	"teacher_input_ids":       "ctx_teacher_input_ids",
	"teacher_attention_mask":  "ctx_teacher_attention_mask",
	"chosen_input_ids":        "dpo_chosen_input_ids",
	"rejected_input_ids":      "dpo_rejected_input_ids",
	"chosen_attention_mask":   "dpo_chosen_attention_mask",
	"rejected_attention_mask": "dpo_rejected_attention_mask",
	"ref_chosen_logps":        "dpo_chosen_ref_logprobs",
	"ref_rejected_logps":      "dpo_rejected_ref_logprobs",
}

// readComposer reads the channels of a file in the composer layout.
func (d *Dump) readComposer(c *columns) error {
	c.names = composerNames
	type channel struct {
		there, logits string // names of a tensor of the channel and of its logits, which may be missing
		read          func()
	}
	channels := []channel{
		{"rewards", "logits", func() { d.readGRPO(c) }},
		{"sdpo_loss_mask", "teacher_logits", func() {
			c.made = pairsOf(c)
			if d.shared = d.GRPO != nil && !c.has("student_logits"); d.shared {
				c.names = maps.Clone(c.names)
				c.names["student_logits"] = "logits"
			}
			d.readSDPO(c)
		}},
		{"dpo_chosen_input_ids", "chosen_logits", func() {
			c.made = labelsOf(c)
			if c.has("dpo_row_weight") { // the name of row_weight in a file with all channels
				weights := c.floats("dpo_row_weight", 1)
				c.made["row_weight"] = tensors.Of("row_weight", weights, len(weights))
			}
			d.readDPO(c)
		}},
	}
	channels = slices.DeleteFunc(channels, func(x channel) bool { return !c.has(x.there) })
	several := len(channels) > 1
	for _, x := range channels {
		if !several || c.has(x.logits) {
			x.read()
		}
	}
	if c.err == nil && d.GRPO == nil && d.SDPO == nil && d.DPO == nil {
		return errors.New("no channel has logits: expected logits, teacher_logits or chosen_logits")
	}
	return c.err
}

// labelsOf builds the labels of a pair's two sides from their masks.
func labelsOf(c *columns) map[string]tensors.Tensor {
	out := map[string]tensors.Tensor{}
	for _, side := range []string{"chosen", "rejected"} {
		ids, shape := c.ints(side+"_input_ids", 2)
		mask, _ := c.ints("dpo_"+side+"_response_mask", 2)
		if c.err != nil || len(mask) != len(ids) {
			c.fail("dpo_%s_response_mask differs in size from the side's input_ids", side)
			return out
		}
		labels := slices.Clone(ids)
		for i := range labels {
			if mask[i] != 1 {
				labels[i] = kernels.IgnoreIndex
			}
		}
		out[side+"_labels"] = tensors.Of(side+"_labels", labels, shape...)
	}
	return out
}

// pairsOf builds the pair table from the mask over the teacher's positions. If the student's mask has gaps, a token has
// the same position on both sides. Otherwise, the sides are aligned at their last tokens.
func pairsOf(c *columns) map[string]tensors.Tensor {
	mask, shape := c.ints("sdpo_loss_mask", 2)
	ids, _ := c.ints("teacher_input_ids", 2)
	student, own := c.ints("student_attention_mask", 2)
	teacher, _ := c.ints("teacher_attention_mask", 2)
	rowWeight := "row_weight"
	if c.has("sdpo_row_weight") {
		rowWeight = "sdpo_row_weight"
	}
	weights := c.floats(rowWeight, 1)
	if c.err != nil || len(ids) != len(mask) || len(teacher) != len(mask) || own[0] != shape[0] ||
		weights != nil && len(weights) != shape[0] {
		c.fail("invalid sdpo_loss_mask: expected the teacher's size, and a row for each student and row weight")
		return nil
	}
	table := map[string][]int64{}
	var each []float32
	for r := range shape[0] {
		seen := student[r*own[1] : (r+1)*own[1]]
		shorter := total(teacher[r*shape[1]:(r+1)*shape[1]]) - total(seen)
		gap := slices.Contains(seen[:total(seen)], 0)
		if gap && own[1] != shape[1] || slices.ContainsFunc(seen, func(m int64) bool { return m != 0 && m != 1 }) {
			c.fail("invalid attention_mask: row %d is not 0 or 1, or has a gap but not its teacher's width", r)
			return nil
		}
		for p := range shape[1] - 1 {
			at := r*shape[1] + p
			if mask[at] != 1 {
				continue
			}
			q := p - shorter
			if gap {
				for q = p; q > 0 && seen[q] == 0; q-- { // skip the gap that ends right before the target
				}
			}
			for name, v := range map[string]int{
				"student_row": r, "student_pos": q, "teacher_row": r, "teacher_pos": p,
			} {
				table[name] = append(table[name], int64(v))
			}
			table["target_id"] = append(table["target_id"], ids[at+1])
			each = append(each, float32(weight(weights, r)))
		}
	}
	out := map[string]tensors.Tensor{"pair_weight": tensors.Of("pair_weight", each, len(each))}
	for _, name := range strings.Fields("student_row student_pos teacher_row teacher_pos target_id") {
		out["pair_"+name] = tensors.Of("pair_"+name, table[name], len(table[name]))
	}
	return out
}

func total(mask []int64) (n int) {
	for _, m := range mask {
		if m == 1 {
			n++
		}
	}
	return n
}
