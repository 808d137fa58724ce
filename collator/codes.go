package collator

import "github.com/nat-go/nat-go/ttc/ledger"

// Why a record yields no token row.
const (
	ArgsUnrenderable         ledger.Reason = "args_unrenderable"
	BadSampledIDs            ledger.Reason = "bad_sampled_ids"
	ContentNotText           ledger.Reason = "content_not_text"
	CutOffTurn               ledger.Reason = "cut_off_turn"
	DialectUnproven          ledger.Reason = "dialect_unproven"
	EmptyPromptTokens        ledger.Reason = "empty_prompt"
	EmptyTurn                ledger.Reason = "empty_turn"
	GenerationPromptMismatch ledger.Reason = "generation_prompt_mismatch"
	KeyDiffers               ledger.Reason = "key_differs"
	HintUnplaceable          ledger.Reason = "hint_unplaceable"
	InvariantBroken          ledger.Reason = "invariant_broken"
	MaskDisagreement         ledger.Reason = "mask_disagreement"
	NoSampledIDs             ledger.Reason = "no_sampled_ids"
	NoStopToken              ledger.Reason = "no_stop_token"
	NotTokenizable           ledger.Reason = "not_tokenizable"
	OffPolicy                ledger.Reason = "off_policy"
	PartlyRendered           ledger.Reason = "partly_rendered"
	ReasoningInIDs           ledger.Reason = "reasoning_in_ids"
	SpecialTokenInText       ledger.Reason = "special_token_in_content"
	StraddleEdge             ledger.Reason = "straddle_edge"
	TemplateRefused          ledger.Reason = "template_refused"
	TooLong                  ledger.Reason = "too_long"
	TurnNotFound             ledger.Reason = "turn_not_found"
)

// Codes are the pages of these reasons for `nat-go explain`.
func Codes() []ledger.Code {
	return []ledger.Code{
		ledger.NewCode(ArgsUnrenderable, "collate", "A tool call's arguments are not JSON, or change value when parsed and printed, and the template can't show the text the model wrote: the row would train on what was never sampled.", "Nothing, or use a template that prints argument strings as they are."),
		ledger.NewCode(BadSampledIDs, "collate", "The source's token ids don't fit: the numbers of log-probs and ids differ, ids beyond the vocabulary, or log-probs that are not numbers.", "Check the source and that collator.tokenizer is the tokenizer of the model that sampled."),
		ledger.NewCode(ContentNotText, "collate", "A message holds an image or another part that is not text; token batches carry text only.", "Leave such examples to a trainer that reads them."),
		ledger.NewCode(CutOffTurn, "collate", "The trained turn was cut off by the length limit (finish_reason: length), so it can't be compared with a complete one.", "Sample with a higher limit."),
		ledger.NewCode(DialectUnproven, "collate",
			"What was learned about the chat template from small conversations doesn't hold for this one: the tokens of a turn, cut out of the rest and "+
				"decoded, differ from what the template renders for the turn after its prompt.",
			"`nat-go chat mask` shows the turns; the template treats such conversations specially."),
		ledger.NewCode(EmptyPromptTokens, "collate", "There is no token before the answer, so nothing predicts its first token.", "Give the record a prompt."),
		ledger.NewCode(EmptyTurn, "collate", "The assistant's message has neither text nor calls nor reasoning, and no token ids of its own: training it would teach the model to say nothing. It stays in the context of later turns.", "Nothing, or record what the model answered."),
		ledger.NewCode(GenerationPromptMismatch, "collate", "What the template puts before a turn at sampling time differs from what precedes it in the rendered conversation, even with thinking switched off; or it begins the two answers of a preference differently, so that their log-probs belong to different prompts.", "Use the template that the model was sampled with. Demonstrations and rollouts also have rows: turn; a preference has one prompt for both sides, and needs a template that begins every turn of the assistant alike, with no empty thinking block in some of them."),
		ledger.NewCode(HintUnplaceable, "collate", "The chat template can't show a hint directly before the turn - as a system message, as a user's, or at the end or beginning of the previous message - without changing something else or moving it to an earlier place.", "`nat-go chat probe` shows what the template does; nothing is trained on a guess."),
		ledger.NewCode(InvariantBroken, "collate", "The finished row failed a check of its own (see the detail); it is not written.", "A defect of nat-go or of the template: please report it."),
		ledger.NewCode(KeyDiffers, "collate",
			"Rollouts of one task give different settings for the whole task (group_overrides); the first one counts.",
			"Give all rollouts of a task the same group_overrides."),
		ledger.NewCode(MaskDisagreement, "collate", "Two ways of finding the model's turns in the rendered text (origin of bytes, prefixes, the template's generation markers) disagree.", "Look at the conversation with `nat-go chat mask`; the template treats it specially."),
		ledger.NewCode(NoSampledIDs, "collate", "The rl channel needs the token ids that were sampled, and the source has none; ids made from text may differ.", "Record token ids (and log-probs) when sampling."),
		ledger.NewCode(NoStopToken, "collate", "The chat template writes nothing after the turn that a model would stop at, even in the middle of a conversation, so a preference or a hint would teach a turn that never ends; demonstrations keep such turns, counted.", "Use a template that ends turns, and a tokenizer that knows its end marks as special tokens."),
		ledger.NewCode(NotTokenizable, "collate", "The tokenizer refused the text (lone surrogate, too long).",
			"See the detail."),
		ledger.NewCode(OffPolicy, "collate", "The rl channel takes only what the model to be trained has sampled itself; this was another model, or nothing says which.", "Set collator.policy to the model to be trained, and the source's policy key to where the traces name theirs. Where all rollouts name one model and collator.policy is not set, that model is taken."),
		ledger.NewCode(PartlyRendered, "collate", "The chat template leaves out a part of the turn (its tool calls, some of them, or the text beside them), or shows it in another turn, after a token at which sampling stops. The row would train on less than was sampled; other turns of the rollout are kept.", "Use a template that prints the whole turn."),
		ledger.NewCode(ReasoningInIDs, "collate", "The turn is to be trained without its reasoning (train_reasoning: false), but its tokens are recorded as ids, which don't say where the reasoning ends.", "train_reasoning: true trains such turns whole."),
		ledger.NewCode(SpecialTokenInText, "write", "The text contains a special token of the model, which a text format would turn into control tokens.", "Use token batches, or clean the text."),
		ledger.NewCode(StraddleEdge, "collate", "A token crosses the edge of a trained turn: the ids are not those the model would have seen or sampled.", "Nothing; or record token ids when sampling, with which the turn can be kept."),
		ledger.NewCode(TemplateRefused, "collate", "The chat template refused the conversation or failed on it.", "See the detail; `nat-go chat render` shows the place in the template."),
		ledger.NewCode(TooLong, "collate", "The row is longer than collator.max_length, and cutting it would lose what is trained.", "Raise collator.max_length: the run says which value carries every row whole, and how many rows each smaller one would (manifest: batches.stats.sizes)."),
		ledger.NewCode(TurnNotFound, "collate", "A turn of the conversation can't be found in the rendered text.", "`nat-go chat probe` shows what the template does to messages."),
	}
}
