package published

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/source/internal/compose"
	"github.com/nat-go/nat-go/ttc/source/internal/session"
	"github.com/nat-go/nat-go/ttc/source/internal/source"
)

// The keys of a line that is an answer with its score.
const (
	IDKey       = "id"
	TurnKey     = "turn_id"
	TaskKey     = "task_id"
	PromptKey   = "prompt"
	OutputKey   = "output"
	ScoreKey    = "score"
	ModelKey    = "model"
	MetadataKey = "metadata"
)

// Line is an answer with its score, or the reason an answer can't be read.
type Line struct {
	Answer json.Raw
	Err    error
}

// ErrNoScore means that an answer lacks a score.
var ErrNoScore = errors.New("is null or missing, so the answer has no score")

// Rewriter converts an entry to the answers in it. All entries of an example have the same id; if id is empty, the
// entry forms its own example.
type Rewriter func(entry json.Raw) (id string, lines []Line, err error)

// Answers describes a shape of scored answers.
type Answers struct {
	Name string // value of the setting `shape`
	Told string // description for users of how the entries are read
	is   func(*source.Head) bool
	New  func() Rewriter // creates a rewriter, which remembers an example's entries
}

// stateless returns the function that creates rewriters for a shape whose entries are read independently.
func stateless(read func(*reading) (id string, lines []Line)) func() Rewriter {
	rewrite := func(entry json.Raw) (string, []Line, error) {
		r := reading{Raw: entry}
		if id, lines := read(&r); r.err == nil {
			return id, lines, nil
		}
		return "", nil, r.err
	}
	return func() Rewriter { return rewrite }
}

var answers = []Answers{
	{
		"oasst", "the entries are messages in conversation trees, as in OASST: answers to one message are compared by rank",
		isOASST, newOASST,
	},
	{
		"shp", "the entries are two answers to a post, as in SHP, with the scores of both",
		func(h *source.Head) bool {
			return hasAll(h, "history", "human_ref_A", "human_ref_B") && hasAny(h, "labels", "score_A")
		}, stateless(shp),
	},
	{
		"helpsteer3", "the entries are two answers and a preference from -3 to 3, as in HelpSteer3",
		func(h *source.Head) bool {
			return hasAll(h, "context", "response1", "response2", "overall_preference") ||
				hasAll(h, "prompt", "response_1", "response_2", "preference_strength")
		}, stateless(helpSteer),
	},
	{
		"saferlhf", "the entries are two answers and the number of the better one, as in PKU-SafeRLHF",
		func(h *source.Head) bool {
			return hasAll(h, "prompt", "response_0", "response_1", "better_response_id")
		},
		stateless(numbered),
	},
	{
		"webgpt", "the entries are two answers to a question with the scores of both, as in WebGPT's comparisons",
		func(h *source.Head) bool { return hasAll(h, "question", "answer_0", "answer_1", "score_0", "score_1") },
		stateless(webGPT),
	},
	{
		"verl", "the entries are rollouts as written by verl: inputs are split into messages, and " +
			"answers to the same input are compared by score", isVerl, stateless(verl),
	},
	{
		"lm_eval", "the entries are samples of lm-evaluation-harness: what the model was given, its answers, and the " +
			"first metric as the score", isLMEval, stateless(lmEval),
	},
	{
		"arena", "the entries are battles between two models, as in Chatbot Arena: the winner scores 1, a " +
			"tie has equal scores",
		func(h *source.Head) bool {
			return (hasAll(h, "conversation_a", "conversation_b") || hasAll(h, "prompt", "response_a", "response_b")) &&
				hasAny(h, "winner", "winner_model_a")
		}, stateless(arena),
	},
}

// hasAll reports whether every entry has all of the keys.
func hasAll(h *source.Head, keys ...string) bool {
	return len(h.Entries) > 0 && !slices.ContainsFunc(h.Entries, func(e json.Raw) bool {
		return !session.Has(e, keys...)
	})
}

// hasAny reports whether any entry has one of the keys.
func hasAny(h *source.Head, keys ...string) bool { return h.Columns().Has(keys...) }

// AnswersOf returns the shape of the scored answers in an input. It returns nil if the input has none of the known
// shapes, or if the user named its keys.
func AnswersOf(h *source.Head) *Answers {
	if keysGiven(h) {
		return nil
	}
	return first(answers, func(s Answers) bool { return s.is(h) })
}

// Reading returns the source.Reading for inputs of a shape.
func Reading(name, told string) source.Reading {
	r := source.Reading{Fit: source.Certain, Guessed: []string{told}}
	r.Set("shape", name)
	return r
}

// first returns the first item for which the given function returns true, or nil.
func first[T any](list []T, is func(T) bool) *T {
	if i := slices.IndexFunc(list, is); i >= 0 {
		return &list[i]
	}
	return nil
}

// keysGiven reports whether the user named a key of prompts, answers, messages or scores.
func keysGiven(h *source.Head) bool {
	return slices.ContainsFunc([]string{
		"prompt_key", "output_key", "response_key", "score_key", "reward_key", "messages_key", "chosen_key",
		"rejected_key",
	}, func(setting string) bool { return h.Given[setting] != "" })
}

