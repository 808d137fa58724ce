package dpo

import (
	"errors"
	"fmt"

	"github.com/nat-go/nat-go/pairs"
)

// Config is `trajectory_builders.<name>` with `_type: dpo_traj_builder`. The first seven settings are NAT's.
type Config struct {
	Reward          *Reward  `yaml:"reward" doc:"NAT's evaluator of the whole workflow; pairs come from the candidates' own scores, so it is not read"`
	StepName        string   `yaml:"ttc_step_name" default:"dpo_candidate_move" aka:"custom_step_name,step_name" doc:"name of the TTC_END steps whose candidates are paired"`
	ExhaustivePairs bool     `yaml:"exhaustive_pairs" default:"true" doc:"pair all candidates of a turn; false: only the best with the worst"`
	MinScoreDiff    float64  `yaml:"min_score_diff" default:"0" validate:"gte=0" doc:"least difference of scores in a pair; equal scores never make one"`
	MaxPairsPerTurn *int     `yaml:"max_pairs_per_turn" validate:"omitempty,gte=1" doc:"keep only the pairs of a turn with the largest differences"`
	RewardFromDiff  bool     `yaml:"reward_from_score_diff" default:"true" doc:"a pair's reward is the difference of the scores; false: the chosen score"`
	RequireMultiple bool     `yaml:"require_multiple_candidates" default:"true" doc:"count turns with a single candidate as skipped; they make no pair either way"`
	Strategy        string   `yaml:"strategy" enum:"exhaustive,best_vs_worst,adjacent,best_vs_rest,threshold,random_k" doc:"which pairs of a turn are taken; without it exhaustive_pairs decides"`
	ScoreDirection  string   `yaml:"score_direction" default:"higher" enum:"higher,lower" doc:"whether a higher or a lower score is better"`
	ScoreName       string   `yaml:"score_name" doc:"what the scores measure; without it the step's name"`
	MinChosenScore  *float64 `yaml:"min_chosen_score" doc:"a winner's score is at least this (at most, where lower is better)"`
	Threshold       *float64 `yaml:"threshold" doc:"strategy threshold: winners score at least this, losers less"`
	K               *int     `yaml:"k" validate:"omitempty,gte=1" doc:"strategy random_k: pairs drawn a turn"`
	Seed            uint64   `yaml:"seed" default:"0" doc:"strategy random_k: another seed draws other pairs"`
	Metadata        bool     `yaml:"metadata" default:"false" doc:"add NAT's metadata object to every pair"`
}

// Reward names an evaluator.
type Reward struct {
	Name string `yaml:"name" validate:"required" doc:"name of the evaluator"`
}

// DefaultConfig returns NAT's defaults.
func DefaultConfig() Config {
	return Config{StepName: "dpo_candidate_move", ExhaustivePairs: true, RewardFromDiff: true, RequireMultiple: true, ScoreDirection: "higher"}
}

// chooser turns the settings into those of package pairs, and checks the rules that concern several.
func (c *Config) chooser() (pairs.Config, error) {
	p := pairs.Config{
		Strategy:      pairs.Strategy(c.Strategy),
		LowerIsBetter: c.ScoreDirection == "lower",
		MinMargin:     c.MinScoreDiff,
		MinChosen:     c.MinChosenScore,
		Seed:          c.Seed,
	}
	switch p.Strategy {
	case "":
		p.Strategy = pairs.Exhaustive
		if !c.ExhaustivePairs {
			p.Strategy = pairs.BestVsWorst
		}
	case pairs.Exhaustive, pairs.BestVsWorst, pairs.Adjacent, pairs.BestVsRest, pairs.Threshold, pairs.RandomK:
	default:
		return p, fmt.Errorf("strategy: %q is not one of exhaustive, best_vs_worst, adjacent, best_vs_rest, threshold, random_k", c.Strategy)
	}
	switch c.ScoreDirection {
	case "", "higher", "lower":
	default:
		return p, fmt.Errorf("score_direction: %q is neither higher nor lower", c.ScoreDirection)
	}
	if !(c.MinScoreDiff >= 0) {
		return p, fmt.Errorf("min_score_diff: %v is not 0 or more", c.MinScoreDiff)
	}
	if m := c.MaxPairsPerTurn; m != nil {
		if *m < 1 {
			return p, fmt.Errorf("max_pairs_per_turn: %d is not 1 or more", *m)
		}
		p.MaxPairs = *m
	}
	if (c.Threshold != nil) != (p.Strategy == pairs.Threshold) {
		return p, errors.New("threshold and strategy: threshold belong together: set both or neither")
	}
	if (c.K != nil) != (p.Strategy == pairs.RandomK) {
		return p, errors.New("k and strategy: random_k belong together: set both or neither")
	}
	if c.Threshold != nil {
		p.Threshold = *c.Threshold
	}
	if c.K != nil {
		if *c.K < 1 {
			return p, fmt.Errorf("k: %d is not 1 or more", *c.K)
		}
		p.K = *c.K
	}
	return p, nil
}
