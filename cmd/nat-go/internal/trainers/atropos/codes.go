package atropos

import "github.com/nat-go/nat-go/ttc/ledger"

// Reasons for not sending a group to the trainer.
const (
	groupBadNumber ledger.Reason = "group_bad_number"
	groupBadRow    ledger.Reason = "group_bad_row"
	groupBadShape  ledger.Reason = "group_bad_shape"
	groupNoTarget  ledger.Reason = "group_nothing_trained"
	groupNotScored ledger.Reason = "group_not_scored"
	groupSame      ledger.Reason = "group_same_scores"
	groupTooLong   ledger.Reason = "group_too_long"
	groupWrongSize ledger.Reason = "group_wrong_size"
)
