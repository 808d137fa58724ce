package curate

import "github.com/nat-go/nat-go/ttc/ledger"

// Reasons for dropping a record.
const (
	duplicate     ledger.Reason = "duplicate"
	Contradiction ledger.Reason = "contradiction"
	notSampled    ledger.Reason = "not_sampled"
	rejected      ledger.Reason = "rejected_by_mark"
	Held          ledger.Reason = "shares_validation"
	Contaminated  ledger.Reason = "contaminated"
	lowFidelity   ledger.Reason = "fidelity_too_low"
)
