package grpo

import "github.com/nat-go/nat-go/ttc/ledger"

// Why a task or an answer is left out.
const (
	FewRollouts  ledger.Reason = "few_rollouts"
	EqualRewards ledger.Reason = "equal_rewards"
	EarlierTurns ledger.Reason = "earlier_turns"
)

// Codes are the pages of these reasons for `nat-go explain`.
func Codes() []ledger.Code {
	return []ledger.Code{
		ledger.NewCode(FewRollouts, "build", "The task has fewer scored rollouts than min_rollouts; it is left out whole.", "Sample more rollouts, or lower min_rollouts."),
		ledger.NewCode(EqualRewards, "build", "All rewards of the task are equal, so every advantage is zero; it is left out whole (drop_equal_rewards).", "Nothing."),
		ledger.NewCode(EarlierTurns, "build",
			"The prompt of a scored answer has earlier turns of the assistant: as a rollout, they would be trained, too.",
			"Record the conversation as messages with a reward; only the turns that were sampled are trained then."),
	}
}
