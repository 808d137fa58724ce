package verifiers

import "github.com/nat-go/nat-go/ttc/ledger"

// Reasons why a call of a rollout is not trained on.
const (
	NotTrainable  ledger.Reason = "agent_not_trainable"
	FailedRollout ledger.Reason = "failed_rollout"
)
