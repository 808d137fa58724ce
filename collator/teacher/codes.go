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

// Codes are the pages of these reasons for `nat-go explain`.
func Codes() []ledger.Code {
	return []ledger.Code{
		ledger.NewCode(
			HintNoEffect,
			"teacher",
			"The hint moves the teacher's view of the target tokens no more than a neutral one in its place does: there is nothing to learn from it.",
			"Write hints that say what was wrong, or lower collator.teacher.min_effect.",
		),
		ledger.NewCode(
			HintWrongWay,
			"teacher",
			"The hint moves the target tokens the wrong way: a failed turn has to become less likely under it, the next turn more likely.",
			"Look at the hint; it may praise the mistake.",
		),
		ledger.NewCode(
			SiteBelowJSD,
			"teacher",
			"Teacher and student hardly differ at this site: their mean divergence is below min_jsd.",
			"Lower collator.teacher.min_jsd to keep it.",
		),
		ledger.NewCode(
			TeacherBadAnswer,
			"teacher",
			"The teacher's answer for the sequence can't be used: wrong length, missing positions, ids outside the vocabulary, or numbers that are not log-probs.",
			"See the detail; check the server's version and its limit of log-probs.",
		),
		ledger.NewCode(
			TeacherUnavailable,
			"teacher",
			"The teacher refused the sequence, or gave no answer after several tries.",
			"Check the server and resume; a refusal may mean that the sequence is too long for it.",
		),
	}
}
