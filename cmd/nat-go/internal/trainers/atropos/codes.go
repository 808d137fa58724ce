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
