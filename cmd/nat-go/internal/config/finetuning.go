package config

// Finetuning is the section `finetuning`. It has the keys, defaults and rules of NAT's FinetuneConfig. Unlike in NAT,
// trajectory_builder may be a list, and the data set is written as files if trainer_adapter is omitted.
type Finetuning struct {
	Enabled            bool               `yaml:"enabled" default:"false" doc:"whether fine-tuning is enabled; a run refuses to start if it isn't"`
	Trainer            string             `yaml:"trainer" nullable:"true" doc:"name of an entry of trainers" example:"my-trainer"`
	TrajectoryBuilder  []string           `yaml:"trajectory_builder" scalar:"true" nullable:"true" doc:"names of entries of trajectory_builders" example:"[pairs, hints]"`
	TrainerAdapter     string             `yaml:"trainer_adapter" nullable:"true" doc:"name of an entry of trainer_adapters; if unset, or files, the data set is written as files" example:"my-adapter"`
	RewardFunction     *RewardFunction    `yaml:"reward_function" doc:"evaluator whose score is the reward"`
	TargetFunctions    []string           `yaml:"target_functions" default:"[<workflow>]" doc:"functions whose steps count (rollout builders)"`
	TargetModel        string             `yaml:"target_model" nullable:"true" doc:"use only the steps of this model (rollout builders)" example:"my-model"`
	CurriculumLearning CurriculumLearning `yaml:"curriculum_learning" doc:"train on easy groups first (rollout builders)"`
	NumEpochs          int                `yaml:"num_epochs" default:"1" validate:"gte=1" doc:"passes over the data; for the Customizer see hyperparameters.epochs of its adapter"`
	OutputDir          string             `yaml:"output_dir" default:"./.tmp/nat/finetuning/" doc:"where run folders are created" example:"out"`
	RunConfiguration   *RunConfiguration  `yaml:"run_configuration" doc:"NAT's copy of its command line, which takes precedence"`
}

// RewardFunction is `finetuning.reward_function`, the evaluator whose score is the reward.
type RewardFunction struct {
	Name string `yaml:"name" validate:"required" doc:"name of an entry of eval.evaluators" example:"accuracy"`
}

// CurriculumLearning is `finetuning.curriculum_learning`. Unlike NAT, nat-go checks that random_subsample is a
// fraction.
type CurriculumLearning struct {
	Enabled             bool     `yaml:"enabled" default:"false" doc:"whether groups are added step by step"`
	InitialPercentile   float64  `yaml:"initial_percentile" default:"0.3" validate:"gt=0,lte=1" doc:"fraction of groups at the start"`
	IncrementPercentile float64  `yaml:"increment_percentile" default:"0.2" validate:"gt=0,lte=1" doc:"fraction of groups added at each expansion"`
	ExpansionInterval   int      `yaml:"expansion_interval" default:"5" validate:"gte=1" doc:"epochs between expansions"`
	MinRewardDiff       float64  `yaml:"min_reward_diff" default:"0.1" doc:"groups whose rewards differ by less are dropped"`
	SortAscending       bool     `yaml:"sort_ascending" default:"false" doc:"whether groups with low rewards come first"`
	RandomSubsample     *float64 `yaml:"random_subsample" validate:"omitempty,gt=0,lte=1" doc:"fraction of groups kept" example:"0.5"`
}

// RunConfiguration is `finetuning.run_configuration`, which NAT fills from its command line.
type RunConfiguration struct {
	ConfigFile           any    `yaml:"config_file"`
	Dataset              string `yaml:"dataset" nullable:"true"`
	ResultJSONPath       string `yaml:"result_json_path" default:"$"`
	Endpoint             string `yaml:"endpoint" nullable:"true"`
	EndpointTimeout      int    `yaml:"endpoint_timeout" default:"300" validate:"gte=1"`
	Override             any    `yaml:"override"`
	ValidationDataset    string `yaml:"validation_dataset" nullable:"true"`
	ValidationInterval   int    `yaml:"validation_interval" default:"5" validate:"gte=1"`
	ValidationConfigFile string `yaml:"validation_config_file" nullable:"true"`
}
