package source

import "github.com/nat-go/nat-go/ttc/ledger"

// Reasons for readers to drop input.
const (
	UnreadLine      ledger.Reason = "unread_line"
	BadExample      ledger.Reason = "bad_example"
	BadStep         ledger.Reason = "bad_step"
	IdenticalRow    ledger.Reason = "identical_row"
	NoData          ledger.Reason = "no_data"
	NoTurnID        ledger.Reason = "no_turn_id"
	NoScore         ledger.Reason = "no_score"
	BadScore        ledger.Reason = "bad_score"
	BadTurnID       ledger.Reason = "bad_turn_id"
	BadIndex        ledger.Reason = "bad_candidate_index"
	BadOutput       ledger.Reason = "bad_output"
	NoOutput        ledger.Reason = "no_output"
	OtherStep       ledger.Reason = "other_step"
	ExampleTooLarge ledger.Reason = "example_too_large"
	KeyNotUsed      ledger.Reason = "key_not_used"
	NoTrajectory    ledger.Reason = "no_trajectory"
	NotUnderstood   ledger.Reason = "file_not_understood"
)
