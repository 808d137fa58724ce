package traces

import (
	"fmt"

	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/ledger"
	"github.com/nat-go/nat-go/ttc/source"
)

// addPairs reads pairs that were made elsewhere: those that an entry lists, and an entry that is one itself. A pair becomes a turn
// of two candidates, scored 1 and 0, so that all that is done to pairs is done to it.
func (s *Source) addPairs(raw json.Raw, ex *ttc.Example) {
	list, _ := raw.Get(s.cfg.PairsKey)
	if list.Kind() == json.Array {
		n := 0
		for e := range list.Elements() {
			s.addPair(e, ex, fmt.Sprintf("%s/%d", s.cfg.PairsKey, n))
			n++
		}
	}
	if _, ok := raw.Get("chosen"); ok && len(ex.Graph.Nodes) == 0 {
		s.addPair(raw, ex, "pair")
	}
}

func (s *Source) addPair(raw json.Raw, ex *ttc.Example, turn string) {
	st := &s.Tally.S
	st.Steps += 2
	pair, reason, err := parsePair(raw)
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

func parsePair(raw json.Raw) (p pair, _ ledger.Reason, err error) {
	if raw.Kind() != json.Object {
		return p, source.BadStep, fmt.Errorf("the pair is %s, not an object", raw.Kind())
	}
	prompt, ok := raw.Get("state_messages")
	if !ok {
		prompt, _ = raw.Get("prompt")
	}
	switch prompt.Kind() {
	case json.String:
		p.prompt.Text, _ = prompt.Text()
	case json.Array:
		p.prompt.Form = ttc.MessagesPrompt
		if p.prompt.Messages, err = chat.ParseMessages(prompt); err != nil {
			return p, source.BadStep, err
		}
	case json.Invalid, json.Null:
	default:
		return p, source.BadStep, fmt.Errorf("the prompt is %s, neither text nor messages", prompt.Kind())
	}
	chosen, _ := raw.Get("chosen")
	if p.chosen, err = answer(chosen); err != nil {
		return p, source.BadOutput, fmt.Errorf("chosen: %w", err)
	}
	rejected, _ := raw.Get("rejected")
	if p.rejected, err = answer(rejected); err != nil {
		return p, source.BadOutput, fmt.Errorf("rejected: %w", err)
	}
	return p, "", nil
}

// answer is a side of a pair: a text, or a list of one message of the assistant.
func answer(raw json.Raw) (string, error) {
	if text, ok := raw.Text(); ok {
		return text, nil
	}
	messages, err := chat.ParseMessages(raw)
	switch {
	case err != nil:
		return "", fmt.Errorf("%s, neither text nor a message", raw.Kind())
	case len(messages) != 1 || messages[0].Role != "assistant" || messages[0].Form != chat.Text || messages[0].ToolCalls != nil:
		return "", fmt.Errorf("it has to be a text, or one message of the assistant that is text alone")
	}
	return messages[0].Text, nil
}
