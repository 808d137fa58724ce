package trainers

// NemoCustomizerTrainer is the config of `trainers.<n>` of `_type: nemo_customizer_trainer`, with NAT's fields,
// defaults and rules. It configures how much data is collected, which records are used, and whether the run waits for
// the job. It works with any adapter.
type NemoCustomizerTrainer struct {
	Reward *Reward `yaml:"reward" doc:"NAT's reward function; not read for a preference data set"`

	NumRuns                   int  `yaml:"num_runs" default:"1" validate:"min=1" doc:"number of times the source is collected; outside compat mode, existing inputs are each read once"`
	ContinueOnCollectionError bool `yaml:"continue_on_collection_error" default:"false" doc:"continue with the other collection runs when one fails"`
	DeduplicatePairs          bool `yaml:"deduplicate_pairs" default:"true" doc:"keep only one of several records with the same prompt, chosen and rejected text"`
	MaxPairs                  *int `yaml:"max_pairs" validate:"omitempty,min=1" doc:"maximum number of records, drawn with dataset.split.seed; unset: no limit"`
	WaitForCompletion         bool `yaml:"wait_for_completion" default:"true" doc:"wait until the job has ended; otherwise leave its reference in job.json (see finetune wait)"`
}

// TrainerType is the `_type` of NemoCustomizerTrainer.
const TrainerType = "nemo_customizer_trainer"

// Reward names an evaluator.
type Reward struct {
	Name string `yaml:"name" validate:"required" doc:"evaluator whose score is the reward"`
}
