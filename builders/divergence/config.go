package divergence

import (
	"math"

	"github.com/nat-go/nat-go/pairs"
)

// Config is the `trajectory_builders.<name>` section with `_type: divergence_traj_builder`.
type Config struct {
	Compare        string   `yaml:"compare" default:"rollouts" validate:"oneof=rollouts branches" doc:"what to compare. rollouts: a task's scored rollouts; branches: the branch that a session continued against the ones that it abandoned, to which only max_length_ratio of the settings below applies"`
	Strategy       string   `yaml:"strategy" default:"best_vs_worst" validate:"oneof=best_vs_worst adjacent best_vs_rest pass_fail exhaustive" doc:"which of a task's rollouts to compare"`
	Pass           *float64 `yaml:"pass" validate:"required_if=Strategy pass_fail,excluded_unless=Strategy pass_fail" doc:"with strategy pass_fail: minimum score of a rollout that passes (maximum, if lower is better)"`
	ScoreDirection string   `yaml:"score_direction" default:"higher" validate:"oneof=higher lower" doc:"whether a higher or a lower score is better"`
	ScoreName      string   `yaml:"score_name" default:"reward" doc:"what the scores measure"`
	MinScoreDiff   float64  `yaml:"min_score_diff" default:"0" validate:"gte=0" doc:"smallest score difference in a pair; equal scores never form a pair"`
	ScoreSD        float64  `yaml:"score_sd" default:"0" validate:"gte=0" doc:"standard deviation of a single rollout's score, if known: pairs that may be due to chance are dropped"`
	MaxPairs       *int     `yaml:"max_pairs_per_task" validate:"omitempty,gte=1" doc:"keep only a task's pairs with the largest differences"`
	MaxLengthRatio float64  `yaml:"max_length_ratio" default:"0" validate:"omitempty,gte=1" doc:"drop pairs whose chosen side is more than this many times as long as the rejected one, in bytes that the model wrote; 0: keep all"`
}

func (c *Config) chooser() pairs.Config {
	p := pairs.Config{
		Strategy: pairs.Strategy(c.Strategy), LowerIsBetter: c.ScoreDirection == "lower", MinMargin: c.MinScoreDiff,
	}
	if c.Strategy == "pass_fail" {
		p.Strategy, p.Threshold = pairs.Threshold, *c.Pass
	}
	if c.MaxPairs != nil {
		p.MaxPairs = *c.MaxPairs
	}
	return p
}

// noise returns the largest difference between two scores that is attributed to chance: 1.96 standard deviations of
// that difference.
func (c *Config) noise() float64 { return 1.96 * math.Sqrt2 * c.ScoreSD }
