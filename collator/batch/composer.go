package batch

import (
	"fmt"
	"strings"
)

// The composer layout uses the names of the reference composite trainer, for trainers that read those names:
//
// 	rl    input_ids attention_mask position_ids response_mask rewards advantages [old_logprobs]
// 	sdpo  input_ids attention_mask position_ids response_mask, ctx_teacher_ + the first three, sdpo_loss_mask
// 	dpo   dpo_chosen_ and dpo_rejected_ + the same three and response_mask,
// 	      [dpo_chosen_ref_logprobs dpo_rejected_ref_logprobs]
//
// It also has reward_null, group and the row_ columns, which that trainer does not use. An sdpo row is one site. If
// hints accumulate, which requires a form with EqualWidth, it is all sites in a rollout's row. Both sides end with the
// last target and differ only in the hints. sdpo_loss_mask has the teacher's shape. It is 1 where the logits predict
// the target, and 0 elsewhere, or the ignore index with SignedMask. The student's logits for the same token are at the
// same distance from the end of its row. In a form with EqualWidth, the student is padded where the teacher has a hint,
// so a token's position is the same on both sides. No token attends to that padding, and position_ids skip it, so it
// has no effect.

// lossMask is the name of the tensor that replaces the pair table.
const lossMask = "sdpo_loss_mask"

// IsComposer reports whether a batch is in the composer layout, judging by the names of its tensors.
func IsComposer(has func(name string) bool) bool {
	return has(lossMask) || has("dpo_chosen_input_ids") || has("rewards")
}

// composerName maps a tensor's name in the padded layout to its name in the composer layout.
func composerName(c *Channel, name string) string {
	if name == "reward" || name == "advantage" {
		return name + "s"
	}
	switch c {
	case SDPO, examples:
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

// endTogether checks that an sdpo row has only one teacher, as the layout requires, and that student and teacher end
// at the same token. A row with several sites must have sides of equal width, because the mask gives the positions of
// the targets only in the teacher.
func endTogether(r *Row, form Form) error {
	sites := r.Meta.Sites
	switch {
	case len(sites) == 0 || len(r.Sides) != 2:
		return fmt.Errorf("cannot represent a row of %d sites and %d teachers: the composer layout has one teacher "+
			"per row", len(sites), len(r.Sides)-1)
	case len(sites) > 1 && !form.EqualWidth:
		return fmt.Errorf("cannot represent a row of %d sites: the composer layout needs equal width for "+
			"them", len(sites))
	}
	hints := 0
	for _, s := range sites {
		hints += int(s.Hint)
	}
	if len(r.Sides[0].IDs)+hints != len(r.Sides[1].IDs) {
		return fmt.Errorf("mismatched ends: student and teacher of site %d end at different tokens", sites[0].Site)
	}
	return nil
}
