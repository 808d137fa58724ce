package grpo

import "github.com/nat-go/nat-go/ttc/ledger"

// Why a task or an answer is dropped.
const (
	FewRollouts  ledger.Reason = "few_rollouts"
	EqualRewards ledger.Reason = "equal_rewards"
	EarlierTurns ledger.Reason = "earlier_turns"
)
