package verifiers

import "github.com/nat-go/nat-go/ttc/ledger"

// Why a call of a rollout is not trained.
const (
	NotTrainable  ledger.Reason = "agent_not_trainable"
	FailedRollout ledger.Reason = "failed_rollout"
)

// Codes are the pages of these reasons for `nat-go explain`.
func Codes() []ledger.Code {
	return []ledger.Code{
		ledger.NewCode(
			NotTrainable,
			"source",
			"The rollout belongs to an agent that its run marks as not to be trained.",
			"Nothing.",
		),
		ledger.NewCode(
			FailedRollout,
			"source",
			"The rollout ended in an error, so it says nothing about the model.",
			"Nothing.",
		),
	}
}
