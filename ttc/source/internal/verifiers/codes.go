package verifiers

import "github.com/nat-go/nat-go/ttc/ledger"

// Reasons for not training on a rollout's call.
const (
	NotTrainable  ledger.Reason = "agent_not_trainable"
	FailedRollout ledger.Reason = "failed_rollout"
)
