package dpo

import "github.com/nat-go/nat-go/pairs"

// Config is the `trajectory_builders.<name>` section with `_type: dpo_traj_builder`. The first seven settings are
// NAT's.
type Config struct {
	Reward          *Reward  `yaml:"reward" doc:"NAT's evaluator for the whole workflow; not read, because pairs come from the candidates' own scores"`
	StepName        string   `yaml:"ttc_step_name" default:"dpo_candidate_move" aka:"custom_step_name,step_name" doc:"name of the TTC_END steps whose candidates are paired"`
	ExhaustivePairs bool     `yaml:"exhaustive_pairs" default:"true" doc:"pair all candidates of a turn; false: only the best with the worst"`
	MinScoreDiff    float64  `yaml:"min_score_diff" default:"0" validate:"gte=0" doc:"smallest score difference in a pair; equal scores never form a pair"`
	MaxPairsPerTurn *int     `yaml:"max_pairs_per_turn" validate:"omitempty,gte=1" doc:"keep only a turn's pairs with the largest differences"`
	RewardFromDiff  bool     `yaml:"reward_from_score_diff" default:"true" doc:"a pair's reward is the score difference; false: the chosen score"`
	RequireMultiple bool     `yaml:"require_multiple_candidates" default:"true" doc:"count single-candidate turns as skipped; they don't form a pair either way"`
	Strategy        string   `yaml:"strategy" validate:"omitempty,oneof=exhaustive best_vs_worst adjacent best_vs_rest threshold random_k" doc:"which of a turn's pairs to keep; if unset, exhaustive_pairs decides"`
	ScoreDirection  string   `yaml:"score_direction" default:"higher" validate:"oneof=higher lower" doc:"whether a higher or a lower score is better"`
	ScoreName       string   `yaml:"score_name" doc:"what the scores measure; default: the step's name"`
	MinChosenScore  *float64 `yaml:"min_chosen_score" doc:"minimum score of the chosen candidate (maximum, if lower is better)"`
	Threshold       *float64 `yaml:"threshold" validate:"required_if=Strategy threshold,excluded_unless=Strategy threshold" doc:"with strategy threshold: winners score at least this (at most, if lower is better), losers don't"`
	K               *int     `yaml:"k" validate:"required_if=Strategy random_k,excluded_unless=Strategy random_k,omitempty,gte=1" doc:"with strategy random_k: number of pairs to draw per turn"`
	Seed            uint64   `yaml:"seed" default:"0" doc:"with strategy random_k: seed of the draw"`
	AnswerInPrompt  string   `yaml:"answer_in_prompt" default:"drop" validate:"oneof=drop keep" doc:"how to handle candidates whose prompt gives away their answer (nat-go explain answer_in_prompt)"`
	Metadata        bool     `yaml:"metadata" default:"false" doc:"add NAT's metadata object to every pair"`
}

// Reward names an evaluator.
type Reward struct {
	Name string `yaml:"name" validate:"required" doc:"name of the evaluator"`
}

// chooser converts the settings to a pairs.Config.
func (c *Config) chooser() pairs.Config {
	p := pairs.Config{
		Strategy:      pairs.Strategy(c.Strategy),
		LowerIsBetter: c.ScoreDirection == "lower",
		MinMargin:     c.MinScoreDiff,
		MinChosen:     c.MinChosenScore,
		Seed:          c.Seed,
	}
	if p.Strategy == "" {
		p.Strategy = pairs.Exhaustive
		if !c.ExhaustivePairs {
			p.Strategy = pairs.BestVsWorst
		}
	}
	if c.MaxPairsPerTurn != nil {
		p.MaxPairs = *c.MaxPairsPerTurn
	}
	if c.Threshold != nil {
		p.Threshold = *c.Threshold
	}
	if c.K != nil {
		p.K = *c.K
	}
	return p
}
