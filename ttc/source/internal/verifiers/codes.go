package verifiers

import "github.com/nat-go/nat-go/ttc/ledger"

// Why a call of a rollout is not trained.
const (
	NotTrainable  ledger.Reason = "agent_not_trainable"
	FailedRollout ledger.Reason = "failed_rollout"
)
