package teacher

import (
	"errors"

	"github.com/nat-go/nat-go/ttc/ledger"
)

// Reasons why a sequence lacks teacher log-probs, or a site has weight 0.
const (
	HintNoEffect       ledger.Reason = "hint_no_effect"
	hintWrongWay       ledger.Reason = "hint_wrong_way"
	siteBelowJSD       ledger.Reason = "site_below_min_jsd"
	TeacherBadAnswer   ledger.Reason = "teacher_bad_answer"
	teacherUnavailable ledger.Reason = "teacher_unavailable"
)

// reasonOf returns the reason for a sequence that couldn't be scored because of err.
func reasonOf(err error) ledger.Reason {
	if errors.As(err, new(*badAnswer)) {
		return TeacherBadAnswer
	}
	return teacherUnavailable
}
