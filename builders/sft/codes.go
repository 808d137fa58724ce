package sft

import "github.com/nat-go/nat-go/ttc/ledger"

// Why a rollout or candidate is not imitated.
const (
	BelowMinScore ledger.Reason = "below_min_score"
	NotBest       ledger.Reason = "not_best"
	OnlyFailed    ledger.Reason = "only_failed_calls"
)

// Codes are the pages of these reasons for `nat-go explain`.
func Codes() []ledger.Code {
	return []ledger.Code{
		ledger.NewCode(BelowMinScore, "build", "The score does not reach min_score.",
			"Lower min_score if you want weaker examples."),
		ledger.NewCode(NotBest, "build", "Others of the same task or turn score better, and only the best n are imitated.", "Raise n."),
		ledger.NewCode(
			OnlyFailed, "build", "Everything the model did in this rollout was a failed tool call, and those are not imitated.",
			"Check whether they really failed (builder sdpo lists them); skip_failed_calls: false imitates them.",
		),
	}
}
