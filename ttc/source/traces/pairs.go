package traces

import (
	"fmt"

	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/ledger"
	"github.com/nat-go/nat-go/ttc/source"
)

// addPairs reads pairs that were made elsewhere: those that an entry lists, and an entry that is one itself. A pair
// becomes a turn of two candidates, scored 1 and 0, so that all that is done to pairs is done to it.
func (s *Source) addPairs(raw json.Raw, ex *ttc.Example) {
	list, _ := raw.Get(s.cfg.PairsKey)
	if list.Kind() == json.Array {
		n := 0
		for e := range list.Elements() {
			s.addPair(e, ex, fmt.Sprintf("%s/%d", s.cfg.PairsKey, n))
			n++
		}
	}
	chosen, _ := raw.Get(s.cfg.ChosenKey)
	rejected, _ := raw.Get(s.cfg.RejectedKey)
	if chosen != nil && rejected != nil {
		s.addPair(raw, ex, "pair")
	}
}

func (s *Source) addPair(raw json.Raw, ex *ttc.Example, turn string) {
	st := &s.Tally.S
	st.Steps += 2
	pair, reason, err := s.parsePair(raw)
	if err != nil {
		s.Tally.Drop(ledger.Drop{
			Unit: "step", Reason: reason, Detail: err.Error(), Run: ex.Run, Example: ex.ID, Turn: turn, Index: -1,
			File: ex.File, Offset: ex.Offset, Count: 2,
		})
		return
	}
	for i, output := range []string{pair.chosen, pair.rejected} {
		st.Candidates++
		st.Names[s.cfg.CandidateKeys.StepName]++
		ex.Candidates = append(ex.Candidates, ttc.Candidate{
			Step: s.cfg.CandidateKeys.StepName, Turn: turn, Index: int64(i), Prompt: pair.prompt, Output: output, Score: float64(1 - i),
			Offset: ex.Offset,
		})
	}
}

type pair struct {
	prompt           ttc.Prompt
	chosen, rejected string
}

func (s *Source) parsePair(raw json.Raw) (p pair, _ ledger.Reason, err error) {
	if raw.Kind() != json.Object {
		return p, source.BadStep, fmt.Errorf("the pair is %s, not an object", raw.Kind())
	}
	prompt, ok := raw.Get("state_messages")
	if !ok {
		prompt, _ = raw.Get(s.cfg.PromptKey)
	}
	if err := p.setPrompt(prompt); err != nil {
		return p, source.BadStep, err
	}
	better, _ := raw.Get(s.cfg.ChosenKey)
	chosen, err := passage(better, "assistant")
	if err != nil {
		return p, source.BadOutput, fmt.Errorf("%s: %w", s.cfg.ChosenKey, err)
	}
	worse, _ := raw.Get(s.cfg.RejectedKey)
	rejected, err := passage(worse, "assistant")
	if err != nil {
		return p, source.BadOutput, fmt.Errorf("%s: %w", s.cfg.RejectedKey, err)
	}
	chosen, rejected = p.split(chosen, rejected)
	if p.chosen, err = answer(chosen); err != nil {
		return p, source.BadOutput, fmt.Errorf("%s: %w", s.cfg.ChosenKey, err)
	}
	if p.rejected, err = answer(rejected); err != nil {
		return p, source.BadOutput, fmt.Errorf("%s: %w", s.cfg.RejectedKey, err)
	}
	return p, "", nil
}

// setPrompt reads the prompt, which may be a text, messages, or missing: then the sides begin with it.
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
		return fmt.Errorf("the prompt is %s, neither text nor messages", raw.Kind())
	}
	return err
}

// split takes what both sides begin with off them: many data sets repeat the prompt in each. It becomes the prompt,
// which is more than a prompt that stands beside them says.
func (p *pair) split(chosen, rejected []chat.Message) (_, _ []chat.Message) {
	n := 0
	for n < len(chosen)-1 && n < len(rejected)-1 && chat.Equal(&chosen[n], &rejected[n]) {
		n++
	}
	if n > 0 {
		p.prompt = ttc.Prompt{Form: ttc.MessagesPrompt, Messages: chosen[:n]}
	}
	return chosen[n:], rejected[n:]
}

// answer is a side of a pair: one message of the assistant that is text.
func answer(messages []chat.Message) (string, error) {
	if len(messages) == 1 {
		if m := messages[0]; m.Role == "assistant" && m.Form == chat.Text && m.ToolCalls == nil {
			return m.Text, nil
		}
	}
	return "", fmt.Errorf("it has to be a text, or one message of the assistant that is text alone")
}
