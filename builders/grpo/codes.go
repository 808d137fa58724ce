package grpo

import "github.com/nat-go/nat-go/ttc/ledger"

// Why a task or an answer is dropped.
const (
	fewRollouts  ledger.Reason = "few_rollouts"
	equalRewards ledger.Reason = "equal_rewards"
	earlierTurns ledger.Reason = "earlier_turns"
)
