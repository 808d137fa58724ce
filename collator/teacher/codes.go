package teacher

import "github.com/nat-go/nat-go/ttc/ledger"

// Why a sequence has no teacher log-probs, or a site no weight.
const (
	HintNoEffect       ledger.Reason = "hint_no_effect"
	HintWrongWay       ledger.Reason = "hint_wrong_way"
	SiteBelowJSD       ledger.Reason = "site_below_min_jsd"
	TeacherBadAnswer   ledger.Reason = "teacher_bad_answer"
	TeacherUnavailable ledger.Reason = "teacher_unavailable"
)
