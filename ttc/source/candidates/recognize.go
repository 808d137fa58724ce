package candidates

import (
	"slices"

	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/source"
)

// What the keys of candidates are also called.
var (
	outputKey = source.Key{
		Setting: "output_key", Default: "output", Means: "the answer", Is: isAnswer,
		Others: []string{
			"response", "completion", "answer", "text", "generation", "model_output", "candidate", "reply",
			"responses", "completions", "outputs", "answers",
		},
	}
	scoreKey = source.Key{
		Setting: "score_key", Default: "score", Means: "the score", Is: isScore,
		Others: append(source.ScoreNames(), "scores", "rewards", "ratings"),
	}
	promptKey = source.Key{
		Setting: "prompt_key", Default: "prompt", Means: "the prompt",
		Others: []string{"question", "query", "instruction", "input", "messages", "context", "problem", "user"},
	}
	idKey = source.Key{
		Setting: "id_key", Default: "id", Means: "the id",
		Others: []string{"prompt_id", "question_id", "example_id", "sample_id", "problem_id", "uid", "uuid"},
	}
	turnKey = source.Key{
		Setting: "turn_key", Default: "turn_id", Means: "the turn", Others: []string{"turn", "step_id"},
	}
)

// isAnswer accepts texts, and lists of them: several answers to a prompt in one line.
func isAnswer(c *source.Column) bool {
	return c.Kinds[json.String]+c.Kinds[json.Array] == c.Present
}

func isScore(c *source.Column) bool { return c.Number() || c.Kinds[json.Array] == c.Present }

// recognize knows candidates by an answer and a score.
func recognize(h *source.Head) (r source.Reading) {
	cols := h.Columns()
	output, score := cols.Find(outputKey), cols.Find(scoreKey)
	if output.Column == nil || score.Column == nil || (score.List() || output.List()) && score.List() != output.List() {
		return r
	}
	prompt := cols.Find(promptKey, output.Key)
	id := cols.Find(idKey)
	if prompt.Column == nil && id.Column == nil {
		return r
	}
	r.Fit = source.Fits
	r.Take(outputKey, output)
	r.TakeScore(scoreKey, score)
	r.Take(promptKey, prompt)
	r.Take(idKey, id)
	r.Take(turnKey, cols.Find(turnKey))
	if id.Column != nil && prompt.Column != nil && cols.Of("turn_id") == nil && rowIDs(h, id.Key, prompt.Key) {
		if r.Settings == nil {
			r.Settings = map[string]string{}
		}
		r.Settings["id_key"] = ""
		r.Guessed = append(r.Guessed, "every line has another "+id.Key+", so lines with one prompt are its candidates")
	}
	return r
}

// rowIDs says whether ids number the lines, and prompts say which of them belong together.
func rowIDs(h *source.Head, id, prompt string) bool {
	ids, prompts := map[string]bool{}, map[string]bool{}
	for _, e := range h.Entries {
		i, _ := e.Get(id)
		p, _ := e.Get(prompt)
		if ids[string(i)] {
			return false
		}
		ids[string(i)], prompts[string(p)] = true, true
	}
	return len(prompts) < len(ids)
}

// answers are the answers of a line that has several, with their scores: objects of a single answer each. nil: it has
// one.
func (k *Keys) answers(raw json.Raw) (out []json.Raw) {
	outputs, _ := raw.Get(k.OutputKey)
	scores, _ := raw.Get(k.ScoreKey)
	if outputs.Kind() != json.Array || scores.Kind() != json.Array {
		return nil
	}
	values := slices.Collect(scores.Elements())
	n := 0
	for o := range outputs.Elements() {
		line := []byte{'{'}
		for key, v := range raw.Members() {
			switch {
			case key.Is(k.OutputKey):
				v = o
			case key.Is(k.ScoreKey) && n < len(values):
				v = values[n]
			case key.Is(k.ScoreKey):
				v = json.Raw("null")
			}
			if len(line) > 1 {
				line = append(line, ',')
			}
			line = append(append(append(line, key...), ':'), v...)
		}
		out = append(out, append(line, '}'))
		n++
	}
	return out
}
