package builders

import "github.com/nat-go/nat-go/ttc/ledger"

// Reasons for which the host drops a builder's input or records.
const (
	BuilderFailed ledger.Reason = "builder_failed"
	BadReference  ledger.Reason = "bad_reference"
	NotUsed       ledger.Reason = "not_used"
	OtherReasons  ledger.Reason = "other_reasons"
	NoCandidates  ledger.Reason = "no_candidates"
	GroupTooLarge ledger.Reason = "group_too_large"
)
