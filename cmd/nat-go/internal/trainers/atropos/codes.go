package atropos

import "github.com/nat-go/nat-go/ttc/ledger"

// Why a group was not handed to the trainer.
const (
	GroupBadNumber ledger.Reason = "group_bad_number"
	GroupBadRow    ledger.Reason = "group_bad_row"
	GroupBadShape  ledger.Reason = "group_bad_shape"
	GroupNoTarget  ledger.Reason = "group_nothing_trained"
	GroupNotScored ledger.Reason = "group_not_scored"
	GroupSame      ledger.Reason = "group_same_scores"
	GroupTooLong   ledger.Reason = "group_too_long"
	GroupWrongSize ledger.Reason = "group_wrong_size"
)

// Codes returns the pages of these reasons for `nat-go explain`.
func Codes() []ledger.Code {
	return []ledger.Code{
		ledger.NewCode(GroupBadNumber, "submit", "A number of the group is not finite; Atropos would lose the whole batch it is in.", "Fix the scorer or the log-probs."),
		ledger.NewCode(GroupBadRow, "submit", "A line of the rows is not a JSON object of a scored group.",
			"Write the data set again."),
		ledger.NewCode(GroupBadShape, "submit", "Lists of the group that belong together differ in length, or a mask is neither its token nor -100.", "Write the data set again; if nat-go wrote it, report the defect."),
		ledger.NewCode(GroupNoTarget, "submit", "No token of the group is trained.", "Nothing."),
		ledger.NewCode(GroupNotScored, "submit", "A sequence of the group has no reward.",
			"Score every rollout of the task."),
		ledger.NewCode(GroupSame, "submit", "All scores of the group are equal, which gives no advantage to learn from.", "Nothing; or set skip_same_scores: false."),
		ledger.NewCode(GroupTooLong, "submit", "A sequence of the group is as long as the trainer's limit.",
			"Raise the trainer's max_token_len, or shorten the rows."),
		ledger.NewCode(GroupWrongSize, "submit", "The number of sequences in the group is not group_size; Atropos would keep it for ever.", "Sample the same number of rollouts for each task."),
	}
}
