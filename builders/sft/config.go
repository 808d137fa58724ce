package sft

import "github.com/nat-go/nat-go/builders"

// Config is `trajectory_builders.<name>` with `_type: sft_traj_builder`.
type Config struct {
	Select    string   `yaml:"select" validate:"omitempty,oneof=best threshold all" doc:"which of a task's rollouts, or a turn's candidates, to imitate; default: the best if some are scored, otherwise all. What has the lowest score of the input is imitated only with all or a min_score"`
	N         int      `yaml:"n" default:"4" validate:"gte=1" doc:"select best: maximum number of each task or turn; only those that share the best score are taken, and equal ones once"`
	MinScore  *float64 `yaml:"min_score" validate:"required_if=Select threshold" doc:"minimum score; required by select threshold, an additional condition with best"`
	Direction string   `yaml:"score_direction" default:"higher" validate:"oneof=higher lower" doc:"whether a higher or a lower score is better"`
	From      string   `yaml:"from" default:"auto" validate:"oneof=auto rollouts candidates" doc:"auto: the candidates of examples that have any, otherwise the rollout"`
	StepName  string   `yaml:"ttc_step_name" doc:"name of the TTC_END steps whose candidates count; default: all"`

	SkipFailedCalls bool `yaml:"skip_failed_calls" default:"true" doc:"leave out failed tool calls and their results; if token ids were recorded, the turn stays as untrained context"`
	MaskFailedCalls bool `yaml:"mask_failed_calls" default:"false" doc:"keep failed tool calls as context, and don't train the turns that made them; takes precedence over skip_failed_calls"`

	Train string `yaml:"train" default:"all" validate:"oneof=all last calls" doc:"which turns of a rollout to train: all sampled ones, the last, those that call tools"`
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

// reaches reports whether a score satisfies min_score.
func (c *Config) reaches(score float64) bool {
	if c.MinScore == nil {
		return true
	}
	return score == *c.MinScore || c.better(score, *c.MinScore)
}

func (c *Config) lower() bool { return c.Direction == "lower" }

// better reports whether a score is better than another.
func (c *Config) better(score, other float64) bool {
	if c.lower() {
		return score < other
	}
	return score > other
}

// best reports whether only the best of the scored rollouts are chosen.
func (c *Config) best() bool { return c.Select == "best" || c.Select == "" }
