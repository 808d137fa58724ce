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
	NoErrorSite     ledger.Reason = "no_error_site"
	NoHint          ledger.Reason = "no_hint"
	NoRepair        ledger.Reason = "no_repair"
	NoResult        ledger.Reason = "no_result"
	NoSiteLeft      ledger.Reason = "no_site_left"
	OrphanResult    ledger.Reason = "orphan_result"
	RepeatedFailure ledger.Reason = "repeated_failure"
	SiteBudget      ledger.Reason = "site_budget"
	TransientError  ledger.Reason = "transient_error"
)

// Codes are the pages of these reasons for `nat-go explain`.
func Codes() []ledger.Code {
	return []ledger.Code{
		ledger.NewCode(HintFailed, "build", "A source of hints failed at this site, and no later source had a hint: a rule's template could not be rendered, or the hint command hung, ended or gave an invalid answer.", "See the detail. The sources listed after it are asked instead. Failures of the command are not stored: another run asks again."),
		ledger.NewCode(HintDeclined, "build", "The hint command answered null, or a rule says none: this site gets no hint, and no other source was asked.",
			"Nothing. To leave a site to the sources after it, the command answers with an empty hint instead."),
		ledger.NewCode(HintNotAllowed, "build", "The only hint for this site is of a kind that hints.allow does not list.", "Write a rule that says what the model could have known; or add the kind to hints.allow."),
		ledger.NewCode(HintTooLong, "build", "The hint is longer than hints.max_chars.",
			"Shorten it, or raise the limit."),
		ledger.NewCode(NearMiss, "build", "A result reads like a failure, but other evidence speaks against it; the detail names the rule. It is not an error site, and nothing is lost.",
			"If the call did fail, add a pattern to detect.match."),
		ledger.NewCode(NextTurnFails, "build", "The turn after the error failed, too, and is a site itself; it is not an example of what to do.", "Nothing."),
		ledger.NewCode(NoErrorSite, "build", "No tool call of the example failed, as far as the detectors can tell.", "Nothing; if errors were missed, look at the results listed as near_miss, and add a pattern to detect.match."),
		ledger.NewCode(NoHint, "build", "No source had a hint for this failed call. The detail names the sources that were not asked.", "Add a rule for its class or text (hints.rules), or a source (hints.sources)."),
		ledger.NewCode(NoRepair, "build", "No later call of the same tool, with other arguments, succeeded before the user spoke.", "Nothing."),
		ledger.NewCode(NoResult, "build", "The call has no result, so there is no place after it for a hint.", "Nothing, or set target: failed_turn."),
		ledger.NewCode(NoSiteLeft, "build", "Calls of the example failed, but none makes a site; each is listed with its own reason.", "See the drops of unit site."),
		ledger.NewCode(OrphanResult, "build", "A result that shows an error belongs to no call: no call before it has its id.", "Check how the trace was recorded."),
		ledger.NewCode(RepeatedFailure, "build", "The same call failed in the same way just before; it counts once.", "Nothing."),
		ledger.NewCode(SiteBudget, "build", "The example has more sites than max_sites_per_example.",
			"Raise the limit."),
		ledger.NewCode(TransientError, "build", "A timeout, a rate limit or a failing server says nothing about the call.", "Nothing."),
	}
}
