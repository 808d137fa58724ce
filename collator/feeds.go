package collator

// Feed says what a trainer really trains of a record that reaches it in some form.
type Feed struct {
	Record   string `json:"record"`
	Format   string `json:"format"` // a text format by name, or a channel of token batches
	Trainer  string `json:"trainer"`
	Trains   string `json:"trains"`   // the tokens in its loss
	Lost     string `json:"lost"`     // what the form can't carry
	Verified string `json:"verified"` // how we know
}

const (
	retokenised = "as rows: read back as the trainer does; its tokens are its own"
	proven      = "as tokens: a proof a row, checked by `nat-go dataset verify`"
	dropsTools  = "tools, tool calls, answers of several messages, masks of ours"
)

// Feeds is the table "what feeds what". A trainer of text rows tokenises them itself, with its own template and its own idea
// of what is trained: our masks apply to token batches only.
func Feeds() []Feed {
	return []Feed{
		{"preference", "customizer", "NeMo Customizer v1 (DPO)", "all it makes of either response", dropsTools + "; of a message prompt all but the last one's text, unless use_full_message_history", retokenised},
		{"preference", "trl", "TRL DPOTrainer", "all after the rendered prompt, end of turn and what the template puts behind it included; a prompt that is no prefix is only a warning there", "masks of ours, log-probs of the reference", retokenised},
		{"preference", "kto", "TRL KTOTrainer", "all after the rendered prompt, each answer alone with its label", "which answer is better than which: one that wins a pair and loses another gets both labels (strategy: best_vs_worst has none of these); masks of ours", retokenised},
		{"preference", "nemo_rl", "NeMo RL, NeMo Helix (binary preferences)", "the answer's message", dropsTools, retokenised},
		{"preference", "nemo_rl_ranked", "NeMo RL, NeMo Helix (ranked preferences)", "the completions' messages", "masks of ours", retokenised},
		{"preference", "openai", "OpenAI fine-tuning (dpo)", "the one assistant message of either output", "masks of ours, answers of several messages", "as rows: the fields its API documents; its tokens can't be seen"},
		{"preference", "dpo", "your own (examples/composite-trainer)", "the sampled turns of either answer, terminator included, after the prompt's common tokens", "nothing", proven},
		{"demonstration", "trl", "TRL SFTTrainer (prompt, completion)", "the completion: the last turn, and what the template puts behind it", "earlier turns to imitate, weights, masks of ours", retokenised},
		{"demonstration", "customizer", "NeMo Customizer v1 (SFT)", "the assistant turns; a record that trains only some is refused", "weights, masks of ours", "as rows: the fields its documentation names; its tokens can't be seen"},
		{"demonstration", "verl", "verl MultiTurnSFTDataset", "every assistant turn, each message rendered alone", "tools, tool calls, reasoning, weights, masks of ours", retokenised},
		{"demonstration", "sft", "your own; TRL SFTTrainer takes ids and labels as they are (format sft_parquet)", "the sampled turns that the loss policy names, less template filler", "nothing", proven},
		{"rollout", "verl", "verl RLHFDataset", "answers that verl samples to the prompt itself", "the rollouts: ids, log-probs, rewards; tools, which verl takes from tool_config_path", "as rows: read back as the trainer does"},
		{"rollout", "atropos", "a trainer behind an Atropos run-api", "the ids that were sampled", "rollouts with a message without ids; the server normalises scores itself", "as rows: lengths, ids and masks checked; taken by the real server"},
		{"rollout", "rl", "your own (GRPO)", "the ids that were sampled, with their log-probs and an advantage", "rollouts without ids of the model to be trained", proven},
		{"distillation", "sdpo", "your own (examples/composite-trainer)", "the distribution at each token of the failed turn, or the one after, towards that of the teacher, who has the hint", "sites whose hint the template can't show", proven},
		{"preference, rollout, distillation", "dpo, rl, sdpo with collator.format composer", "your own, by the reference composite trainer's names (examples/composite-trainer)",
			"the same as without", "cumulative hints and teacher columns; the reference trainer as it is passes no attention mask and doesn't shift: nothing can feed it right", proven},
	}
}
