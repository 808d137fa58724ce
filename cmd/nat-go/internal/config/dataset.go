package config

import "github.com/nat-go/nat-go/ttc/source/scores"

// Dataset is the section `dataset`: what is made from the records.
type Dataset struct {
	Formats        []string       `yaml:"formats" scalar:"true" nullable:"true" doc:"row formats to write; without it the adapter's own, else trl (see nat-go formats)" example:"[trl, customizer]"`
	Split          Split          `yaml:"split" doc:"what is kept apart for validation"`
	PromptAs       string         `yaml:"prompt_as" default:"user_message" validate:"oneof=user_message text" doc:"how a prompt that is a plain text is written where a format takes messages"`
	Turns          string         `yaml:"turns" default:"every" validate:"oneof=every last" doc:"which turns the trainer of messages rows trains: all of the assistant, or the last, which it has to be told"`
	JSONColumns    string         `yaml:"json_columns" default:"json" validate:"oneof=json text" doc:"how Parquet rows (trl.parquet and the like) hold tools, and messages with tool calls or reasoning: as JSON values, which Hugging Face datasets reads from 4.7 on, or as texts that their reader parses"`
	Contradictions string         `yaml:"contradictions" default:"drop" validate:"oneof=drop keep" doc:"records that prefer A to B where others, by the same score, prefer B to A"`
	MaxPairs       *int           `yaml:"max_pairs" validate:"omitempty,gte=1" doc:"keep at most this many records, drawn by split.seed; wins over the trainer's max_pairs" example:"5000"`
	Scores         *scores.Config `yaml:"scores" doc:"scores of rollouts that stand in files of their own, joined by the rollouts' ids"`
	ScoreRules     []scores.Rule  `yaml:"score_rules" validate:"unique=Name,dive" doc:"scores by what results of tools say: the last result that a rule matches decides, by the first such rule" example:"[{name: passed, tool: Bash, call: pytest, result: ' passed in ', score: 1}, {name: failed, tool: Bash, call: pytest, result: ' failed', score: 0}]"`
	Marks          string         `yaml:"marks" doc:"file of marks, as nat-go view writes it beside a run: records that were rejected there are left out" example:"out/run1.marks.jsonl"`
}

// Split is `dataset.split`: what is set aside for validation.
type Split struct {
	By         string  `yaml:"by" default:"example" validate:"oneof=example task" doc:"what is never torn apart; records that share a prompt never are"`
	Validation float64 `yaml:"validation" default:"0.2" validate:"gte=0,lt=1" doc:"share of the records; 0 writes no validation file"`
	Seed       int64   `yaml:"seed" doc:"draws the validation records, and samples" default:"0"`

	ValidationSet bool `yaml:"-"` // the YAML sets validation explicitly: then an empty side is an error
}
