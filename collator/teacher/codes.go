package teacher

import "github.com/nat-go/nat-go/ttc/ledger"

// Why a sequence lacks teacher log-probs, or a site weighs nothing.
const (
	HintNoEffect       ledger.Reason = "hint_no_effect"
	HintWrongWay       ledger.Reason = "hint_wrong_way"
	SiteBelowJSD       ledger.Reason = "site_below_min_jsd"
	TeacherBadAnswer   ledger.Reason = "teacher_bad_answer"
	TeacherUnavailable ledger.Reason = "teacher_unavailable"
)
