package pairs

import (
	"slices"

	"github.com/nat-go/nat-go/ttc/ledger"
)

// Why a candidate is in no pair.
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

// Why two rollouts of a task make no pair.
const (
	SingleRollout     ledger.Reason = "single_rollout"
	SeveralBranches   ledger.Reason = "several_branches"
	DifferentSetup    ledger.Reason = "different_setup"
	EnvironmentParted ledger.Reason = "environment_parted"
	OneGoesOn         ledger.Reason = "one_goes_on"
	WithinNoise       ledger.Reason = "within_noise"
	MuchLonger        ledger.Reason = "chosen_much_longer"
)

// Reasons why the branches of a session make no pair.
const (
	SingleBranch ledger.Reason = "single_branch"
	NoneKept     ledger.Reason = "no_branch_kept"
)

// Codes are the pages of these reasons for `nat-go explain`.
func Codes() []ledger.Code { return slices.Concat(candidateCodes(), rolloutCodes(), branchCodes()) }

func candidateCodes() []ledger.Code {
	return []ledger.Code{
		ledger.NewCode(Tie, "build",
			"Two candidates have the same score: neither is better, and a pair of them would teach noise.",
			"Nothing; if there are many, use a finer scorer."),
		ledger.NewCode(FailedScorer, "build",
			"The scorer failed on this candidate (NAT writes 0.0 and reasoning.error); a failure is not a bad answer.",
			"Fix the scorer and evaluate again."),
		ledger.NewCode(DifferentPrompt, "build",
			"No other candidate of this turn was given the same prompt, so it can't be compared.",
			"Give all candidates of a turn the same prompt."),
		ledger.NewCode(AnswerInPrompt, "build",
			"The recorded prompt gives the answer away: it ends with a message of the assistant, or with the answer after a label like \"assistant:\"; or its text ends with the answer, and no other candidate was given the same prompt and answered otherwise; or it holds the answer, of 64 characters or more, and not those of all candidates of the turn. Training on it teaches copying. An answer that is one of the choices offered by a shared prompt is not affected.",
			"Record the prompt before the model's reply is appended. If the prompts are meant that way, set answer_in_prompt: keep in the builder."),
		ledger.NewCode(ReprPrompt, "build",
			"The prompt is the printed form of a Python object rather than text or messages.",
			"Record messages as a list of {role, content}."),
		ledger.NewCode(SingleCandidate, "build",
			"The turn has only one usable candidate, so there is nothing to compare it with.",
			"Sample at least two candidates per turn."),
		ledger.NewCode(BelowMargin, "build",
			"Every pair this candidate could be in has a smaller margin than min_score_diff.",
			"Lower min_score_diff if you want closer pairs."),
		ledger.NewCode(BelowMinChosen, "build",
			"The better candidate scores below min_chosen_score.",
			"Lower min_chosen_score if you want weaker winners."),
		ledger.NewCode(NotChosen, "build",
			"The strategy or its limit (max_pairs_per_turn) left this candidate in no pair.",
			"Choose another strategy or raise the limit."),
		ledger.NewCode(OtherName, "build",
			"The candidate belongs to another step than the builder's ttc_step_name.",
			"Set ttc_step_name, or add a builder for that step."),
		ledger.NewCode(TakesCandidates, "build",
			"The builder compares candidates, which are scored answers to one prompt, and the example is a rollout without any.",
			"--builder divergence compares the scored rollouts of a task."),
	}
}

func rolloutCodes() []ledger.Code {
	return []ledger.Code{
		ledger.NewCode(SingleRollout, "build",
			"The task has only one usable rollout, so there is nothing to compare it with.",
			"Sample at least two rollouts per task; rollouts are grouped by the task's key (task_key of the source)."),
		ledger.NewCode(SeveralBranches, "build",
			"The rollout has several branches, and its score doesn't say which of them earned it.",
			"Score branches as rollouts of their own."),
		ledger.NewCode(DifferentSetup, "build",
			"No other rollout of the task had the same tools, and began with the same messages or, if users word things "+
				"differently, with the same system prompt and then called a tool: "+
				"a difference of scores says nothing about what the model did.",
			"Give all rollouts of a task the same system prompt and tools."),
		ledger.NewCode(EnvironmentParted, "build",
			"The two rollouts diverge at a tool's answer: the same call had different results, "+
				"so nothing that the model wrote there can be better or worse.",
			"Nothing; if there are many, make the tools' answers repeatable."),
		ledger.NewCode(OneGoesOn, "build",
			"One of the two rollouts is the beginning of the other, as far as they can be compared: "+
				"where they diverge, one of them has nothing.",
			"Nothing."),
		ledger.NewCode(WithinNoise, "build",
			"The scores differ by no more than chance explains: less than 1.96 standard deviations of a difference (score_sd).",
			"Score each rollout several times and give the mean, or set score_sd to the scorer's standard deviation."),
		ledger.NewCode(MuchLonger, "build",
			"The chosen side is longer than the rejected one by more than max_length_ratio: the pair would teach length.",
			"Raise max_length_ratio, or leave it out, if longer is better here."),
	}
}

func branchCodes() []ledger.Code {
	return []ledger.Code{
		ledger.NewCode(SingleBranch, "build",
			"The session has only one branch: nothing in it was tried again or abandoned.",
			"Nothing; sessions with retries and edits have branches."),
		ledger.NewCode(NoneKept, "build",
			"The model answered the same messages more than once, and the session went on from none of the answers, "+
				"so nothing says which is better.",
			"Nothing; or score the answers, and pair them as candidates."),
	}
}