// NewRewriter returns a rewriter for the shape with the given name, or nil.
func NewRewriter(name string) Rewriter {
	if a := first(answers, func(s Answers) bool { return s.Name == name }); a != nil {
		return a.New()
	}
	return nil
}

// side is one of two answers to a prompt.
type side struct {
	text  string
	score float64
	model json.Raw
}

// pair returns the lines for two answers to one prompt.
func pair(id, turn string, prompt, metadata json.Raw, sides [2]side) (_ string, lines []Line) {
	for _, s := range sides {
		line := compose.Object(nil).Name(IDKey, id).Name(TurnKey, turn).Set(PromptKey, prompt).Text(OutputKey, s.text)
		line = line.Set(ScoreKey, strconv.AppendFloat(nil, s.score, 'g', -1, 64))
		lines = append(lines, Line{Answer: line.Set(ModelKey, s.model).Set(MetadataKey, metadata).End()})
	}
	return id, lines
}

// shp reads an entry of Stanford Human Preferences: a post and two comments with their votes.
func shp(r *reading) (string, []Line) {
	history, sides := r.text("history"), r.sides("human_ref_A", "human_ref_B")
	votes := 0
	for i, key := range []string{"score_A", "score_B"} {
		if value(r.Raw, key) != nil {
			votes++
			sides[i].score = r.score(key)
		}
	}
	if v := value(r.Raw, "labels"); v != nil { // 1 means that A is preferred
		label, err := number(v)
		switch difference := sides[0].score - sides[1].score; {
		case err != nil || label != 0 && label != 1:
			r.fail("labels is neither 0 nor 1")
		case votes < 2:
			sides[0].score, sides[1].score = label, 1-label
		case label == 1 && difference <= 0 || label == 0 && difference >= 0:
			r.fail("labels is %v, which contradicts the scores %v and %v", label, sides[0].score, sides[1].score)
		}
	} else if votes < 2 {
		r.fail("labels %w", ErrNoScore)
	}
	turn := source.IDText(value(r.Raw, "c_root_id_A")) + " or " + source.IDText(value(r.Raw, "c_root_id_B"))
	if turn == " or " {
		turn = ""
	}
	metadata := pick(r.Raw, "domain", "upvote_ratio", "score_ratio", "seconds_difference")
	return pair(source.IDText(value(r.Raw, "post_id")), turn, json.AppendString(nil, history), metadata, sides)
}

// numbered reads an entry that gives the number of the better answer: 0 or 1.
func numbered(r *reading) (string, []Line) {
	prompt, better := r.text("prompt"), r.score("better_response_id")
	if better != 0 && better != 1 {
		r.fail("better_response_id is neither 0 nor 1")
	}
	sides := r.sides("response_0", "response_1")
	sides[0].score, sides[1].score = 1-better, better
	metadata := pick(r.Raw, "safer_response_id", "is_response_0_safe", "is_response_1_safe", "prompt_source")
	return pair("", "", json.AppendString(nil, prompt), metadata, sides)
}

// webGPT reads a WebGPT comparison, whose question may be an object.
func webGPT(r *reading) (string, []Line) {
	asked, key := *r, "question"
	if question := value(r.Raw, key); question.Kind() == json.Object {
		asked.Raw, key = question, "full_text"
	}
	question := asked.text(key)
	r.err = asked.err
	sides := r.sides("answer_0", "answer_1")
	sides[0].score, sides[1].score = r.score("score_0"), r.score("score_1")
	return pair("", "", json.AppendString(nil, question), pick(asked.Raw, "dataset", "id"), sides)
}

// number reads a finite number, or a string containing one, as found in tables.
func number(v json.Raw) (float64, error) {
	f, ok := source.Number(v)
	if !ok || math.IsInf(f, 0) || math.IsNaN(f) {
		return 0, fmt.Errorf("%s, not a finite number", v.Kind())
	}
	return f, nil
}

// helpSteer reads a preference from HelpSteer3 or HelpSteer2, where negative values prefer the first answer.
func helpSteer(r *reading) (string, []Line) {
	keys, prompt, strength := [2]string{"response1", "response2"}, value(r.Raw, "context"), "overall_preference"
	if _, third := r.Get(strength); !third {
		keys, prompt, strength = [2]string{"response_1", "response_2"}, value(r.Raw, "prompt"), "preference_strength"
	}
	if prompt == nil {
		r.fail("missing prompt; the keys are: %s", source.KeysOf(r.Raw))
	}
	if text, ok := prompt.Text(); ok && len(text) > 0 && text[0] == '[' { // tables store the list as a string
		if inner, err := list(prompt); err == nil {
			prompt = inner
		}
	}
	sides, preference := r.sides(keys[0], keys[1]), r.score(strength)
	sides[0].score, sides[1].score = max(0, -preference), max(0, preference)
	metadata := pick(r.Raw, "domain", "language", "individual_preference", "preference_statement", "split")
	return pair(source.IDText(value(r.Raw, "id")), "", prompt, metadata, sides)
}
