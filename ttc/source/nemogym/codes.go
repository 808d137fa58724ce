package nemogym

import "github.com/nat-go/nat-go/ttc/ledger"

// MaskedSample is the reason of a call of a rollout that the environment masked.
const MaskedSample ledger.Reason = "masked_sample"

// Codes are the pages of the reasons above, for `nat-go explain`.
func Codes() []ledger.Code {
	return []ledger.Code{ledger.NewCode(
		MaskedSample, "source", "The rollout says that it is not to be trained (mask_sample).", "Nothing.",
	)}
}
