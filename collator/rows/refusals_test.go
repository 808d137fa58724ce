package rows

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// refused says of each refusal whose code or page it follows: the consumer's package, version, file and line, or the
// page of a service. Ours are about what a format holds by its nature, or what the row would be without.
var refused = map[string]string{
	// Consumers whose code was read.
	"the format cannot hold the tools that the model could call":                      "NeMo RL 0.6.0 (7ea279ab) nemo_rl/data/processors.py:267-272: get_formatted_message_log gets no tools",
	"a file with prompt_as: text holds only plain text, but this record has messages": "TRL 1.16 trainer/dpo_trainer.py:1080, kto_trainer.py:1092: is_conversational decides by row, and datasets gives a column one type",
	"a file with prompt_as: text holds only plain text, but this record has tools":    "TRL 1.16 trainer/dpo_trainer.py:1076-1080, kto_trainer.py:1089-1092: tools go to the template, which texts don't get",
	"cannot mask only the reasoning of message %d (train_reasoning: false): %s": "TRL 1.16 trainer/sft_trainer.py:1372 (completion_mask), verl 0.9.1 utils/dataset/multiturn_sft_dataset.py:235 (all of a turn), " +
		"Axolotl 0.19.0 prompt_strategies/chat_template.py:560-596 (a turn's text, but then not its calls), 872-892 (find_turn puts a text in place of the turn's own)",
	"the trainer trains on every assistant turn, but the first one, message %d, is context only":        "verl 0.9.1 utils/dataset/multiturn_sft_dataset.py:234-237",
	"message %d, between sampled turns, was not sampled, but the trainer trains on all of a completion": "TRL 1.16 trainer/kto_trainer.py (tokenize_fn): all tokens after the prompt's are the completion's",
	"message %d is not the result of the next call, and the format cannot hold ids":                     "ms-swift 4.6.0 agent_template/hermes.py:25-29: results are positional",
	"message %d is a result without a preceding call":                                                   "ms-swift 4.6.0 agent_template/hermes.py:25-29, template/base.py:373-410",
	"the arguments of a call to %q are not a JSON object":                                               "ms-swift 4.6.0 agent_template/base.py:132-137, Axolotl 0.19.0 prompt_strategies/chat_template.py transform_message (json.loads), and templates of Hugging Face, which iterate over them",
	"message %d has the role %q, which the consumer does not support": "ms-swift 4.6.0 dataset/preprocessor/core.py:101, OpenAI's guide to supervised fine-tuning, " +
		"NeMo Gym 0.7.0 nemo_gym/openai_utils.py:293-295 (NeMoGymEasyInputMessage.role)",
	"the content of the %s message is not text": "ms-swift 4.6.0 dataset/preprocessor/core.py:102, template/base.py:300 (content is concatenated), " +
		"NeMo Helix 0.8.1 nhx/rl/tasks/training/datasets/schemas.py:38 (ChatMessage.content is a text), and in NeMo Gym ours: nat-go has no images",
	"the %s message is part of a tool call, whose shape Parquet would change": "verl 0.9.1 utils/dataset/rl_dataset.py:299-389: messages come from the column as they are, with nulls for missing keys",
	"the %s message %s": "verl 0.9.1 utils/dataset/rl_dataset.py:299-389, as above",

	"the %s message has tool calls": "NeMo RL 0.6.0 (7ea279ab) nemo_rl/data/datasets/preference_datasets/binary_preference_dataset.py:70-95 (answers are texts), " +
		"NeMo Helix 0.8.1 nhx/rl/tasks/training/datasets/schemas.py:34-38,87-90 (messages are role and content), NeMo Customizer v1 by NAT 1.9.0 " +
		"nat/plugins/customizer/dpo/trainer_adapter.py:139-181 (prompts are role and content, responses are texts)",
	"the %s side is more than one assistant turn": "NeMo RL 0.6.0 (7ea279ab) nemo_rl/data/collate_fn.py:198-202 (only_unmask_final), binary_preference_dataset.py:70-95; " +
		"NAT 1.9.0 nat/plugins/customizer/dpo/trainer_adapter.py:177-181; OpenAI's guide to direct preference optimization (conversations of one turn)",
	"rollout %d of the task has no reward":                                                      "atroposlib 0.4 api/server.py:138: ScoredData.scores is required",
	"message %d of rollout %d has no token ids: use token batches (collator.tokenizer) instead": "atroposlib 0.4 api/server.py:136-137: ScoredData.tokens and masks are required",
	"no hint is about a turn that answers a user: TRL puts the hint into the user's message": "TRL 1.16 experimental/sdft/sdft_trainer.py:161-170: " +
		"_compose_teacher_prompt replaces the last message by a user's",
	"the %s message lacks its call's id":       "NeMo Gym 0.7.0 nemo_gym/openai_utils.py:308-323: call_id of NeMoGymFunctionCallOutput and NeMoGymResponseFunctionToolCall",
	"the tool %q is not defined as a function": "NeMo Gym 0.7.0 nemo_gym/openai_utils.py:829 (tools: List[ToolParam]), openai 3.57.0 types/responses/function_tool_param.py (name is required)",

	// A service, of which only its specification says something.
	"the %s message has reasoning, which the format cannot hold": "OpenAI API 2.3.0 (f85dbe22) openapi.yaml:31216-31275, 39895-39908: an assistant's message has content, refusal, " +
		"role, name, audio, tool_calls, function_call and weight",

	// Ours.
	"the format holds only %s": "ours",
	"the format's prompts are rendered with the model's template: specify the model's folder (collator.tokenizer)": "ours",

	"the model's template rejects the prompt: %v":                                                "ours",
	"no token of rollout %d was sampled":                                                         "ours",
	"no turn of the record is trained on":                                                        "ours",
	"the %s side doesn't begin and end with an assistant turn":                                   "ours",
	"missing prompt: no message comes before the first sampled turn":                             "ours",
	"cannot label the rollout good or bad: it lacks a reward, or all rollouts of its task ":      "ours",
	"the prompt has no messages, and trainers look at its last one":                              "ours",
	"a text contains half a surrogate pair, which makes most JSON readers reject the whole file": "ours",
	"the text %.40q is not UTF-8":                                                                "ours",
	"a message of role %s has a part of type %q":                                                 "ours: nat-go has no images",
}

// TestRefusalsFollowTheirConsumers: each refusal in this package is on the list, which says whose code it follows, and
// the list has no others.
func TestRefusalsFollowTheirConsumers(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	left := maps.Clone(refused)
	refusal := regexp.MustCompile(`e\.refused?\((?:dst, )?\s*"((?:[^"\\]|\\.)*)"`)
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range refusal.FindAllStringSubmatch(string(text), -1) {
			if refused[m[1]] == "" {
				t.Errorf("%s: %q follows nobody's code", name, m[1])
			}
			delete(left, m[1])
		}
	}
	for _, why := range slices.Sorted(maps.Keys(left)) {
		t.Errorf("nothing is refused with %q any more", why)
	}
}
