package curate

import "github.com/nat-go/nat-go/ttc/ledger"

// Why a record was not kept.
const (
	Duplicate     ledger.Reason = "duplicate"
	Contradiction ledger.Reason = "contradiction"
	NotSampled    ledger.Reason = "not_sampled"
	Rejected      ledger.Reason = "rejected_by_mark"
	Held          ledger.Reason = "shares_validation"
	LowFidelity   ledger.Reason = "fidelity_too_low"
)
