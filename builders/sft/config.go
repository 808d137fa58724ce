package sft

import "github.com/nat-go/nat-go/builders"

// FailedCalls selects how failed tool calls are treated.
type FailedCalls string

// The ways to treat failed tool calls.
const (
	contextFailed FailedCalls = "context" // failed calls are kept, and the turns that made them aren't trained on
	trainFailed   FailedCalls = "train"   // failed calls are kept and trained on
	removeFailed  FailedCalls = "remove"  // failed calls are removed, together with their results
)

// Config is the `trajectory_builders.<name>` section with `_type: sft_traj_builder`.
type Config struct {
	Select    string   `yaml:"select" validate:"omitempty,oneof=best threshold all" doc:"which of a task's rollouts, or a turn's candidates, to imitate; default: the best if some are scored, otherwise all. Those with the lowest score in the input are imitated only if select is all or min_score is set"`
	N         int      `yaml:"n" default:"4" validate:"gte=1" doc:"with select best: maximum number of rollouts or candidates per task or turn; only those with the best score are taken, without duplicates"`
	MinScore  *float64 `yaml:"min_score" validate:"required_if=Select threshold" doc:"minimum score to imitate (maximum, if lower is better); required with select threshold, otherwise an additional condition"`
	Direction string   `yaml:"score_direction" default:"higher" validate:"oneof=higher lower" doc:"whether a higher or a lower score is better"`
	From      string   `yaml:"from" default:"auto" validate:"oneof=auto rollouts candidates" doc:"what to imitate; auto: an example's candidates if it has any, otherwise its rollout"`
	StepName  string   `yaml:"ttc_step_name" doc:"name of the TTC_END steps whose candidates count; default: all"`

	Leaks string `yaml:"answer_in_prompt" default:"drop" validate:"oneof=drop keep" doc:"answers given away by prompts"`

	FailedCalls FailedCalls `yaml:"failed_calls" default:"context" validate:"oneof=context train remove" was:"mask_failed_calls=true:context,skip_failed_calls=true:remove,skip_failed_calls=false:train" doc:"how to treat failed tool calls. context: failed calls and their results are kept unchanged, but the turns that made the calls are not trained; train: those turns are trained, too; remove: failed calls and their results are cut, so later turns are trained in a context that the model didn't have; such records are graded partial and counted; if token ids were recorded, remove works like context"`

	TrainReasoning bool `yaml:"train_reasoning" default:"true" doc:"train a trained turn's reasoning, too, as the model wrote it before its answer; false: keep it as context only, for reasoning that is a summary or another model's. Row formats that can't mask part of a turn refuse such turns"`

	Train string `yaml:"train" default:"all" validate:"oneof=all last calls" doc:"which of a rollout's turns to train: all sampled ones, the last one, or those that call tools"`
}

func (c *Config) train() builders.Train {
	switch c.Train {
	case "last":
		return builders.TrainLast
	case "calls":
		return builders.TrainCalls
	}
	return builders.TrainAll
}

func (c *Config) lower() bool { return c.Direction == "lower" }

// better reports whether one score is better than another.
func (c *Config) better(score, other float64) bool {
	if c.lower() {
		return score < other
	}
	return score > other
}

// best reports whether only the best-scored rollouts are chosen.
func (c *Config) best() bool { return c.Select == "best" || c.Select == "" }
