package candidates

import (
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/source/internal/published"
	"github.com/nat-go/nat-go/ttc/source/internal/source"
	"github.com/nat-go/nat-go/ttc/source/internal/transcript"
)

// Alternative names for a candidate's keys.
var (
	outputKey = source.Key{
		Setting: "output_key", Default: "output", Means: "the answer", Is: isAnswer,
		Others: []string{
			"response", "completion", "answer", "generation", "model_output", "candidate", "reply",
			"model_answer", "model_response", "actual_output", "actualoutput",
			"responses", "completions", "outputs", "answers", "generations", "candidates", "bot", "a",
		},
		Last: []string{"text"},
	}
	// answerKey is the key of the text in an answer, if answers are a list of objects.
	answerKey = source.Key{
		Setting: "answer_key", Means: "its text", Is: (*source.Column).Text,
		Others: []string{"response", "completion", "answer", "output", "generation", "content", "text", "reply"},
	}
	scoreKey = source.Key{
		Setting: "score_key", Default: "score", Means: "the score", Is: isScore, Ranked: true,
		Others: append(source.ScoreNames(), "scores", "rewards", "ratings"),
	}
	promptKey = source.Key{
		Setting: "prompt_key", Default: "prompt", Means: "the prompt",
		Others: []string{"question", "query", "instruction", "input", "messages", "problem", "user", "human", "q"},
		Last:   []string{"context", "conversation", "conversations"},
	}
	systemKey = source.Key{
		Setting: "system_key", Means: "the system message", Is: (*source.Column).Text,
		Others: []string{"system", "system_prompt", "system_message"},
	}
	idKey = source.Key{
		Setting: "id_key", Default: "id", Means: "the id",
		Others: []string{"prompt_id", "question_id", "example_id", "sample_id", "problem_id", "uid", "uuid"},
	}
	turnKey = source.Key{
		Setting: "turn_key", Default: "turn_id", Means: "the turn", Others: []string{"turn", "step_id"},
	}
)

// isAnswer reports whether a column holds only strings and lists. A list may hold several answers to a prompt.
func isAnswer(c *source.Column) bool {
	return c.Kinds[json.String]+c.Kinds[json.Array] == c.Present
}

func isScore(c *source.Column) bool {
	return source.RewardKey.Is(c) || c.Kinds[json.Array] == c.Present
}

// recognize identifies candidates by the presence of an answer and a score.
func recognize(h *source.Head) (r source.Reading) {
	if shape := published.AnswersOf(h); shape != nil {
		return published.Reading(shape.Name, shape.Told)
	}
	cols := h.Columns()
	output := cols.Find(outputKey)
	if output.Column == nil {
		return r
	}
	score, answer := cols.Find(scoreKey), source.Choice{}
	several := output.List()
	if inner := h.Objects(output.Key); several && inner.Names() != "" {
		// A list of messages or of parts is one answer; a list of other objects has several, with their scores.
		if several = !inner.Has("role", "from", "type"); several {
			answer, score = inner.Find(answerKey), inner.Find(scoreKey)
			if answer.Column == nil {
				return r
			}
		}
	}
	if why := h.TextScores("score_key"); why != "" && answer.Column == nil && !several {
		return source.Reading{Fit: source.Fits, Problem: why}
	}
	if score.Column == nil || answer.Column == nil && score.List() != several {
		return r
	}
	prompt := cols.Find(promptKey, output.Key)
	id := cols.Find(idKey)
	if prompt.Column == nil && id.Column == nil {
		return r
	}
	r.Fit = source.Fits
	r.Take(outputKey, output)
	r.Take(answerKey, answer)
	r.TakeScore(scoreKey, score)
	takePrompt(&r, h, prompt)
	r.Take(systemKey, cols.Find(systemKey))
	r.Take(idKey, id)
	r.Take(turnKey, cols.Find(turnKey))
	if id.Column != nil && prompt.Column != nil && cols.Of("turn_id") == nil && rowIDs(h, id.Key, prompt.Key) {
		r.Set("id_key", "")
		r.Guess("every line has its own %s, so lines with the same prompt are taken as its candidates", id.Key)
	}
	return r
}

// takePrompt sets the keys of the prompt and of its context, and whether prompts are transcripts.
func takePrompt(r *source.Reading, h *source.Head, prompt source.Choice) {
	r.Take(promptKey, prompt)
	if prompt.Column == nil || !prompt.Text() {
		return
	}
	if prompt.Guessed { // a column called prompt doesn't need a context
		r.Take(source.ContextKey, h.Columns().Find(source.ContextKey, prompt.Key, r.Settings["output_key"]))
	}
	if h.Texts(prompt.Key, transcript.Is) {
		r.Set("transcripts", "split")
		r.Guess("the prompts are transcripts, and are split into messages")
	}
}

// rowIDs reports whether the ids are merely line numbers, so that lines are grouped by prompt instead.
func rowIDs(h *source.Head, id, prompt string) bool {
	ids, prompts := map[string]bool{}, map[string]bool{}
	for _, e := range h.Entries {
		i := string(source.At(e, id))
		if ids[i] {
			return false
		}
		ids[i], prompts[string(source.At(e, prompt))] = true, true
	}
	return len(prompts) < len(ids)
}
