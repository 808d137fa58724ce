package ledger

// Code is the `nat-go explain` page of a drop reason or a finding code.
type Code struct {
	Code string `json:"code"` // "tie", "NG1203"
	Area string `json:"area"` // stage of a drop reason, or subject of a finding
	Text string `json:"text"` // the meaning
	Help string `json:"help"` // the remedy
}

// NewCode returns the page for a drop reason or a finding code.
func NewCode[C ~string](code C, area, text, help string) Code {
	return Code{string(code), area, text, help}
}

// Reasons that more than one package uses.
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
