package collator

import "github.com/nat-go/nat-go/ttc/ledger"

// Reasons for dropping records, turns, sites or keys in the collate stage.
const (
	ArgsUnrenderable         ledger.Reason = "args_unrenderable"
	BadSampledIDs            ledger.Reason = "bad_sampled_ids"
	ContentNotText           ledger.Reason = "content_not_text"
	contrastAbsent           ledger.Reason = "contrast_absent"
	CutOffTurn               ledger.Reason = "cut_off_turn"
	DialectUnproven          ledger.Reason = "dialect_unproven"
	EmptyPromptTokens        ledger.Reason = "empty_prompt"
	EmptyTurn                ledger.Reason = "empty_turn"
	GenerationPromptMismatch ledger.Reason = "generation_prompt_mismatch"
	KeyDiffers               ledger.Reason = "key_differs"
	HintUnplaceable          ledger.Reason = "hint_unplaceable"
	InvariantBroken          ledger.Reason = "invariant_broken"
	MaskDisagreement         ledger.Reason = "mask_disagreement"
	NoRolloutRow             ledger.Reason = "no_rollout_row"
	NoSampledIDs             ledger.Reason = "no_sampled_ids"
	NoStopToken              ledger.Reason = "no_stop_token"
	NotTokenizable           ledger.Reason = "not_tokenizable"
	OffPolicy                ledger.Reason = "off_policy"
	PartAbsent               ledger.Reason = "part_absent"
	PartlyRendered           ledger.Reason = "partly_rendered"
	ReasoningInIDs           ledger.Reason = "reasoning_in_ids"
	SpecialTokenInText       ledger.Reason = "special_token_in_content"
	StraddleEdge             ledger.Reason = "straddle_edge"
	TemplateRefused          ledger.Reason = "template_refused"
	TooLong                  ledger.Reason = "too_long"
	TurnNotFound             ledger.Reason = "turn_not_found"
)
