package ledger

// Code is a page of `nat-go explain`: a drop reason or a finding code, what it means and what to do.
type Code struct {
	Code string // "tie", "NG1203"
	Area string // stage of a reason, or "config"
	Text string // what it means
	Help string // what to do about it
}

// Reasons of the source: what a reader could not use.
const (
	BadExample      Reason = "bad_example"
	BadStep         Reason = "bad_step"
	IdenticalRow    Reason = "identical_row"
	NoData          Reason = "no_data"
	NoTurnID        Reason = "no_turn_id"
	NoScore         Reason = "no_score"
	BadScore        Reason = "bad_score"
	BadTurnID       Reason = "bad_turn_id"
	BadIndex        Reason = "bad_candidate_index"
	BadOutput       Reason = "bad_output"
	OtherStep       Reason = "other_step"
	ExampleTooLarge Reason = "example_too_large"
)

// Reasons of pairing: why a candidate made no pair.
const (
	Tie             Reason = "tie"
	NonFiniteScore  Reason = "non_finite_score"
	FailedScorer    Reason = "failed_scorer"
	SameText        Reason = "same_text"
	EmptyResponse   Reason = "empty_response"
	DifferentPrompt Reason = "different_prompt"
	AnswerInPrompt  Reason = "answer_in_prompt"
	ReprPrompt      Reason = "repr_prompt"
	SingleCandidate Reason = "single_candidate"
	BelowMargin     Reason = "below_min_score_diff"
	BelowMinChosen  Reason = "below_min_chosen_score"
	NotChosen       Reason = "not_chosen_by_strategy"
	OtherName       Reason = "other_step_name"
)

// Reasons of choosing rollouts and demonstrations.
const (
	NoReward       Reason = "no_reward"
	BelowMinScore  Reason = "below_min_score"
	NotBest        Reason = "not_best"
	NothingTrained Reason = "nothing_to_train"
	FewRollouts    Reason = "few_rollouts"
	EqualRewards   Reason = "equal_rewards"
)

// Reasons of error sites: why a failed call makes no site.
const (
	HintContainsTarget Reason = "hint_contains_target"
	HintFailed         Reason = "hint_failed"
	HintNotAllowed     Reason = "hint_not_allowed"
	HintTooLong        Reason = "hint_too_long"
	NextTurnFails      Reason = "next_turn_fails"
	NoErrorSite        Reason = "no_error_site"
	NoHint             Reason = "no_hint"
	NoNextTurn         Reason = "no_next_turn"
	NoRepair           Reason = "no_repair"
	NoResult           Reason = "no_result"
	NoSiteLeft         Reason = "no_site_left"
	OrphanResult       Reason = "orphan_result"
	RepeatedFailure    Reason = "repeated_failure"
	SiteBudget         Reason = "site_budget"
	TransientError     Reason = "transient_error"
	TurnNotSampled     Reason = "turn_not_sampled"
)

// Reasons of the host: what a builder or its process did.
const (
	BuilderFailed Reason = "builder_failed"
	BadReference  Reason = "bad_reference"
	NotUsed       Reason = "not_used"
	NoCandidates  Reason = "no_candidates"
	BadRecord     Reason = "bad_record"
	GroupTooLarge Reason = "group_too_large"
	PoisonGroup   Reason = "poison_group"
)

// Reasons of curation and writing.
const (
	BadRoles           Reason = "bad_roles"
	Duplicate          Reason = "duplicate"
	Contradiction      Reason = "contradiction"
	NotSampled         Reason = "not_sampled"
	FormatCannotCarry  Reason = "format_cannot_carry"
	SpecialTokenInText Reason = "special_token_in_content"
)

