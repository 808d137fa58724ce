package sft

import "github.com/nat-go/nat-go/ttc/ledger"

// Why a rollout or candidate is not imitated.
const (
	BelowMinScore ledger.Reason = "below_min_score"
	EnoughTaken   ledger.Reason = "enough_taken"
	EqualToTaken  ledger.Reason = "equal_to_taken"
	FailedTask    ledger.Reason = "failed_task"
	NotBest       ledger.Reason = "not_best"
	OnlyFailed    ledger.Reason = "only_failed_calls"
	RemovedCall   ledger.Reason = "failed_call_removed"
)

// Codes are the pages of these reasons for `nat-go explain`.
func Codes() []ledger.Code {
	return []ledger.Code{
		ledger.NewCode(BelowMinScore, "build", "The score does not reach min_score.",
			"Lower min_score if you want weaker examples."),
		ledger.NewCode(EnoughTaken, "build", "It shares the best score of its task or turn, and n others that do were taken.",
			"Raise n."),
		ledger.NewCode(EqualToTaken, "build", "It has the words of another one of its task or turn that was taken.",
			"Nothing; select: all imitates repeats."),
		ledger.NewCode(
			FailedTask, "build",
			"Its score is the lowest there is: 0 where every score of the input is 0 or 1, otherwise the input's lowest. "+
				"That is a failure, and failures are not imitated.",
			"Nothing; if the lowest score is good enough, set min_score to it, or select: all.",
		),
		ledger.NewCode(NotBest, "build", "Others of the same task or turn score better.",
			"select: threshold with a min_score imitates all that reach it."),
		ledger.NewCode(
			OnlyFailed, "build", "Everything the model did in this rollout was a failed tool call, and those are not imitated.",
			"Check whether they really failed (builder sdpo lists them); failed_calls: train imitates them.",
		),
		ledger.NewCode(
			RemovedCall, "build", "A failed tool call was cut out of its turn, or the turn with it, together with the result: the turns after it are trained in a context that the model didn't have.",
			"failed_calls: context keeps such calls, untrained.",
		),
	}
}
