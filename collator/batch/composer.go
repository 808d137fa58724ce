package batch

import (
	"fmt"
	"strings"
)

// The composer layout has the names of the reference composite trainer, for a trainer that reads those:
//
//	rl    input_ids attention_mask position_ids response_mask rewards advantages [old_logprobs]
//	sdpo  input_ids attention_mask position_ids response_mask, ctx_teacher_ with the first three, sdpo_loss_mask
//	dpo   dpo_chosen_ and dpo_rejected_ with the same three and response_mask,
//	      [dpo_chosen_ref_logprobs dpo_rejected_ref_logprobs]
//
// and reward_null, group and the row_ columns beside them, for which that trainer has no names. An sdpo row is one
// site: both sides end with its target and differ by the hint alone. sdpo_loss_mask is 0 or 1, of the teacher's shape,
// and on where the logits predict the target; the student's logits for the same token are as far from its row's end. In
// a form of equal width the student is padded where the teacher has the hint, so that both stand at the same position:
// no token attends to that padding, and position_ids count without it, so that it changes nothing.

// lossMask is what stands for the pair table.
const lossMask = "sdpo_loss_mask"

// IsComposer says whether a batch is in the composer layout, by the names of its tensors.
func IsComposer(has func(name string) bool) bool {
	return has(lossMask) || has("dpo_chosen_input_ids") || has("rewards")
}

// composerName is the name in the composer layout of a tensor of the padded one.
func composerName(c *Channel, name string) string {
	switch c {
	case RL:
		switch name {
		case "reward", "advantage":
			return name + "s"
		}
	case SDPO:
		if own, ok := strings.CutPrefix(name, "student_"); ok {
			return own
		}
		if strings.HasPrefix(name, "teacher_") {
			return "ctx_" + name
		}
	case DPO:
		if ref, ok := strings.CutPrefix(name, "ref_"); ok {
			return "dpo_" + strings.TrimSuffix(ref, "logps") + "ref_logprobs"
		}
		if strings.HasPrefix(name, "chosen_") || strings.HasPrefix(name, "rejected_") {
			return "dpo_" + strings.Replace(name, "labels", "response_mask", 1)
		}
	}
	return name
}

// oneSite checks that an sdpo row is about one site: the layout can't say more.
func oneSite(r *Row) error {
	if len(r.Meta.Sites) != 1 || len(r.Sides) != 2 {
		return fmt.Errorf("a row of %d sites and %d teachers: the composer layout has one row per site", len(r.Meta.Sites), len(r.Sides)-1)
	}
	if s := r.Meta.Sites[0]; len(r.Sides[0].IDs)+int(s.Hint) != len(r.Sides[1].IDs) {
		return fmt.Errorf("student and teacher of site %d don't end together", s.Site)
	}
	return nil
}
