package nemogym

import "github.com/nat-go/nat-go/ttc/ledger"

// MaskedSample is the reason for a call in a rollout that the environment masked.
const MaskedSample ledger.Reason = "masked_sample"
