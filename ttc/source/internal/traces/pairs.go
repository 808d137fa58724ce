package traces

import (
	"errors"
	"fmt"

	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/ledger"
	"github.com/nat-go/nat-go/ttc/source/internal/source"
)

// addPairs reads the ready-made pairs and the replays that an entry lists, and the entry itself if it is a pair or a
// replay. A pair becomes a turn with two candidates, scored 1 and 0 unless the pair specifies their scores. Builders
// then process the pair like any other.
func (s *Source) addPairs(raw json.Raw, ex *ttc.Example) {
	each := func(key string, add func(raw json.Raw, ex *ttc.Example, turn string)) {
		n := 0
		for e := range s.field(key).Elements() {
			add(e, ex, fmt.Sprintf("%s/%d", key, n))
			n++
		}
	}
	each(s.cfg.PairsKey, s.addPair)
	each(s.cfg.ReplaysKey, s.addReplay)
	if answers := s.field(s.cfg.AnswersKey); answers.Kind() == json.Array && len(ex.Graph.Nodes) == 0 {
		s.addReplay(raw, ex, s.cfg.AnswersKey)
	}
	if s.isPair() {
		s.addPair(raw, ex, onlyPair)
	}
}

// onlyPair is the turn of an entry that is itself a pair.
const onlyPair = "pair"

// isPair reports whether the current entry is itself a pair.
func (s *Source) isPair() bool {
	if s.cfg.ChoiceKey != "" {
		return s.field(s.cfg.FirstKey) != nil && s.field(s.cfg.SecondKey) != nil
	}
	return s.field(s.cfg.ChosenKey) != nil && s.field(s.cfg.RejectedKey) != nil
}

func (s *Source) addPair(raw json.Raw, ex *ttc.Example, turn string) {
	st := &s.Tally.S
	st.Steps += 2
	pair, reason, err := s.parsePair(raw, turn != onlyPair)
	if err != nil {
		s.Tally.Drop(ledger.Drop{
			Unit: "step", Reason: reason, Detail: err.Error(), Run: ex.Run, Example: ex.ID, Turn: turn, Index: -1,
			File: ex.File, Offset: ex.Offset, Count: 2,
		})
		return
	}
	st.ReadyPairs++
	for i, output := range pair.outputs {
		st.AddCandidate(ex, ttc.Candidate{
			Step: s.cfg.CandidateKeys.StepName, Turn: turn, Index: int64(i), Prompt: pair.prompt, Output: output,
			Score: pair.scores[i], Offset: ex.Offset,
		})
	}
}

// pair is a pair's prompt and its two sides, the chosen one first.
type pair struct {
	prompt  ttc.Prompt
	outputs [2]string
	scores  [2]float64
}

// parsePair reads a pair. A listed pair may lack a state; its conversation then begins with the model's answer.
func (s *Source) parsePair(raw json.Raw, listed bool) (p pair, _ ledger.Reason, err error) {
	if raw.Kind() != json.Object {
		return p, source.BadStep, fmt.Errorf("expected a pair object, got %s", raw.Kind())
	}
	prompt, ok := raw.Get("state_messages")
	if !ok {
		prompt = source.At(raw, s.cfg.PromptKey)
	}
	if prompt == nil {
		prompt = s.pairPrompt(raw)
	}
	if err := p.setPrompt(s.fromTranscript(prompt)); err != nil {
		return p, source.BadStep, err
	}
	keys, err := s.sides(raw)
	if err != nil {
		return p, source.BadScore, err
	}
	var sides [2][]chat.Message
	for i, key := range keys {
		if sides[i], err = passage(s.fromTranscript(source.At(raw, key)), "assistant"); err != nil {
			return p, source.BadOutput, fmt.Errorf("%s: %w", key, err)
		}
	}
	n := p.split(sides[0], sides[1])
	if p.prompt = s.complete(p.prompt, raw); listed && p.prompt.Form == ttc.TextPrompt && p.prompt.Text == "" {
		p.prompt.Form = ttc.MessagesPrompt
	}
	for i, key := range keys {
		if p.outputs[i], err = answer(sides[i][n:]); err != nil {
			return p, source.BadOutput, fmt.Errorf("%s: %w", key, err)
		}
	}
	reason, err := s.scores(raw, &p)
	return p, reason, err
}

// sides returns the keys of a pair's better and worse sides.
func (s *Source) sides(raw json.Raw) (keys [2]string, err error) {
	if s.cfg.ChoiceKey == "" || s.field(s.cfg.FirstKey) == nil {
		return [2]string{s.cfg.ChosenKey, s.cfg.RejectedKey}, nil
	}
	label := source.At(raw, s.cfg.ChoiceKey)
	switch source.ChoiceOf(label, s.cfg.FirstKey, s.cfg.SecondKey) {
	case source.First:
		return [2]string{s.cfg.FirstKey, s.cfg.SecondKey}, nil
	case source.Second:
		return [2]string{s.cfg.SecondKey, s.cfg.FirstKey}, nil
	case source.Tie:
		return keys, fmt.Errorf("%s says that neither answer is better", s.cfg.ChoiceKey)
	}
	return keys, fmt.Errorf("%s is %s, which names neither %s nor %s",
		s.cfg.ChoiceKey, shorten(label), s.cfg.FirstKey, s.cfg.SecondKey)
}

