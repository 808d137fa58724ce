package candidates

import "github.com/nat-go/nat-go/ttc/source/internal/source"

// Factory returns this source's factory, which a configuration selects by its type.
func Factory() source.Factory {
	return source.Files(source.Factory{
		Type: "candidates", Doc: "scored candidates as JSON lines", File: fileName,
		Recognize: recognize, Wrapped: true,
		Same: map[string]string{"response_key": "output_key", "reward_key": "score_key"},
	}, func(c *Config) *[]string { return &c.Path }, Open)
}

// Config is `sources.<name>` with `_type: candidates`.
type Config struct {
	Path       []string `yaml:"path" scalar:"true" aka:"file,files,input,inputs,from" doc:"files or patterns; each file is a collection run"`
	EntriesKey string   `yaml:"entries_key" doc:"key of the list of entries, such as data or rows, if a file is one object; empty: the file itself consists of the entries"`
	Shape      string   `yaml:"shape" default:"plain" validate:"oneof=plain oasst shp helpsteer3 arena saferlhf webgpt verl lm_eval" doc:"shape of the entries: plain uses the keys below; the other shapes are for published data sets, verl and lm_eval, whose keys are fixed"`
	IDKey      string   `yaml:"id_key" default:"id" doc:"key of the example's id; lines without one belong together if their prompts are equal"`
	TaskKey    string   `yaml:"task_key" default:"task_id" doc:"key of the value that a problem's trials share"`
	Keys       `yaml:",inline"`
	MaxLine    int64 `yaml:"max_line_bytes" default:"16777216" validate:"gte=1024" doc:"max bytes of a line; longer lines are dropped"`
	MaxExample int   `yaml:"max_candidates_per_example" default:"100000" validate:"gte=1" doc:"max number of lines or answers with the same id; more are an error"`
	MaxBytes   int64 `yaml:"max_example_bytes" default:"16777216" validate:"gte=1024" doc:"max total bytes of the lines with the same id, or max_line_bytes if that is larger; more are an error"`
	MaxEmpty   int64 `yaml:"max_empty_entries" default:"1000000" validate:"gte=1" doc:"number of consecutive unusable entries after which the run fails, because the file is probably of another kind"`
}

// Keys holds the key names of a candidate's parts.
type Keys struct {
	TurnKey     string `yaml:"turn_key" default:"turn_id" doc:"key of the turn; a line without it belongs to the example's only turn"`
	IndexKey    string `yaml:"index_key" default:"candidate_index" doc:"key of the candidate's index; without it, candidates are numbered within their turn"`
	PromptKey   string `yaml:"prompt_key" default:"prompt" doc:"key of the prompt: text or messages"`
	OutputKey   string `yaml:"output_key" default:"output" doc:"key of the model's answer: text, or a list of answers with a list of scores"`
	AnswerKey   string `yaml:"answer_key" doc:"key of the text in an answer that is an object: output_key is then a list of objects, each with its own score_key"`
	ContextKey  string `yaml:"context_key" doc:"key of text to append to a text prompt, such as the passage that a question is about"`
	SystemKey   string `yaml:"system_key" doc:"key of a system message given separately from the prompt"`
	Transcripts string `yaml:"transcripts" default:"keep" validate:"oneof=keep split" doc:"whether to keep a prompt such as Human: ... Assistant: ... as text, or split it into messages"`
	ScoreKey    string `yaml:"score_key" default:"score" doc:"key of the score: a number"`
	MetadataKey string `yaml:"metadata_key" default:"metadata" doc:"key of an object to keep as the candidate's metadata"`
	ModelKey    string `yaml:"model_key" default:"model" doc:"key of the model that wrote the output"`
	StepName    string `yaml:"step_name" default:"dpo_candidate_move" doc:"the candidates' step name, by which builders select them (ttc_step_name)"`
}

// fileName is the file to look for if a folder is given.
const fileName = "candidates.jsonl"
