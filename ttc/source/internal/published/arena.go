package published

import (
	"errors"
	"fmt"
	"strings"

	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/source/internal/source"
)

// said is a message of a conversation.
type said struct{ role, text string }

// arena reads a battle from Chatbot Arena or MT-Bench: two conversations, or two answers, and a vote.
func arena(e json.Raw) (string, []Line, error) {
	var sides [2]side
	var err error
	if sides[0].score, sides[1].score, err = vote(e); err != nil {
		return "", nil, err
	}
	var talks [2][]said
	for i, name := range []string{"a", "b"} {
		sides[i].model = value(e, "model_"+name)
		if talks[i], err = talk(e, name); err != nil {
			return "", nil, err
		}
	}
	n := len(talks[0]) - 1
	if len(talks[1])-1 != n {
		return "", nil, errors.New("conversations differ in length: the vote is not about two answers to a prompt")
	}
	var prompt messages
	for k := range n {
		if talks[0][k] != talks[1][k] {
			return "", nil, errors.New("conversations differ before the last answer: the vote is about several answers")
		}
		prompt = prompt.add(talks[0][k].role, talks[0][k].text)
	}
	for i := range sides {
		if talks[i][n].role != "assistant" {
			return "", nil, fmt.Errorf("expected an assistant message at the end, got the role %q", talks[i][n].role)
		}
		sides[i].text = talks[i][n].text
	}
	metadata := pick(e, "judge", "language", "category_tag", "criteria_tag")
	return pair(source.IDText(value(e, "id", "question_id")), "", prompt.end(), metadata, sides)
}

// vote returns the scores of sides a and b, which are 1 for the winner and 0 otherwise.
func vote(e json.Raw) (a, b float64, err error) {
	if v := value(e, "winner"); v != nil {
		name, _ := v.Text()
		name = strings.ToLower(name)
		switch name {
		case "model_a", "a":
			return 1, 0, nil
		case "model_b", "b":
			return 0, 1, nil
		}
		if strings.HasPrefix(name, "tie") || strings.HasPrefix(name, "both") { // also tie (bothbad)
			return 0, 0, nil
		}
		return 0, 0, fmt.Errorf("invalid winner %s: expected model_a, model_b or tie", v)
	}
	one := func(key string) bool {
		v := value(e, key)
		is, _ := v.Bool()
		n, _ := number(v)
		return is || n == 1
	}
	switch {
	case one("winner_model_a"):
		return 1, 0, nil
	case one("winner_model_b"):
		return 0, 1, nil
	case one("winner_tie"):
		return 0, 0, nil
	}
	return 0, 0, fmt.Errorf("winner %w", ErrNoScore)
}

// talk returns one side of a battle, up to the answer that was judged.
func talk(e json.Raw, name string) (out []said, err error) {
	if v := value(e, "conversation_"+name); v != nil {
		out, err = conversation(v)
		if err != nil {
			return nil, fmt.Errorf("conversation_%s: %w", name, err)
		}
		return judged(e, out), nil
	}
	asked, err := textsOf(value(e, "prompt"))
	if err != nil {
		return nil, fmt.Errorf("prompt: %w", err)
	}
	answered, err := textsOf(value(e, "response_"+name))
	if err != nil {
		return nil, fmt.Errorf("response_%s: %w", name, err)
	}
	if len(asked) != len(answered) {
		return nil, fmt.Errorf("response_%s has %d texts, but the prompt has %d", name, len(answered), len(asked))
	}
	for k := range asked {
		out = append(out, said{"user", asked[k]}, said{"assistant", answered[k]})
	}
	return out, nil
}

// conversation reads a list of text messages.
func conversation(v json.Raw) (out []said, err error) {
	if v, err = list(v); err != nil {
		return nil, err
	}
	for m := range v.Elements() {
		role, err := textOf(m, "role")
		if err != nil {
			return nil, err
		}
		content, ok := contentOf(value(m, "content"))
		if !ok {
			return nil, fmt.Errorf("content of message %d is not text", len(out)+1)
		}
		out = append(out, said{role, content})
	}
	if len(out) == 0 {
		return nil, errors.New("empty")
	}
	return out, nil
}

// contentOf returns a message's text: a string, or a list with a single text part.
func contentOf(v json.Raw) (string, bool) {
	if v.Kind() != json.Array {
		return v.Text()
	}
	text, n := "", 0
	for part := range v.Elements() {
		t := value(part, "text")
		kind, _ := value(part, "type").Text()
		if n++; t == nil || kind != "" && kind != "text" {
			return "", false
		}
		text, _ = t.Text()
	}
	return text, n == 1
}

// judged truncates a conversation after the turn that was judged, if the entry names it.
func judged(e json.Raw, talk []said) []said {
	turn, err := number(value(e, "turn"))
	if err != nil || turn < 1 {
		return talk
	}
	for k, m := range talk {
		if m.role == "assistant" {
			turn--
		}
		if turn == 0 {
			return talk[:k+1]
		}
	}
	return talk
}

// textsOf reads a string or a list of strings, which may be given as JSON text.
func textsOf(v json.Raw) (out []string, err error) {
	text, isText := v.Text()
	if isText && !strings.HasPrefix(text, "[\"") {
		return []string{text}, nil
	}
	inner, err := list(v)
	switch {
	case isText && err != nil: // the text only looks like a list
		return []string{text}, nil
	case err != nil:
		return nil, err
	}
	for element := range inner.Elements() {
		text, ok := element.Text()
		if !ok {
			return nil, fmt.Errorf("text %d is %s", len(out)+1, element.Kind())
		}
		out = append(out, text)
	}
	if len(out) == 0 {
		return nil, errors.New("empty")
	}
	return out, nil
}
