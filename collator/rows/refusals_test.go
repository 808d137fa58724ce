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
	"it has no place for the tools that the model could call":                          "NeMo RL 006a7dad nemo_rl/data/processors.py preference_preprocessor: get_formatted_message_log gets no tools",
	"with prompt_as: text a file holds plain texts only, and this record has messages": "TRL 1.16 trainer/dpo_trainer.py:1080, kto_trainer.py:1092: is_conversational decides by row, and datasets gives a column one type",
	"with prompt_as: text a file holds plain texts only, and this record has tools":    "TRL 1.16 trainer/dpo_trainer.py:1076-1080, kto_trainer.py:1089-1092: tools go to the template, which texts don't get",
	"train_reasoning is false, and its trainer would train the reasoning of message %d ": "TRL 1.16 trainer/sft_trainer.py:1372 (completion_mask), verl 0.9.1 utils/dataset/multiturn_sft_dataset.py:235 (all of a turn), " +
		"Axolotl 0.19.0 prompt_strategies/chat_template.py:560-596 (parts of a turn, but then not its calls)",
	"the trainer trains every assistant turn, and the first, message %d, is context only": "verl 0.9.1 utils/dataset/multiturn_sft_dataset.py:234-237",
	"message %d is not the result of the next call, and it has no place for ids":          "ms-swift 4.6.0 agent_template/hermes.py:25-29: results are positional",
	"message %d is the result of no call before it":                                       "ms-swift 4.6.0 agent_template/hermes.py:25-29, template/base.py:373-410",
	"the arguments of a call of %q are not a JSON object":                                 "ms-swift 4.6.0 agent_template/base.py:132-137, Axolotl 0.19.0 prompt_strategies/chat_template.py transform_message (json.loads), and templates of Hugging Face, which iterate over them",
	"message %d has the role %q, which it doesn't know":                                   "ms-swift 4.6.0 dataset/preprocessor/core.py:101",
	"the content of the %s message is not text":                                           "ms-swift 4.6.0 dataset/preprocessor/core.py:102, template/base.py:300 (content is concatenated)",
	"the %s message is part of a tool call, of which Parquet would change the shape":      "verl 0.9.1 utils/dataset/rl_dataset.py:299-389: messages come from the column as they are, with nulls for missing keys",
	"the %s message %s": "verl 0.9.1 utils/dataset/rl_dataset.py:299-389, as above",

	// Services, of which only pages say something.
	"the %s message has reasoning, for which it has no place":                                "OpenAI API 2.3 FineTuneChatRequestInput: messages have no member for it",
	"the %s message has tool calls":                                                          "NeMo Customizer v1: chosen_response and rejected_response are texts; NeMo RL 006a7dad BinaryPreferenceDataset.format_data, as well",
	"the %s side is more than one assistant turn":                                            "NeMo RL 006a7dad nemo_rl/data/collate_fn.py preference_collate_fn (only_unmask_final); OpenAI API 2.3 FineTunePreferenceRequestInput",
	"rollout %d of the task has no reward":                                                   "atroposlib 0.4 api/server.py ScoredData: scores is required",
	"message %d of rollout %d has no token ids: token batches (collator.tokenizer) carry it": "atroposlib 0.4 api/server.py ScoredData: tokens is required",

	"none of its hints is about a turn that answers a user: TRL puts the hint into the last message": "TRL 1.16 experimental/sdft/sdft_trainer.py:161-170 _compose_teacher_prompt replaces the last message",
	"the %s message has no id of its call":     "NeMo Gym 0.4.0 NeMoGymResponseCreateParamsNonStreaming: call_id is required in FunctionCallOutput and ResponseFunctionToolCall",
	"the tool %q is not defined as a function": "NeMo Gym 0.4.0 NeMoGymResponseCreateParamsNonStreaming: tools are FunctionToolParam",

	// Ours.
	"it holds states only: prompts of messages without an answer":                                      "ours",
	"its prompts are texts made by the model's template: name the model's folder (collator.tokenizer)": "ours",
	"the model's template refuses it: %v":                                                              "ours",
	"the %s message has reasoning or parts that are no text, for which it has no place":                "ours",
	"it holds hints only":                                                  "ours",
	"no token of rollout %d was sampled":                                   "ours",
	"it holds rollouts only":                                               "ours",
	"it holds preferences only":                                            "ours",
	"it holds demonstrations only":                                         "ours",
	"it holds preferences and demonstrations only":                         "ours",
	"it holds preferences and rollouts only":                               "ours",
	"it holds prompts of rollouts, and demonstrations":                     "ours",
	"none of its turns is trained":                                         "ours",
	"the %s side doesn't begin and end with a turn of the assistant":       "ours",
	"it has no prompt: nothing in it comes before a turn that was sampled": "ours",
	"nothing says whether it is good: it has no reward, or all rollouts of its task have the same ": "ours",
	"the prompt has no messages, and trainers look at its last one":                                 "ours",
	"a text has half of a surrogate pair, for which most readers of JSON refuse the whole file":     "ours",
	"the text %.40q is not UTF-8":                "ours",
	"a message of role %s has a part of type %q": "ours: nat-go has no images",
}

// TestRefusalsFollowTheirConsumers: each refusal in this package is on the list, which says whose code it follows, and
// the list has no others.
func TestRefusalsFollowTheirConsumers(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	left := maps.Clone(refused)
	refusal := regexp.MustCompile(`e\.refuse\(\s*"((?:[^"\\]|\\.)*)"`)
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
