package nemogym

import "github.com/nat-go/nat-go/ttc/ledger"

// MaskedSample is the reason for a call in a rollout that the environment masked.
const MaskedSample ledger.Reason = "masked_sample"

// Codes are the pages of these reasons for `nat-go explain`.
func Codes() []ledger.Code {
	return []ledger.Code{ledger.NewCode(
		MaskedSample, "source", "The rollout says that it is not to be trained (mask_sample).", "Nothing.",
	)}
}
