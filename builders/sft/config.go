package sft

import (
	"errors"
	"fmt"

	"github.com/nat-go/nat-go/builders"
)

// Config is `trajectory_builders.<name>` with `_type: sft_traj_builder`.
type Config struct {
	Select    string   `yaml:"select" default:"best" enum:"best,threshold,all" doc:"which of a task's rollouts, or a turn's candidates, are imitated"`
	N         int      `yaml:"n" default:"1" validate:"gte=1" doc:"select best: how many of each task or turn"`
	MinScore  *float64 `yaml:"min_score" doc:"least score; select threshold needs it, with best it comes on top"`
	Direction string   `yaml:"score_direction" default:"higher" enum:"higher,lower" doc:"whether a higher or a lower score is better"`
	From      string   `yaml:"from" default:"auto" enum:"auto,rollouts,candidates" doc:"auto: candidates of examples that have any, else the rollout"`
	StepName  string   `yaml:"ttc_step_name" doc:"name of the TTC_END steps whose candidates count; without it all"`
	Train     string   `yaml:"train" default:"all" enum:"all,last,calls" doc:"which turns of a rollout are trained: all sampled ones, the last, those that call tools"`
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{Select: "best", N: 1, Direction: "higher", From: "auto", Train: "all"}
}

func (c *Config) check() error {
	for _, e := range []struct {
		key, value string
		allowed    []string
	}{
		{"select", c.Select, []string{"best", "threshold", "all"}},
		{"score_direction", c.Direction, []string{"higher", "lower"}},
		{"from", c.From, []string{"auto", "rollouts", "candidates"}},
		{"train", c.Train, []string{"all", "last", "calls"}},
	} {
		if !contains(e.allowed, e.value) {
			return fmt.Errorf("%s: %q is not one of %v", e.key, e.value, e.allowed)
		}
	}
	if c.Select == "best" && c.N < 1 {
		return fmt.Errorf("n: %d is not 1 or more", c.N)
	}
	if c.Select == "threshold" && c.MinScore == nil {
		return errors.New("select: threshold needs min_score")
	}
	if c.MinScore != nil && *c.MinScore != *c.MinScore {
		return errors.New("min_score is no number")
	}
	return nil
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
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

// reaches reports whether a score is good enough by min_score.
func (c *Config) reaches(score float64) bool {
	if c.MinScore == nil {
		return true
	}
	if c.Direction == "lower" {
		return score <= *c.MinScore
	}
	return score >= *c.MinScore
}
