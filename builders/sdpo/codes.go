package sdpo

import "github.com/nat-go/nat-go/ttc/ledger"

// Reasons why a call yields no site or repair, or an example yields no record.
const (
	hintFailed      ledger.Reason = "hint_failed"
	hintDeclined    ledger.Reason = "hint_declined"
	hintNotAllowed  ledger.Reason = "hint_not_allowed"
	hintTooLong     ledger.Reason = "hint_too_long"
	NearMiss        ledger.Reason = "near_miss"
	nextTurnFails   ledger.Reason = "next_turn_fails"
	noBetterSibling ledger.Reason = "no_better_sibling"
	NoErrorSite     ledger.Reason = "no_error_site"
	noHint          ledger.Reason = "no_hint"
	NoRepair        ledger.Reason = "no_repair"
	noResult        ledger.Reason = "no_result"
	NoSiteLeft      ledger.Reason = "no_site_left"
	orphanResult    ledger.Reason = "orphan_result"
	RepeatedFailure ledger.Reason = "repeated_failure"
	sameWrites      ledger.Reason = "same_writes"
	siteBudget      ledger.Reason = "site_budget"
	TransientError  ledger.Reason = "transient_error"
)
