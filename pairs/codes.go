package pairs

import "github.com/nat-go/nat-go/ttc/ledger"

// Why a candidate made no pair.
const (
	Tie             ledger.Reason = "tie"
	FailedScorer    ledger.Reason = "failed_scorer"
	DifferentPrompt ledger.Reason = "different_prompt"
	AnswerInPrompt  ledger.Reason = "answer_in_prompt"
	ReprPrompt      ledger.Reason = "repr_prompt"
	SingleCandidate ledger.Reason = "single_candidate"
	BelowMargin     ledger.Reason = "below_min_score_diff"
	BelowMinChosen  ledger.Reason = "below_min_chosen_score"
	NotChosen       ledger.Reason = "not_chosen_by_strategy"
	OtherName       ledger.Reason = "other_step_name"
)

// Codes are the pages of the reasons above, for `nat-go explain`.
func Codes() []ledger.Code {
	return []ledger.Code{
		ledger.NewCode(Tie, "build", "Two candidates have the same score: neither is better, and a pair of them would teach noise.", "Nothing; use a finer scorer if there are many."),
		ledger.NewCode(FailedScorer, "build", "The scorer failed on this candidate (NAT writes 0.0 and reasoning.error); a failure is not a bad answer.", "Fix the scorer and evaluate again."),
		ledger.NewCode(DifferentPrompt, "build", "No other candidate of this turn was given the same prompt, so it can't be compared.", "Give all candidates of a turn the same prompt."),
		ledger.NewCode(AnswerInPrompt, "build", "The recorded prompt gives the answer away: it ends with a message of the assistant, or with the answer after a label like \"assistant:\"; or its text ends with the answer, and no other candidate was given the same prompt and answered otherwise; or it holds the answer, of 64 characters or more, and not those of all candidates of the turn. Training on it teaches copying. An answer that is one of the choices that a shared prompt offers is no such case.", "Record the prompt before the model's reply is appended. Where the prompts are meant so, set answer_in_prompt: keep in the builder."),
		ledger.NewCode(ReprPrompt, "build", "The prompt is the printed form of a Python object rather than text or messages.", "Record messages as a list of {role, content}."),
		ledger.NewCode(SingleCandidate, "build", "The turn has only one usable candidate, so there is nothing to compare it with.", "Sample at least two candidates a turn."),
		ledger.NewCode(BelowMargin, "build", "Every pair this candidate could be in has a smaller margin than min_score_diff.", "Lower min_score_diff if you want closer pairs."),
		ledger.NewCode(BelowMinChosen, "build", "The better candidate scores below min_chosen_score.", "Lower min_chosen_score if you want weaker winners."),
		ledger.NewCode(NotChosen, "build", "The strategy or its limit (max_pairs_per_turn) left this candidate in no pair.", "Choose another strategy or raise the limit."),
		ledger.NewCode(OtherName, "build", "The candidate belongs to another step than the builder's ttc_step_name.", "Set ttc_step_name, or add a builder for that step."),
	}
}
