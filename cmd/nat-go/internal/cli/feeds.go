package cli

// feed says which part of a record a trainer really trains, given the form in which the record reaches it.
type feed struct {
	Record   string `json:"record"`
	Format   string `json:"format"` // a text format by name, or a channel of token batches
	Trainer  string `json:"trainer"`
	Trains   string `json:"trains"`   // the tokens in its loss
	Lost     string `json:"lost"`     // what the form can't carry
	Verified string `json:"verified"` // how we know
}

// How a line's claim was established; the table in collator/README.md has the words before the colon.
const (
	readBack   = "read back: the rows, as the trainer reads them; its tokens are its own"
	documented = "documented: the rows have the fields that its maker documents; its tokens can't be seen"
	server     = "server: lengths, ids and masks are checked, and the real server took them"
	proof      = "proof: hashes beside each row, checked by `nat-go dataset verify`"
)

// What rows of plain text can't carry.
const dropsTools = "tools, tool calls, answers of several messages"

// What trainers of every assistant turn can't be given.
const turnsAfter = "turns after one that is context only, weights"

// feeds returns the table "what feeds what". A trainer of text rows tokenises them itself, with its own template and
// its own idea of what is trained: our masks apply only to token batches, and are lost in every other line.
func feeds() []feed {
	return []feed{
		{
			"preference", "customizer", "NeMo Customizer v1 (DPO)", "both responses, whole",
			dropsTools + "; of a message prompt all but the last text, unless use_full_message_history", readBack,
		},
		{
			"preference", "trl", "TRL DPOTrainer",
			"what follows the rendered prompt, results of tools between the turns of a side too, and the template's text " +
				"after the turn; where the prompt is not the beginning of a row, TRL only warns",
			"our masks, log-probs of the reference", readBack,
		},
		{
			"preference", "kto", "TRL KTOTrainer",
			"what follows the rendered prompt, each answer by itself with its label, results of tools in it included",
			"which answer is better than which: one that wins a pair and loses another gets both labels (strategy: best_vs_worst has none of these)",
			readBack,
		},
		{"preference", "nemo_rl", "NeMo RL, NeMo Helix (binary)", "the answer's message", dropsTools, readBack},
		{
			"preference", "nemo_rl_ranked", "NeMo RL, NeMo Helix (ranked)", "the completions' messages", "our masks",
			readBack,
		},
		{
			"preference", "openai", "OpenAI fine-tuning (dpo)", "the assistant message of each output",
			"answers of several messages", documented,
		},
		{
			"preference", "dpo", "natgo.trl: DPOTrainer, KTOTrainer, CompositeTrainer",
			"the sampled turns of either answer with their terminators, after the prompt's common tokens", "nothing",
			proof,
		},
		{
			"demonstration", "trl", "TRL SFTTrainer (prompt, completion)",
			"the completion, and what the template puts after it: each trained turn in a row of its own", "weights",
			readBack,
		},
		{
			"demonstration", "messages", "TRL, LLaMA-Factory, NeMo RL (SFT), Axolotl, ...",
			"the assistant turns, each trainer in its own way", turnsAfter, documented,
		},
		{
			"demonstration", "axolotl", "Axolotl (message_field_training: train)", "the turns whose train is true",
			"weights", readBack,
		},
		{
			"demonstration", "ms_swift", "ms-swift (swift sft)", "the texts and calls whose loss is true",
			"ids of calls, weights", readBack,
		},
		{
			"demonstration", "openai_sft", "OpenAI and Azure fine-tuning (supervised)",
			"the assistant messages without weight 0", "reasoning, weights other than 0 and 1", documented,
		},
		{
			"demonstration", "customizer", "NeMo Customizer v1 (SFT)", "the assistant turns", turnsAfter, documented,
		},
		{
			"demonstration", "verl", "verl MultiTurnSFTDataset; natgo.verl for rows with tools",
			"every assistant turn, each message rendered alone", turnsAfter, readBack,
		},
		{
			"demonstration", "sft", "your own; TRL SFTTrainer by format sft_parquet, SkyRL by skyrl_pretokenized",
			"the sampled turns that the loss policy names, without text that the template adds inside them", "nothing",
			proof,
		},
		{
			"rollout", "verl", "verl RLHFDataset", "answers that verl samples to the prompt itself",
			"the rollouts: ids, log-probs, rewards; tools, which verl takes from tool_config_path", readBack,
		},
		{
			"rollout", "kto", "TRL KTOTrainer",
			"what follows the prompt, whole: results of tools and what users say between the turns, too; natgo.trl's " +
				"KTOTrainer trains the sampled turns of the channel rl",
			"our masks; how good a rollout is, beyond its label", readBack,
		},
		{
			"rollout", "atropos", "a trainer behind an Atropos run-api", "the ids that were sampled",
			"rollouts with a message without ids; the server normalises scores itself", server,
		},
		{
			"rollout", "rl", "your own (GRPO)", "the ids that were sampled, with log-probs and an advantage",
			"rollouts without ids of the model to be trained", proof,
		},
		{
			"distillation", "sdpo", "natgo.trl: HintTrainer, CompositeTrainer",
			"each token of the failed turn, or the one after, towards the teacher's distribution, which has seen the hint",
			"sites whose hint the template can't show", proof,
		},
		{
			"preference, rollout, distillation", "dpo, rl, sdpo with collator.format composer",
			"your own, by the reference composite trainer's names",
			"the same as without", "teacher columns, and cumulative hints except with `composer.width: equal`; the reference trainer as it is passes no attention mask and doesn't shift, so it trains wrong positions whatever it is given", proof,
		},
	}
}