// Reasons of the collator: why a record makes no token row.
const (
	ArgsUnrenderable         Reason = "args_unrenderable"
	BadSampledIDs            Reason = "bad_sampled_ids"
	ContentNotText           Reason = "content_not_text"
	CutOffTurn               Reason = "cut_off_turn"
	EmptyPromptTokens        Reason = "empty_prompt"
	GenerationPromptMismatch Reason = "generation_prompt_mismatch"
	HintUnplaceable          Reason = "hint_unplaceable"
	InvariantBroken          Reason = "invariant_broken"
	MaskDisagreement         Reason = "mask_disagreement"
	NoSampledIDs             Reason = "no_sampled_ids"
	NotTokenizable           Reason = "not_tokenizable"
	OffPolicy                Reason = "off_policy"
	PartlyRendered           Reason = "partly_rendered"
	StraddleEdge             Reason = "straddle_edge"
	TemplateRefused          Reason = "template_refused"
	TooLong                  Reason = "too_long"
	TurnNotFound             Reason = "turn_not_found"
)

// Reasons of the teacher: why a sequence has no teacher log-probs, or a site has no weight.
const (
	HintNoEffect       Reason = "hint_no_effect"
	HintWrongWay       Reason = "hint_wrong_way"
	SiteBelowJSD       Reason = "site_below_min_jsd"
	TeacherBadAnswer   Reason = "teacher_bad_answer"
	TeacherUnavailable Reason = "teacher_unavailable"
)

// Reasons of an adapter: why a group was not handed to the trainer.
const (
	GroupBadNumber Reason = "group_bad_number"
	GroupBadRow    Reason = "group_bad_row"
	GroupBadShape  Reason = "group_bad_shape"
	GroupNoTarget  Reason = "group_nothing_trained"
	GroupNotScored Reason = "group_not_scored"
	GroupSame      Reason = "group_same_scores"
	GroupTooLong   Reason = "group_too_long"
	GroupWrongSize Reason = "group_wrong_size"
)

// Codes lists every reason and finding code, by area then code.
func Codes() []Code { return codes }

// Explain returns the page of a code.
func Explain(code string) (Code, bool) {
	for _, c := range codes {
		if c.Code == code {
			return c, true
		}
	}
	return Code{}, false
}

