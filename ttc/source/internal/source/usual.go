package source

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/nat-go/nat-go/ttc/json"
)

// Rollout keys, with the names that public data sets and evaluations give them, most specific first.
var (
	RewardKey = Key{
		Setting: "reward_key", Default: "reward", Means: "the reward", Others: ScoreNames(), Ranked: true,
		Is: isOutcome,
	}
	TaskKey = Key{
		Setting: "task_key", Default: "task_id", Means: "the task", Ranked: true, Is: isName,
		Others: []string{"instance_id", "problem_id", "question_id", "task_name", "task"},
	}
	IDKey = Key{
		Setting: "id_key", Default: "id", Means: "the id", Ranked: true, Is: isID,
		Others: []string{
			"trajectory_id", "traj_id", "rollout_id", "trial_id", "trial_name", "conversation_id", "session_id", "uuid",
		},
	}
	ModelKey = Key{
		Setting: "policy_key", Default: "model", Means: "the model", Ranked: true, Is: isName,
		Others: []string{"model_name", "model_id", "agent_model"},
	}
)

// ContextKey is the key of text to append to a prompt.
var ContextKey = Key{
	Setting: "context_key", Means: "the text appended to the prompt", Is: (*Column).Text,
	Others: []string{"context", "input"},
}

// outcomes are names for a rollout's outcome or an answer's quality, most specific first.
var outcomes = []struct {
	names []string
	is    func(*Column) bool // reports whether the values of a column with such a name are outcomes
	sure  bool               // only rollouts have keys with these names; parts of rollouts don't
	of    string             // key of the conversation next to which the name means an outcome; empty for any key
}{
	{[]string{"final_reward", "reward_score", "total_reward"}, isScale, true, ""},
	{[]string{"reward_info.reward"}, isScale, true, ""}, // tau2-bench
	{[]string{"resolved", "is_resolved", "solved", "is_solved", "task_success"}, isVerdict, true, ""},
	{[]string{"target"}, isFlag, true, "trajectory"}, // Nebius's SWE-agent trajectories
	{[]string{"success", "is_success", "succeeded", "passed"}, isVerdict, false, ""},
	{[]string{"correct"}, isShare, false, ""},
	{[]string{"is_correct"}, isVerdict, false, ""},
	{[]string{"result", "outcome"}, isShare, false, ""},
	{[]string{
		"score", "final_score", "overall_score", "rating", "grade", "quality", "judge_score", "label", "helpfulness",
		"stars", "thumbs_up",
	}, isScale, false, ""},
}

// lowerIsBetter are names of scores for which lower is better.
var lowerIsBetter = []string{"loss", "error_rate", "distance", "rank", "perplexity", "regret", "penalty", "nll"}

// holders are objects in which some data sets store a rollout's outcome.
var holders = []string{"metadata", "info", "report"}

// ScoreNames returns the names that scores have in inputs. The caller must not modify the list.
func ScoreNames() []string { return scoreNames }

var scoreNames = func() []string {
	names := []string{"reward"}
	for _, o := range outcomes {
		if o.of == "" {
			names = append(names, o.names...)
		}
	}
	return slices.Clip(append(names, lowerIsBetter...)) // clipped, because callers append to it
}()

// smaller lists words that, in an entry's keys, show that the entry describes less than a rollout, such as a tool
// call, a test, a metric or a judge's opinion. The success or score of such an entry isn't the rollout's. The words
// tool and function must match a whole key, because a rollout has tool_definitions.
var smaller = []string{
	"tool", "tool_name", "tool_id", "tool_call_id", "call_id", "function", "function_name", "exit_code",
	"test", "tests", "nodeid", "total", "failed", "incorrect", "metric",
	"judge", "judgement", "judgment", "grader", "evaluator", "feedback", "rubric", "critique", "criterion", "criteria",
}

func isSmaller(c *Column) bool {
	name := CommonName(c.Key)
	return c.Present > 0 && !slices.Contains(ScoreNames(), name) && slices.ContainsFunc(smaller, func(s string) bool {
		return s == name || s != "tool" && s != "function" && slices.Contains(Words(c.Key), s)
	})
}

// firstTime is the minimum number treated as a time since 1970, in seconds or smaller units.
const firstTime = 1e9

