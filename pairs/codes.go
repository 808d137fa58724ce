package pairs

import "github.com/nat-go/nat-go/ttc/ledger"

// Reasons why a candidate isn't in any pair.
const (
	Tie             ledger.Reason = "tie"
	FailedScorer    ledger.Reason = "failed_scorer"
	DifferentPrompt ledger.Reason = "different_prompt"
	AnswerInPrompt  ledger.Reason = "answer_in_prompt"
	ReprPrompt      ledger.Reason = "repr_prompt"
	SingleCandidate ledger.Reason = "single_candidate"
	BelowMargin     ledger.Reason = "below_min_score_diff"
	BelowMinChosen  ledger.Reason = "below_min_chosen_score"
	NotChosen       ledger.Reason = "not_chosen_by_strategy"
	OtherName       ledger.Reason = "other_step_name"
	TakesCandidates ledger.Reason = "takes_candidates"
)

// Reasons why two rollouts of a task don't form a pair.
const (
	SingleRollout     ledger.Reason = "single_rollout"
	SeveralBranches   ledger.Reason = "several_branches"
	DifferentSetup    ledger.Reason = "different_setup"
	EnvironmentParted ledger.Reason = "environment_parted"
	OneGoesOn         ledger.Reason = "one_goes_on"
	WithinNoise       ledger.Reason = "within_noise"
	MuchLonger        ledger.Reason = "chosen_much_longer"
)

// Reasons why the branches of a session don't form a pair.
const (
	SingleBranch ledger.Reason = "single_branch"
	NoneKept     ledger.Reason = "no_branch_kept"
)
