package nemogym

import "github.com/nat-go/nat-go/ttc/ledger"

// maskedSample is the reason for a call in a rollout that the environment masked.
const maskedSample ledger.Reason = "masked_sample"