// isOutcome reports whether a column with the name of an outcome has the kind of values expected under that name.
func isOutcome(c *Column) bool {
	holder, name, _ := strings.Cut(CommonName(c.Key), ".")
	if !slices.Contains(holders, holder) {
		name = CommonName(c.Key)
	}
	for _, o := range outcomes {
		if slices.Contains(o.names, name) {
			return o.is(c)
		}
	}
	return isScale(c)
}

// isScale accepts numbers other than times.
func isScale(c *Column) bool {
	return c.Number() && !slices.ContainsFunc(c.numbers, func(f float64) bool { return f >= firstTime })
}

// isVerdict accepts true and false, 1 and 0.
func isVerdict(c *Column) bool {
	return c.Number() && !slices.ContainsFunc(c.numbers, func(f float64) bool { return f != 0 && f != 1 })
}

// isFlag accepts only true and false.
func isFlag(c *Column) bool { return c.Kinds[json.Bool] == c.Present }

// isShare accepts numbers from 0 to 1. In place of some of them, Harbor writes the reason why a run ended.
func isShare(c *Column) bool {
	return c.Numeric > 0 && c.Numeric+c.words()+c.Empty == c.Present &&
		!slices.ContainsFunc(c.numbers, func(f float64) bool { return f < 0 || f > 1 })
}

func isName(c *Column) bool { return c.Kinds[json.String]+c.Kinds[json.Number] == c.Present }

// isID accepts strings and numbers if no two entries have the same one.
func isID(c *Column) bool { return isName(c) && len(c.distinct) == c.Present }

// Outcome finds the outcomes of rollouts whose conversations are under a key.
func (cs Columns) Outcome(conversation string) Choice {
	k := RewardKey
	sure := cs.sureOutcomes(conversation)
	k.Others = slices.Concat(k.Others, sure)
	c := cs.Find(k)
	if c.Column == nil || !c.Guessed {
		return c
	}
	holder, _, _ := strings.Cut(c.Key, ".")
	about := slices.IndexFunc(cs.all, isSmaller)
	if about < 0 || slices.Contains(holders, holder) {
		return c
	}
	k.Others = sure
	if sure := cs.Find(k); sure.Column != nil {
		return sure
	}
	return Choice{Doubt: fmt.Sprintf("%q is not read as %s, because an entry with %q may be less than a rollout: "+
		"to read it anyway, add --map score=%s", c.Key, k.Means, cs.all[about].Key, c.Key)}
}

// sureOutcomes returns the names that only rollouts have, those in the entry before those in its holders.
func (cs Columns) sureOutcomes(conversation string) (own []string) {
	var held []string
	for _, o := range outcomes {
		switch {
		case !o.sure || o.of != "" && (o.of != conversation || cs.Of("instance_id") == nil):
			continue
		case o.of == "":
			held = append(held, o.names...)
		}
		own = append(own, o.names...)
	}
	for _, holder := range holders {
		if slices.ContainsFunc(cs.in(holder).all, isSmaller) {
			continue
		}
		for _, name := range held {
			own = append(own, holder+"."+name)
		}
	}
	return own
}

// in returns the columns of the objects under a key.
func (cs Columns) in(key string) Columns {
	h := Head{}
	for _, e := range cs.entries {
		v, _ := e.Get(key)
		h.Entries = append(h.Entries, parseText(v))
	}
	return h.Columns()
}

// Range describes the range of a column of scores.
func (c *Column) Range() string {
	if isVerdict(c) {
		good := 0
		for _, f := range c.numbers {
			good += int(f)
		}
		return fmt.Sprintf("true %d, false %d", good, len(c.numbers)-good)
	}
	short := func(f float64) string { return strconv.FormatFloat(f, 'g', 6, 64) }
	return short(slices.Min(c.numbers)) + " to " + short(slices.Max(c.numbers))
}

// TakeScore records the choice of a score, with its range, and its direction if the name implies that lower is better.
func (r *Reading) TakeScore(k Key, c Choice) {
	if c.Doubt != "" {
		r.Guessed = append(r.Guessed, c.Doubt)
	}
	if r.Take(k, c); c.Column == nil {
		return
	}
	if c.Guessed && len(c.numbers) > 0 {
		last := &r.Guessed[len(r.Guessed)-1]
		*last += ": " + c.Range()
		if c.Passed != nil {
			*last += "; not from " + strings.Join(c.Passed, " or ")
		}
	}
	if slices.Contains(lowerIsBetter, strings.ToLower(c.Key)) {
		r.Lower = true
		r.Guess("lower values of %q are assumed to be better", c.Key)
	}
}
