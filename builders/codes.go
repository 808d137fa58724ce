package builders

import "github.com/nat-go/nat-go/ttc/ledger"

// What the host says about a builder and its records.
const (
	BuilderFailed ledger.Reason = "builder_failed"
	BadReference  ledger.Reason = "bad_reference"
	NotUsed       ledger.Reason = "not_used"
	OtherReasons  ledger.Reason = "other_reasons"
	NoCandidates  ledger.Reason = "no_candidates"
	GroupTooLarge ledger.Reason = "group_too_large"
)

// Codes are the pages of these codes for `nat-go explain`.
func Codes() []ledger.Code {
	return []ledger.Code{
		ledger.NewCode(BuilderFailed, "build", "The builder reported an error for this group; other builders' records of it are kept.", "See the detail; run `nat-go builders try` on the group."),
		ledger.NewCode(BadReference, "build", "The record refers to a candidate or message that its group doesn't have.", "A defect of the builder: report it to its author."),
		ledger.NewCode(NotUsed, "build", "The builder used this in no record and gave no reason for leaving it out.", "Ask the builder's author to report drops; a candidate counts as used where a record refers to it."),
		ledger.NewCode(OtherReasons, "build", "The builder gave more than a thousand distinct reasons; drops for any further ones are counted here.", "A defect of the builder: report it to its author. What differs from drop to drop belongs in the detail, not in the reason."),
		ledger.NewCode(NoCandidates, "build", "The example has nothing to build from: no candidate that could be read, no message.", "See which of its steps were dropped; the workflow may have raised an exception."),
		ledger.NewCode(GroupTooLarge, "build", "The group is larger than the limit for one unit of work and is refused whole.", "Raise limits.group (a group takes about ten times its size in memory), or use a finer unit."),
	}
}