var codes = []Code{
	{"bad_example", "source", "An input entry is not an object, or lacks the list of steps or messages that its format requires.", "Check the entry named in dropped.jsonl; the keys can be set under sources."},
	{"bad_step", "source", "A recorded step does not have the shape of an intermediate step (NAT itself drops such steps without a word).", "See the detail in dropped.jsonl: it names the field."},
	{"identical_row", "source", "The same entry, byte for byte, stands in the input twice; the second is left out.", "Nothing, unless you meant it to count twice."},
	{"no_data", "source", "A TTC_END step has no data object.", "The workflow must fill data with input, output, turn_id and score."},
	{"no_turn_id", "source", "A candidate has no turn_id, so nothing says which others it competes with.", "Set turn_id in the workflow's TTCEventData."},
	{"no_score", "source", "A candidate has no score.", "Score every candidate, or accept that unscored ones can't be compared."},
	{"bad_score", "source", "A candidate's score is no number.", "Write the score as a number."},
	{"bad_turn_id", "source", "A candidate's turn_id is no string.", "Write turn_id as a string."},
	{"bad_candidate_index", "source", "A candidate's candidate_index is no integer.", "Write candidate_index as an integer."},
	{"bad_output", "source", "A candidate's output is no text, so it can't be what the model wrote.", "Record the model's text as output (NAT would train on the printed form of the Python object)."},
	{"other_step", "source", "A step that is no TTC_END event carries no candidate; counted so that the books balance.", "Nothing."},
	{"example_too_large", "source", "One input entry is larger than the limit for a single example.", "Raise sources.*.max_example_bytes or shorten the entry."},

	{"tie", "build", "Two candidates have the same score: neither is better, and a pair of them would teach noise.", "Nothing; use a finer scorer if there are many."},
	{"non_finite_score", "build", "The score is NaN or infinite.", "Fix the scorer."},
	{"failed_scorer", "build", "The scorer failed on this candidate (NAT writes 0.0 and reasoning.error); a failure is not a bad answer.", "Fix the scorer and evaluate again."},
	{"same_text", "build", "Chosen and rejected are the same text.", "Nothing."},
	{"empty_response", "build", "The candidate's output is empty.", "Nothing, or set the workflow to record the output."},
	{"different_prompt", "build", "No other candidate of this turn was given the same prompt, so it can't be compared.", "Give all candidates of a turn the same prompt."},
	{"answer_in_prompt", "build", "The recorded prompt already contains the answer; training on it teaches copying.", "Record the prompt before the model's reply is appended."},
	{"repr_prompt", "build", "The prompt is the printed form of a Python object rather than text or messages.", "Record messages as a list of {role, content}."},
	{"single_candidate", "build", "The turn has only one usable candidate, so there is nothing to compare it with.", "Sample at least two candidates a turn."},
	{"below_min_score_diff", "build", "Every pair this candidate could be in has a smaller margin than min_score_diff.", "Lower min_score_diff if you want closer pairs."},
	{"below_min_chosen_score", "build", "The better candidate scores below min_chosen_score.", "Lower min_chosen_score if you want weaker winners."},
	{"not_chosen_by_strategy", "build", "The strategy or its limit (max_pairs_per_turn) left this candidate in no pair.", "Choose another strategy or raise the limit."},
	{"other_step_name", "build", "The candidate belongs to another step than the builder's ttc_step_name.", "Set ttc_step_name, or add a builder for that step."},
	{"no_reward", "build", "The rollout has no score, so nothing says whether it is worth imitating.", "Score it, or set select: all."},
	{"below_min_score", "build", "The score does not reach min_score.", "Lower min_score if you want weaker examples."},
	{"not_best", "build", "Others of the same task or turn score better, and only the best n are imitated.", "Raise n."},
	{"nothing_to_train", "build", "The conversation has no turn that the model is known or assumed to have produced, or none that the loss policy trains.", "See assume_sampled of the source and the builder's train setting."},
	{"few_rollouts", "build", "The task has fewer scored rollouts than min_rollouts; it is left out whole.", "Sample more rollouts, or lower min_rollouts."},
	{"equal_rewards", "build", "All rewards of the task are equal, so every advantage is zero; it is left out whole (drop_equal_rewards).", "Nothing."},

	{"hint_contains_target", "build", "The hint repeats a run of words or tokens of the very turn it is for; such a teacher copies instead of judging.", "Write the hint without the answer, or raise hints.leak_run."},
	{"hint_failed", "build", "The source of hints failed at this site: a rule's template could not be rendered, or the hint command hung, ended or answered nonsense.", "See the detail. A failure of the command is kept in its answers' file; remove the line there to ask again."},
	{"hint_not_allowed", "build", "The only hint for this site is of a kind that hints.allow does not have. Hindsight teaches guessing where the model could not have known.", "Write a rule that says what the model could have known; or add hindsight to hints.allow."},
	{"hint_too_long", "build", "The hint is longer than hints.max_chars.", "Shorten it, or raise the limit."},
	{"next_turn_fails", "build", "The turn after the error failed, too, and is a site itself; it is no example of what to do.", "Nothing."},
	{"no_error_site", "build", "No tool call of the example failed, as far as the detectors can tell.", "Nothing; where errors were missed, add a pattern to detect.match."},
	{"no_hint", "build", "No source had a hint for this failed call.", "Add a rule for its class or text (hints.rules), or a source."},
	{"no_next_turn", "build", "After the error no turn of the model follows before the user speaks or the conversation ends.", "Nothing, or set target: failed_turn."},
	{"no_repair", "build", "No later call of the same tool made the failed one good, with other arguments, before the user spoke.", "Nothing."},
	{"no_result", "build", "The call has no result, so there is no place after it for a hint.", "Nothing, or set target: failed_turn."},
	{"no_site_left", "build", "Calls of the example failed, but none makes a site; each is listed with its own reason.", "See the drops of unit site."},
	{"orphan_result", "build", "A result that shows an error belongs to no call: no call before it has its id.", "Check how the trace was recorded."},
	{"repeated_failure", "build", "The same call failed in the same way just before; it counts once.", "Nothing."},
	{"site_budget", "build", "The example has more sites than max_sites_per_example.", "Raise the limit."},
	{"transient_error", "build", "A timeout, too many requests or a server that failed says nothing about the call.", "Nothing."},
	{"turn_not_sampled", "build", "The target turn was not produced by the model in this rollout (few-shot, copied, injected), so it is never trained.", "Nothing."},

	{"builder_failed", "build", "The builder reported an error for this group; other builders' records of it stand.", "See the detail; run `nat-go builders try` on the group."},
	{"no_candidates", "build", "The example has nothing to build from: no candidate that could be read, no message.", "See what was dropped of its steps; the workflow may have raised on it."},
	{"not_used", "build", "The builder used this in no record and gave no reason for leaving it out.", "Ask the builder's author to report drops; a candidate counts as used where a record refers to it."},
	{"bad_reference", "build", "The record refers to a candidate or message that its group doesn't have.", "A defect of the builder: report it to its author."},
	{"bad_record", "build", "The record breaks a rule of its kind (non-finite reward, no content), or its builder does not declare records of that kind.", "A defect of the builder: report it to its author."},
	{"group_too_large", "build", "The group is larger than the limit for one unit of work and is refused whole.", "Raise the limit or use a finer unit."},
	{"poison_group", "build", "The builder's process crashed or hung on this group, alone, again.", "See the process's last lines in the log; report to its author."},

	{"bad_roles", "gate", "The roles of the messages make no sense for training (no user turn, or the answer is not the assistant's).", "Check the builder's messages."},
	{"duplicate", "curate", "A record with the same prompt, chosen and rejected text was already kept.", "Nothing; set deduplicate_pairs: false to keep repeats."},
	{"contradiction", "curate", "Elsewhere in the data the same prompt prefers the two texts the other way round, by the same score.", "Nothing, or look at the scorer's noise."},
	{"not_sampled", "curate", "max_pairs is smaller than the number of records; this one was not drawn.", "Raise max_pairs."},

	{"format_cannot_carry", "write", "The row format has no place for this record; other formats may have it.", "Choose a format that can carry it (`nat-go formats`)."},
	{"special_token_in_content", "write", "The text contains a special token of the model, which a text format would turn into control tokens.", "Use token batches, or clean the text."},

	{"args_unrenderable", "collate", "A tool call's arguments are not JSON, or change value when parsed and printed, and the template can't show the text the model wrote: the row would train on what was never sampled.", "Nothing, or use a template that prints argument strings as they are."},
	{"bad_sampled_ids", "collate", "The source's token ids don't fit: another number of log-probs than ids, ids beyond the vocabulary, or log-probs that are no numbers.", "Check the source and that collator.tokenizer is the tokenizer of the model that sampled."},
	{"content_not_text", "collate", "A message holds an image or another part that is no text; token batches carry text only.", "Leave such examples to a trainer that reads them."},
	{"cut_off_turn", "collate", "The trained turn was cut off by the length limit (finish_reason: length), so it has no end and can't be compared with one that has.", "Sample with a higher limit."},
	{"empty_prompt", "collate", "There is no token before the answer, so nothing predicts its first token.", "Give the record a prompt."},
	{"generation_prompt_mismatch", "collate", "What the template puts before a turn at sampling time is not what stands before it in the rendered conversation, with thinking switched off either.", "Use rows: turn, or the template the model was sampled with."},
	{"hint_unplaceable", "collate", "The chat template has no way to show a hint before the turn - as a system message, a user's, or at the end of the message before - without changing anything else.", "`nat-go chat probe` shows what the template does; nothing is trained on a guess."},
	{"invariant_broken", "collate", "The finished row failed a check of its own (see the detail); it is not written.", "A defect of nat-go or of the template: please report it."},
	{"mask_disagreement", "collate", "Two ways to find the model's turns in the rendered text (origin of bytes, prefixes, the template's generation markers) disagree.", "Look at the conversation with `nat-go chat mask`; the template treats it specially."},
	{"no_sampled_ids", "collate", "The rl channel needs the token ids that were sampled, and the source has none; ids made from text may be others.", "Record token ids (and log-probs) when sampling."},
	{"not_tokenizable", "collate", "The tokenizer refused the text (lone surrogate, too long).", "See the detail."},
	{"off_policy", "collate", "The rl channel takes only what the model to be trained has sampled itself; this was another model, or nothing says which.", "Set collator.policy and the source's policy key."},
	{"partly_rendered", "collate", "The chat template leaves out a part of the turn (its tool calls, some of them, or the text beside them), so the row would train on less than was sampled; other turns of the rollout stand.", "Use a template that prints the whole of it."},
	{"straddle_edge", "collate", "A token lies across the edge of a trained turn: the ids are not those the model would have seen or sampled.", "Nothing: with sampled token ids in the source it can be kept."},
	{"template_refused", "collate", "The chat template refused the conversation or failed on it.", "See the detail; `nat-go chat render` shows the place in the template."},
	{"too_long", "collate", "The row is longer than collator.max_length, and cutting it would lose what is trained.", "Raise collator.max_length."},
	{"turn_not_found", "collate", "A turn of the conversation is not to be found in what the template made of it.", "`nat-go chat probe` shows what the template does to messages."},
	{"hint_no_effect", "teacher", "The hint moves the teacher's view of the target tokens no more than a neutral one in its place does: there is nothing to learn from it.", "Write hints that say what was wrong, or lower the least effect."},
	{"hint_wrong_way", "teacher", "The hint moves the target tokens the wrong way: a failed turn has to become less likely under it, the next turn more likely.", "Look at the hint; it may praise the mistake."},
	{"site_below_min_jsd", "teacher", "Teacher and student hardly differ at this site: their mean divergence is below the least one asked for.", "Lower the least divergence to keep it."},
	{"teacher_bad_answer", "teacher", "The teacher's answer for the sequence can't be used: wrong length, missing positions, ids outside the vocabulary, or numbers that are no log-probs.", "See the detail; check the server's version and its limit of log-probs."},
	{"teacher_unavailable", "teacher", "The teacher gave no answer for the sequence, after several tries, or refused it.", "Check the server and resume; a refusal may mean that the sequence is too long for it."},

	{"group_bad_number", "submit", "A number of the group is not finite; Atropos would lose the whole batch it is in.", "Fix the scorer or the log-probs."},
	{"group_bad_row", "submit", "A line of the rows is no JSON object of a scored group.", "Write the data set again."},
	{"group_bad_shape", "submit", "Lists of the group that belong together differ in length, or a mask is neither its token nor -100.", "Write the data set again; report it where nat-go wrote it."},
	{"group_nothing_trained", "submit", "No token of the group is trained.", "Nothing."},
	{"group_not_scored", "submit", "A sequence of the group has no reward.", "Score every rollout of the task."},
	{"group_same_scores", "submit", "All scores of the group are equal, which gives no advantage to learn from.", "Nothing; or set skip_same_scores: false."},
	{"group_too_long", "submit", "A sequence of the group is as long as the trainer's limit.", "Raise the trainer's max_token_len, or shorten the rows."},
	{"group_wrong_size", "submit", "The group has another number of sequences than group_size; Atropos would keep it for ever.", "Sample the same number of rollouts for each task."},

	{"NG1001", "config", "The configuration file can't be read.", "Check the path and its permissions."},
	{"NG1002", "config", "The text is not YAML (or not UTF-8).", "Look at brackets, quotes, colons and indentation at the place and on the line before; indent with spaces."},
	{"NG1003", "config", "The file is far larger than any configuration.", "Check that the path names the configuration and not a data file."},
	{"NG1004", "config", "Values are nested too deeply.", "Flatten the configuration."},
	{"NG1005", "config", "Aliases of aliases expand to too many values.", "Write the values out."},
	{"NG1006", "config", "The file has no settings.", "Write a configuration, or let `nat-go init` write one."},
	{"NG1007", "config", "A key is set twice in one mapping; YAML readers silently keep one of the two.", "Remove one."},
	{"NG1008", "config", "The configuration is not a mapping of sections.", "Start with a section, for example `finetuning:`."},
	{"NG1009", "config", "The file holds more than one YAML document.", "Keep one; remove the line ---."},
	{"NG1010", "config", "A key is a list or a mapping.", "Write `name: value`."},
	{"NG1011", "config", "An alias contains itself.", "Write the value out."},
	{"NG1012", "config", "`<<` does not name a mapping.", "Name an anchor of a mapping."},
	{"NG1013", "config", "Files inherit from each other through `base:` in a circle, or too deep.", "Remove one `base:`."},
	{"NG1014", "config", "The file that `base:` names can't be used.", "Check the path; it is relative to the file that names it."},
	{"NG1015", "config", "A variable is not set and has no default. NAT would take an empty text and go on.", "Set the variable, or write ${NAME:-default}."},
	{"NG1016", "config", "A ${...} is not closed or has no valid name.", "Write ${NAME} or ${NAME:-default}; for a literal dollar sign and brace write $${."},
	{"NG1017", "config", "The file that a file:// value names can't be used.", "Check the path, relative to the file that names it, and the extension (.txt .md .j2 .jinja2 .jinja .prompt .tpl .template)."},
	{"NG1018", "config", "A section has more findings than are shown.", "Correct those that are shown first."},
	{"NG1101", "config", "An override is not PATH VALUE or PATH=VALUE.", "Write -o finetuning.num_epochs=5."},
	{"NG1102", "config", "An override names a setting that does not exist. NAT ignores such an override silently.", "Use the path that is suggested; `nat-go schema` lists all."},
	{"NG1103", "config", "An override's path leads through a value that has no keys.", "Override the value itself."},
	{"NG1201", "config", "A key is not known here. NAT ignores unknown keys of components silently, and the setting has no effect.", "Use the suggested key or remove it; `nat-go schema` lists all. With --compat nat it is a warning."},
	{"NG1202", "config", "A value has the wrong type.", "Write the type that the message names."},
	{"NG1203", "config", "A number, duration or size is out of range.", "Write a value in the range that the message names."},
	{"NG1204", "config", "A required setting is missing.", "Add it where the message says."},
	{"NG1205", "config", "A value is not one of those allowed.", "Write one of the allowed values."},
	{"NG1206", "config", "A key has no value (null).", "Write a value, or remove the key to use its default."},
	{"NG1207", "config", "A number is NaN or infinite.", "Write a finite number."},
	{"NG1208", "config", "A duration can't be read.", "Write a number and a unit: 10s, 5m, 1h30m."},
	{"NG1209", "config", "A size can't be read.", "Write a number and a unit: 512MiB, 1GiB."},
	{"NG1210", "config", "A value breaks a rule of its section.", "See the rule in the message."},
	{"NG1211", "config", "The same setting is written under two of its names.", "Keep one."},
	{"NG1212", "config", "A text or list is too short or too long.", "See the limit in the message."},
	{"NG1213", "config", "A text does not have the required form.", "See the pattern in the message."},
	{"NG1214", "config", "A secret stands in the file in clear. It is masked in all output, but whoever reads the file has it.", "Write ${VARIABLE} and set the variable."},
	{"NG1301", "config", "A component has no `_type`.", "Add `_type: ...`; the message lists the types."},
	{"NG1302", "config", "A component's `_type` is not known.", "Use the suggested type; `nat-go builders list` shows the builders."},
	{"NG1303", "config", "A builder's `_type` names a plugin that is not there.", "Add it under plugins, or correct the name."},
	{"NG1304", "config", "A name does not exist in its section.", "Use the suggested name or add the component."},
	{"NG1305", "config", "Fine-tuning is enabled but does not say with what.", "Add the key that the message names."},
	{"NG1306", "config", "Fine-tuning is not enabled, so a run refuses to start.", "Set finetuning.enabled: true."},
	{"NG1307", "config", "Sections that belong to NAT and not to nat-go were passed over.", "Nothing."},
	{"NG1308", "config", "A component of NAT's that nat-go does not have. It is not used by finetuning, so it does no harm.", "Nothing."},
	{"NG1309", "config", "A builder is named twice in finetuning.trajectory_builder.", "Name it once."},
	{"NG1310", "config", "A setting has no effect in nat-go.", "See the message for what to use instead."},
	{"NG1311", "config", "NAT keeps only LLM_END and TOOL_END steps in workflow_output.json unless told otherwise: there would be no candidates.", "Set eval.general.output.workflow_output_step_filter: [TTC_END]."},
	{"NG1401", "config", "A builder works on tasks (several rollouts of one problem), which --compat nat does not form: there a collection run is one group.", "Run it without --compat nat."},
	{"NG1402", "config", "A plugin whose builder the configuration names could not be found, started, or asked about its settings.", "See the message; `nat-go plugins list` shows what is found, `validate --no-plugins` starts nothing."},
	{"NG1403", "config", "A plugin refuses its builder's settings, for a reason that their schema can't express.", "See the message, which is the plugin's own."},

	{"NG5001", "dataset", "A row can't be read as its format asks: no JSON, a missing, unknown or repeated key, or a value of the wrong kind. A trainer would fail on it, or worse, read something else.", "Write the data set again (`nat-go dataset convert`); rows are not made to be edited by hand."},
	{"NG5002", "dataset", "Rows of one file have different shapes: some hold text and some messages. Loaders take the type of a column from the first rows.", "Keep each shape in a file of its own."},
	{"NG5003", "dataset", "The same row stands in training and in validation: the validation score tells how well it was learned by heart.", "Split again, by task or example (dataset.split)."},
	{"NG5004", "dataset", "A prompt stands in training and in validation: the validation score does not measure new prompts.", "Split again, by task or example (dataset.split)."},
	{"NG5005", "dataset", "A row teaches nothing or the wrong thing: its answer is empty, or chosen and rejected are equal.", "Look at the builder that made it; outside compat the gate drops such records."},
	{"NG5006", "dataset", "The same row stands more than once in one file; it counts that many times in training.", "Nothing if that is meant; else set deduplicate_pairs: true."},
	{"NG5007", "dataset", "For one prompt, one row prefers A to B and another B to A.", "Nothing if they are by different scores; else set dataset.contradictions: drop."},
	{"NG5008", "dataset", "rows.jsonl and the rows don't agree: a row has no origin, or an origin no row.", "The files were changed after the run, or are of different runs: write the data set again."},
	{"NG5009", "dataset", "The manifest and a file don't agree in rows, bytes or hash, or one of them is missing.", "The file was changed after the run: write the data set again, or don't trust it."},
	{"NG5010", "dataset", "Examples have rows in training and in validation.", "Split by example or task (dataset.split.by) unless that is meant."},
	{"NG5011", "dataset", "A token batch is not what its line in batches/index.jsonl, its proof and the tokenizer say: another file, masks or labels that don't follow from the rows, or tokens that are not the text they were made of.", "The file was changed after the run, or the tokenizer is another one: run again, or name the tokenizer the run had."},
}
