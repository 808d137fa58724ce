package grpo

// Config is the `trajectory_builders.<name>` section with `_type: grpo_traj_builder`.
type Config struct {
	MinRollouts int  `yaml:"min_rollouts" default:"1" validate:"gte=1" doc:"minimum number of scored rollouts in a task; tasks with fewer are dropped"`
	NeedSpread  bool `yaml:"drop_equal_rewards" doc:"drop tasks whose rewards are all equal, because their advantages are zero"`
	NeedReward  bool `yaml:"drop_unscored" doc:"drop rollouts without a reward; otherwise they are passed on as unscored"`

	Leaks string `yaml:"answer_in_prompt" default:"drop" validate:"oneof=drop keep" doc:"answers given away by prompts"`

	GoodFrom *float64 `yaml:"good_from" doc:"minimum reward of a good rollout, for rows that label answers (format kto); default: 1 if every reward in the input is 0 or 1, otherwise anything above its task's mean"`
}
