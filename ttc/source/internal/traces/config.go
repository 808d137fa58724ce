package traces

import (
	"github.com/nat-go/nat-go/ttc/source/internal/candidates"
	"github.com/nat-go/nat-go/ttc/source/internal/source"
)

// Factory returns this source's factory, which a configuration selects by its type.
func Factory() source.Factory {
	return source.Files(source.Factory{
		Type: "traces", Doc: "agent runs in the OpenAI chat format, as JSON lines or one array", File: fileName,
		Recognize: recognize, Wrapped: true,
		Same: map[string]string{"output_key": "response_key", "score_key": "reward_key"},
	}, func(c *Config) *[]string { return &c.Path }, Open)
}

// PairsFactory returns the factory of the same source for files that contain only ready-made pairs, or several
// models' answers.
func PairsFactory() source.Factory {
	return source.Files(source.Factory{
		Type: "pairs", Doc: "ready pairs {prompt, chosen, rejected}, or scored answers to one prompt",
		File: "pairs.jsonl",
	}, func(c *Config) *[]string { return &c.Path }, Open)
}

// Config is `sources.<name>` with `_type: traces`.
type Config struct {
	Path        []string `yaml:"path" scalar:"true" aka:"file,files,input,inputs,from" doc:"files or patterns; each file is a collection run"`
	EntriesKey  string   `yaml:"entries_key" doc:"key of the list of entries, such as data or rows, if a file is one object; empty: the file itself consists of the entries"`
	Shape       string   `yaml:"shape" default:"plain" validate:"oneof=plain capybara squad xlam chatgpt opencode inspect_ai r2e ai_sdk" doc:"shape of the entries: plain uses the keys below; the other shapes are for published data sets and stored sessions, which have their messages and tools elsewhere"`
	IDKey       string   `yaml:"id_key" default:"id" doc:"key of the rollout's id (trace_id is tried as well); without one, the id is task/trial, or the row"`
	MessagesKey string   `yaml:"messages_key" default:"messages" doc:"key of the list of messages (traj and turns are tried as well)"`
	RoleKey     string   `yaml:"role_key" doc:"key, in a message, of its role; empty: role, from, speaker, sender or who"`
	ContentKey  string   `yaml:"content_key" doc:"key, in a message, of its content; empty: content, value, text, message or said"`
	ToolsKey    string   `yaml:"tools_key" default:"tools" doc:"key of the list of tool definitions (functions is tried as well)"`
	ToolsFile   string   `yaml:"tools_file" doc:"JSON file with the tools for rollouts without a list of tools"`
	RewardKey   string   `yaml:"reward_key" default:"reward" doc:"key of the rollout's score: a number; null means no score (final_reward is tried as well)"`
	TaskKey     string   `yaml:"task_key" default:"task_id" doc:"key of the value that a problem's trials share"`
	TruthKey    string   `yaml:"ground_truth_key" default:"ground_truth" doc:"key of the value that a checker compares with"`
	TrialKey    string   `yaml:"trial_key" default:"trial" doc:"key of the rollout's number within its task"`
	PolicyKey   string   `yaml:"policy_key" default:"model" doc:"key of the model that sampled the rollout or a message"`
	TokenIDsKey string   `yaml:"token_ids_key" default:"token_ids" doc:"key, in a message, of the token ids the model wrote or saw"`
	LogProbsKey string   `yaml:"logprobs_key" default:"logprobs" doc:"key, in a message, of the log-probs of its token ids: numbers, or the chat API's format"`
	FinishKey   string   `yaml:"finish_reason_key" default:"finish_reason" doc:"key of the reason why the model stopped, in a message or, for the last one, in the rollout"`
	SamplingKey string   `yaml:"sampling_key" default:"sampling" doc:"key of {temperature, top_p, processed}: how the rollout was sampled"`

	OverridesKey string `yaml:"group_overrides_key" default:"group_overrides" doc:"key of a rollout's overrides of collator.teacher for its task, {teacher_top_k, skip_teacher_top_k}: teacher_top_k replaces top_k (0 or less: only the log-prob of each token; with protocol atropos, one log-prob), and skip_teacher_top_k skips the teachers"`

	CandidatesKey string `yaml:"candidates_key" default:"candidates" doc:"key of a list of scored answers to single turns, as in the source candidates"`

	PairsKey string `yaml:"pairs_key" default:"dpo_pairs" doc:"key of a list of ready-made pairs {state_messages or prompt, chosen, rejected}; an entry without messages may itself be one"`

	PromptKey   string `yaml:"prompt_key" default:"prompt" doc:"key of the prompt in a pair, or in an entry that consists of a prompt and an answer"`
	ResponseKey string `yaml:"response_key" default:"response" doc:"key of the answer in an entry without messages; with its prompt it forms a conversation"`
	ContextKey  string `yaml:"context_key" doc:"key of text to append to a text prompt, like an instruction's input"`
	SystemKey   string `yaml:"system_key" default:"system" doc:"key of a system message given separately from the conversation or the prompt"`
	HistoryKey  string `yaml:"history_key" default:"history" doc:"key of the turns before a text prompt: a list of [prompt, answer], or messages"`
	Transcripts string `yaml:"transcripts" default:"keep" validate:"oneof=keep split" doc:"whether to keep a text such as Human: ... Assistant: ... as it is, or split it into messages"`
	ChosenKey   string `yaml:"chosen_key" default:"chosen" doc:"key of the better side of a pair"`
	RejectedKey string `yaml:"rejected_key" default:"rejected" doc:"key of the worse side of a pair"`

	FirstKey  string `yaml:"first_key" doc:"key of the first of two answers; the label under choice_key chooses the better one"`
	SecondKey string `yaml:"second_key" doc:"key of the second of the two answers"`
	ChoiceKey string `yaml:"choice_key" doc:"key of the label that chooses between first_key and second_key: left or right, first or second, or the ending of their names (answer1: 1, response_b: b); a tie doesn't form a pair"`

	ChosenScoreKey   string `yaml:"chosen_score_key" default:"chosen_score" doc:"key of the better side's score (score_chosen is tried as well); unless both scores are given, they are 1 and 0"`
	RejectedScoreKey string `yaml:"rejected_score_key" default:"rejected_score" doc:"key of the worse side's score (score_rejected is tried as well)"`

	ReplaysKey string `yaml:"replays_key" default:"replays" doc:"key of a list of states that several models answered, {state_messages, answers: [{content, score, teacher}]}, which are paired by score"`
	AnswersKey string `yaml:"answers_key" default:"answers" doc:"key, in a state, of the list of its answers; an entry without messages may itself be a state"`

	CandidateKeys candidates.Keys `yaml:"candidate_keys" doc:"key names in the answers listed under candidates_key; step_name also applies to pairs and replays"`

	AssumeSampled string `yaml:"assume_sampled" default:"assistant" validate:"oneof=assistant last none" doc:"assistant messages to treat as produced by the model in this rollout, if the trace doesn't say: all, only the last, or none"`
	MaxExample    int64  `yaml:"max_example_bytes" default:"16777216" validate:"gte=1024" doc:"max bytes of a rollout; larger rollouts are dropped"`
	MaxObjects    int64  `yaml:"max_example_objects" default:"100000" validate:"gte=100" doc:"max number of objects and lists in a rollout; rollouts with more are dropped"`
	MaxEmpty      int64  `yaml:"max_empty_entries" default:"1000000" validate:"gte=1" doc:"number of consecutive unusable entries after which the run fails, because the file is probably of another kind"`
}

// fileName is the file to look for if a folder is given.
const fileName = "traces.jsonl"
