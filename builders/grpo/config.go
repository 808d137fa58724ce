package grpo

// Config is `trajectory_builders.<name>` with `_type: grpo_traj_builder`.
type Config struct {
	MinRollouts int  `yaml:"min_rollouts" default:"1" validate:"gte=1" doc:"tasks with fewer scored rollouts are left out"`
	NeedSpread  bool `yaml:"drop_equal_rewards" doc:"leave out tasks whose rewards are all equal: their advantages are zero"`
	NeedReward  bool `yaml:"drop_unscored" doc:"leave out rollouts without a reward; otherwise they are passed on as unscored"`

	GoodFrom *float64 `yaml:"good_from" doc:"reward from which a rollout is good, for rows that label answers (format kto); default: 1 where every reward of the input is 0 or 1, otherwise anything above the mean of its task"`
}