// pairPrompt returns the messages next to a pair's sides, if they end before an answer.
func (s *Source) pairPrompt(raw json.Raw) json.Raw {
	list := source.At(raw, s.cfg.MessagesKey)
	messages, err := parseMessages(s.fromTranscript(list))
	if err != nil || len(messages) == 0 || messages[len(messages)-1].Role == "assistant" {
		return nil
	}
	return list
}

// scores sets the pair's scores: its own if it has both, else 1 and 0. The chosen answer's score must be higher.
func (s *Source) scores(raw json.Raw, p *pair) (ledger.Reason, error) {
	p.scores = [2]float64{1, 0}
	chosen := first(raw, s.cfg.ChosenScoreKey, "score_chosen")
	rejected := first(raw, s.cfg.RejectedScoreKey, "score_rejected")
	if chosen == nil || rejected == nil {
		return "", nil
	}
	for i, v := range []json.Raw{chosen, rejected} {
		f, err := reward(v)
		if err != nil || f == nil {
			return source.BadScore, fmt.Errorf("expected a finite number as the score, got %s", shorten(v))
		}
		p.scores[i] = *f
	}
	if p.scores[0] <= p.scores[1] {
		return source.BadScore, fmt.Errorf("chosen answer's score, %v, is not greater than the rejected answer's, %v",
			p.scores[0], p.scores[1])
	}
	return "", nil
}

// first returns the value under the first of the keys that has one. Keys that aren't set are skipped.
func first(raw json.Raw, keys ...string) json.Raw {
	for _, key := range keys {
		if v := source.At(raw, key); v != nil && key != "" && v.Kind() != json.Null {
			return v
		}
	}
	return nil
}

// addReplay adds several models' answers to one state as a turn with that many candidates.
func (s *Source) addReplay(raw json.Raw, ex *ttc.Example, turn string) {
	list := first(raw, s.cfg.AnswersKey)
	var p pair
	err := p.setPrompt(first(raw, "state_messages", s.cfg.PromptKey))
	if list.Kind() != json.Array && err == nil {
		err = fmt.Errorf("no list of %s", s.cfg.AnswersKey)
	}
	if err != nil {
		s.Tally.S.Steps++
		s.Tally.DropPart(ex, "step", turn, source.BadStep, err.Error())
		return
	}
	p.prompt = s.complete(p.prompt, raw)
	n := int64(0)
	for e := range list.Elements() {
		s.Tally.S.Steps++
		c := ttc.Candidate{
			Step: s.cfg.CandidateKeys.StepName, Turn: turn, Index: n, Prompt: p.prompt, Offset: ex.Offset,
		}
		n++
		if reason, err := teachersAnswer(e, &c); err != nil {
			s.Tally.DropPart(ex, "step", turn, reason, err.Error())
			continue
		}
		s.Tally.S.AddCandidate(ex, c)
	}
}

// teachersAnswer reads one of several answers to a state: its text, its score, and the model that wrote it.
func teachersAnswer(raw json.Raw, c *ttc.Candidate) (_ ledger.Reason, err error) {
	if raw.Kind() != json.Object {
		return source.BadStep, fmt.Errorf("expected an answer object, got %s", raw.Kind())
	}
	messages, err := passage(first(raw, "content", "output", "response", "text", "completion"), "assistant")
	if err == nil {
		c.Output, err = answer(messages)
	}
	if err != nil {
		return source.BadOutput, err
	}
	score := first(raw, "score", "reward")
	if score == nil {
		return source.NoScore, errors.New("answer has no score")
	}
	ok := false
	if c.Score, ok = score.Float64(); !ok {
		return source.BadScore, fmt.Errorf("expected a number as the score, got %s", score.Kind())
	}
	if name, ok := first(raw, "teacher", "model", "name").Text(); ok {
		c.Metadata = append(json.AppendString([]byte(`{"teacher": `), name), '}')
	}
	return "", nil
}

// setPrompt reads the prompt, which is text or messages. It leaves a missing prompt empty; see split.
func (p *pair) setPrompt(raw json.Raw) (err error) {
	switch raw.Kind() {
	case json.String:
		text, _ := raw.Text()
		messages, err := passage(raw, "")
		if err == nil && len(messages) > 0 && messages[0].Role != "" { // the JSON text of messages
			p.prompt.Form, p.prompt.Messages = ttc.MessagesPrompt, messages
			return nil
		}
		p.prompt.Text = text
	case json.Array, json.Object:
		p.prompt.Form = ttc.MessagesPrompt
		p.prompt.Messages, err = passage(raw, "user")
	case json.Invalid, json.Null:
	default:
		return fmt.Errorf("expected a prompt of text or messages, got %s", raw.Kind())
	}
	return err
}

// split returns the number of messages at the start that both sides share. Many data sets repeat the prompt in both
// sides, so the shared messages become the prompt and replace a separate one.
func (p *pair) split(chosen, rejected []chat.Message) (n int) {
	for n < len(chosen)-1 && n < len(rejected)-1 && chat.Equal(&chosen[n], &rejected[n]) {
		n++
	}
	if n > 0 {
		p.prompt = ttc.Prompt{Form: ttc.MessagesPrompt, Messages: chosen[:n]}
	}
	return n
}

// answer reads one side of a pair: a single assistant message that is text.
func answer(messages []chat.Message) (string, error) {
	if len(messages) == 1 {
		if m := messages[0]; m.Role == "assistant" && m.Form == chat.Text && m.ToolCalls == nil {
			return m.Text, nil
		}
	}
	return "", fmt.Errorf("expected text, or a single assistant message that is only text")
}
