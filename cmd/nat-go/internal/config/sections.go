package config

import (
	"time"

	"github.com/nat-go/nat-go/builders/schema"
	"github.com/nat-go/nat-go/ttc/source/readers"
)

// Dataset is the section `dataset`, which configures the files written from the records.
type Dataset struct {
	Formats        []string              `yaml:"formats" scalar:"true" nullable:"true" doc:"row formats to write; default: the adapter's own, otherwise those that fit the builders' records: trl, verl for rollouts, nemo_gym for states, privileged for hints (see nat-go formats)" example:"[trl, customizer]"`
	Split          Split                 `yaml:"split" doc:"records to set aside for validation"`
	PromptAs       string                `yaml:"prompt_as" default:"user_message" validate:"oneof=user_message text" doc:"how a plain text prompt is written in a format that takes messages"`
	Turns          string                `yaml:"turns" default:"every" validate:"oneof=every last" doc:"which turns the trainer of messages rows trains on: every assistant turn, or only the last one, if the trainer is set up for that; each turn then gets its own row"`
	Completion     string                `yaml:"completion" default:"turn" validate:"oneof=turn stretch" doc:"a demonstration's completion in trl rows: one turn, so that each turn has a row with everything before it; or everything up to the next context-only turn, for a trainer that masks the non-assistant messages in it (TRL's assistant_only_loss)"`
	JSONColumns    string                `yaml:"json_columns" default:"json" validate:"oneof=json text" doc:"how Parquet rows (trl.parquet and the like) hold tools, and messages with tool calls or reasoning: as JSON values, supported by Hugging Face datasets 4.7 and later, or as text that the reader parses"`
	Where          string                `yaml:"where" doc:"which examples and records to use, as one expression over [the fields below](#where)" example:"reward > 0.5 and not interrupted"`
	Contradictions string                `yaml:"contradictions" default:"drop" validate:"oneof=drop keep" doc:"how to treat records that prefer A to B if other records, by the same score, prefer B to A"`
	MaxPairs       *int                  `yaml:"max_pairs" validate:"omitempty,gte=1" doc:"keep at most this many records, drawn with split.seed; takes precedence over the trainer's max_pairs" example:"5000"`
	Scores         *readers.ScoresConfig `yaml:"scores" doc:"scores of rollouts from separate files, joined by the rollouts' ids"`
	ScoreRules     []readers.ScoreRule   `yaml:"score_rules" validate:"unique=Name,dive" doc:"scores derived from tool results: the last result matched by any rule decides, with the first rule that matches it" example:"[{name: passed, tool: Bash, call: pytest, result: ' passed in ', score: 1}, {name: failed, tool: Bash, call: pytest, result: ' failed', score: 0}]"`
	Contamination  *Contamination        `yaml:"contamination" doc:"benchmarks whose text should not appear in any record"`
	Marks          string                `yaml:"marks" doc:"marks file that nat-go view writes next to a run; records rejected in it are dropped" example:"out/run1.marks.jsonl"`
}

// Contamination is `dataset.contamination`, which configures the search for records that share words with benchmarks.
type Contamination struct {
	Files  []string `yaml:"files" scalar:"true" validate:"required,min=1" doc:"benchmark files: text, JSON lines, JSON, CSV or Parquet"`
	Action string   `yaml:"action" default:"report" validate:"oneof=report drop" doc:"count matching records, or drop them"`
}

// Split is `dataset.split`, which configures the records set aside for validation.
type Split struct {
	By         string  `yaml:"by" default:"example" validate:"oneof=example task" doc:"unit whose records stay on the same side of the split; records that share a prompt also do"`
	Validation float64 `yaml:"validation" default:"0.2" validate:"gte=0,lt=1" doc:"share of the records; 0 writes no validation file"`
	Seed       int64   `yaml:"seed" doc:"seed for drawing validation records and samples" default:"0"`

	ValidationSet bool `yaml:"-"` // whether validation is set; if so, and above 0, an empty validation side is an error
}

// Limits is the section `limits`, which bounds the amounts of data that a run holds in memory. Sources and plugins have
// additional limits.
type Limits struct {
	Group  schema.Size `yaml:"group" default:"32MiB" validate:"gte=1048576" doc:"maximum size of a group; a larger group is refused. A group is all rollouts for one task or, with --compat nat, a whole collection run"`
	Output schema.Size `yaml:"output" default:"96MiB" validate:"gte=1048576" doc:"maximum output of a built-in builder for a group; if it produces more, the group is refused. Plugins have their own output setting"`
}

// Plugin is an entry of the section `plugins`, which configures a program that serves builders.
type Plugin struct {
	Name string `yaml:"-"`

	Path         string        `yaml:"path" nullable:"true" doc:"the program; default: nat-go-builder-<name> in the plugin folder or on PATH" example:"./bin/acme-builders"`
	Python       string        `yaml:"python" nullable:"true" doc:"instead of a program: a Python module that declares builders with natgo.builder" example:"my_pkg.builders"`
	Interpreter  string        `yaml:"interpreter" nullable:"true" doc:"the Python that runs the module; default: the active virtual environment's ($VIRTUAL_ENV)" example:".venv/bin/python"`
	SHA256       string        `yaml:"sha256" nullable:"true" validate:"omitempty,len=64,hexadecimal" doc:"checksum of the program, or of the module's package, verified before it is started"`
	Args         []string      `yaml:"args" nullable:"true" doc:"arguments of the program" example:"[--verbose]"`
	Env          []string      `yaml:"env" nullable:"true" doc:"names of the environment variables that the program receives; it receives no others, and can't read nat-go's memory" example:"[ACME_TOKEN]"`
	Instances    int           `yaml:"instances" default:"1" validate:"gte=1,lte=256" doc:"processes to run; the number does not affect the data set"`
	StartTimeout time.Duration `yaml:"start_timeout" default:"10s" validate:"gte=100ms" doc:"time limit for starting a process"`
	Timeout      time.Duration `yaml:"timeout" default:"60s" validate:"gte=100ms" doc:"time limit per group"`
	Output       schema.Size   `yaml:"output" default:"96MiB" validate:"gte=1048576" doc:"memory limit for a builder's output from one group"`
	Memory       schema.Size   `yaml:"memory" default:"256MiB" validate:"gte=16777216" doc:"memory limit per process"`
}
