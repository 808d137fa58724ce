package sft

import "github.com/nat-go/nat-go/ttc/ledger"

// Reasons for not using a rollout or candidate.
const (
	BelowMinScore ledger.Reason = "below_min_score"
	EnoughTaken   ledger.Reason = "enough_taken"
	EqualToTaken  ledger.Reason = "equal_to_taken"
	FailedTask    ledger.Reason = "failed_task"
	NotBest       ledger.Reason = "not_best"
	OnlyFailed    ledger.Reason = "only_failed_calls"
	RemovedCall   ledger.Reason = "failed_call_removed"
)
