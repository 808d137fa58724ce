package ledger

// Code is a page of `nat-go explain`: a drop reason or a finding code, what it means and what to do about it. Each is
// defined beside the code that reports it, in a function Codes of its package; the command collects them in one list.
type Code struct {
	Code string `json:"code"` // "tie", "NG1203"
	Area string `json:"area"` // stage of a reason, or subject of a finding
	Text string `json:"text"` // what it means
	Help string `json:"help"` // what to do about it
}

// NewCode makes the page of a reason or of a finding's code.
func NewCode[C ~string](code C, area, text, help string) Code {
	return Code{string(code), area, text, help}
}

// Reasons given by more than one package.
const (
	NonFiniteScore     Reason = "non_finite_score"
	SameText           Reason = "same_text"
	EmptyResponse      Reason = "empty_response"
	NoReward           Reason = "no_reward"
	NothingTrained     Reason = "nothing_to_train"
	TurnNotSampled     Reason = "turn_not_sampled"
	NoNextTurn         Reason = "no_next_turn"
	HintContainsTarget Reason = "hint_contains_target"
	BadRecord          Reason = "bad_record"
	BadRoles           Reason = "bad_roles"
)

// Codes are the pages of these reasons for `nat-go explain`.
func Codes() []Code {
	return []Code{
		NewCode(NonFiniteScore, "build", "The score is NaN or infinite.", "Fix the scorer."),
		NewCode(SameText, "build", "Chosen and rejected are the same text.", "Nothing."),
		NewCode(EmptyResponse, "build", "The candidate's output is empty.",
			"Nothing, or set the workflow to record the output."),
		NewCode(NoReward, "build", "The rollout has no score, so nothing says whether it is worth imitating.", "Score it, or set select: all."),
		NewCode(NothingTrained, "build", "The conversation has no turn that the model is known or assumed to have produced, or none that the loss policy trains.", "See assume_sampled of the source and the builder's train setting."),
		NewCode(TurnNotSampled, "build", "The target turn was not produced by the model in this rollout (few-shot, copied, injected), so it is never trained.", "Nothing."),
		NewCode(NoNextTurn, "build", "No turn of the model follows the error before the user speaks or the conversation ends.", "Nothing, or set target: failed_turn."),
		NewCode(HintContainsTarget, "build", "The hint repeats a run of words or tokens of the very turn it is for; such a teacher copies instead of judging.", "Write the hint without the answer, or raise hints.leak_run."),
		NewCode(BadRecord, "build", "The record breaks a rule of its kind (non-finite reward, no content), or its builder does not declare records of that kind.", "A defect of the builder: report it to its author."),
		NewCode(BadRoles, "gate", "The roles of the messages make no sense for training (no user turn, or the answer is not the assistant's).", "Check the builder's messages."),
	}
}
