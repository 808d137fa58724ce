package grpo

import "github.com/nat-go/nat-go/ttc/ledger"

// Reasons for dropping a task or an answer.
const (
	fewRollouts  ledger.Reason = "few_rollouts"
	equalRewards ledger.Reason = "equal_rewards"
	earlierTurns ledger.Reason = "earlier_turns"
)
