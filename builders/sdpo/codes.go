package sdpo

import "github.com/nat-go/nat-go/ttc/ledger"

// Why a failed call yields no site.
const (
	HintFailed      ledger.Reason = "hint_failed"
	HintDeclined    ledger.Reason = "hint_declined"
	HintNotAllowed  ledger.Reason = "hint_not_allowed"
	HintTooLong     ledger.Reason = "hint_too_long"
	NearMiss        ledger.Reason = "near_miss"
	NextTurnFails   ledger.Reason = "next_turn_fails"
	NoBetterSibling ledger.Reason = "no_better_sibling"
	NoErrorSite     ledger.Reason = "no_error_site"
	NoHint          ledger.Reason = "no_hint"
	NoRepair        ledger.Reason = "no_repair"
	NoResult        ledger.Reason = "no_result"
	NoSiteLeft      ledger.Reason = "no_site_left"
	OrphanResult    ledger.Reason = "orphan_result"
	RepeatedFailure ledger.Reason = "repeated_failure"
	SameWrites      ledger.Reason = "same_writes"
	SiteBudget      ledger.Reason = "site_budget"
	TransientError  ledger.Reason = "transient_error"
)
