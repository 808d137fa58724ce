package published

import (
	"errors"
	"fmt"
	"strings"

	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/source/internal/compose"
	"github.com/nat-go/nat-go/ttc/source/internal/session"
	"github.com/nat-go/nat-go/ttc/source/internal/source"
)

// said is a message of a conversation.
type said struct{ role, text string }

// arena reads a battle from Chatbot Arena or MT-Bench: two conversations, or two answers, and a vote.
func arena(r *reading) (string, []Line) {
	var sides [2]side
	sides[0].score, sides[1].score = r.vote()
	var talks [2][]said
	for i, name := range []string{"a", "b"} {
		sides[i].model = value(r.Raw, "model_"+name)
		talks[i] = r.talk(name)
	}
	n := len(talks[0]) - 1
	if len(talks[1])-1 != n {
		r.fail("conversations differ in length: the vote is not about two answers to a prompt")
	}
	if r.err != nil {
		return "", nil
	}
	var prompt compose.List
	for k := range n {
		if talks[0][k] != talks[1][k] {
			r.fail("conversations differ before the last answer: the vote is about several answers")
		}
		prompt = prompt.AddMessage(talks[0][k].role, talks[0][k].text)
	}
	for i := range sides {
		if talks[i][n].role != "assistant" {
			r.fail("expected an assistant message at the end, got the role %q", talks[i][n].role)
		}
		sides[i].text = talks[i][n].text
	}
	metadata := pick(r.Raw, "judge", "language", "category_tag", "criteria_tag")
	return pair(source.IDText(value(r.Raw, "id", "question_id")), "", prompt.End(), metadata, sides)
}

// vote returns the scores of sides a and b, which are 1 for the winner and 0 otherwise.
func (r *reading) vote() (a, b float64) {
	one := func(key string) bool {
		v := value(r.Raw, key)
		is, _ := v.Bool()
		n, _ := number(v)
		return is || n == 1
	}
	winner := value(r.Raw, "winner")
	name := strings.ToLower(session.Text(winner))
	switch {
	case name == "model_a", name == "a", winner == nil && one("winner_model_a"):
		return 1, 0
	case name == "model_b", name == "b", winner == nil && one("winner_model_b"):
		return 0, 1
	case strings.HasPrefix(name, "tie"), strings.HasPrefix(name, "both"), // also tie (bothbad)
		winner == nil && one("winner_tie"):
	case winner != nil:
		r.fail("invalid winner %s: expected model_a, model_b or tie", winner)
	default:
		r.fail("winner %w", ErrNoScore)
	}
	return 0, 0
}

// talk returns one side of a battle, up to the answer that was judged.
func (r *reading) talk(name string) (out []said) {
	if v := value(r.Raw, "conversation_"+name); v != nil {
		out, err := conversation(v)
		if err != nil {
			r.fail("conversation_%s: %w", name, err)
		}
		return judged(r.Raw, out)
	}
	asked, answered := r.texts("prompt"), r.texts("response_"+name)
	if len(asked) != len(answered) {
		r.fail("response_%s has %d texts, but the prompt has %d", name, len(answered), len(asked))
		return nil
	}
	for k := range asked {
		out = append(out, said{"user", asked[k]}, said{"assistant", answered[k]})
	}
	return out
}

// texts returns the texts under a key; see textsOf.
func (r *reading) texts(key string) []string {
	out, err := textsOf(value(r.Raw, key))
	if err != nil {
		r.fail("%s: %w", key, err)
	}
	return out
}

// conversation reads a list of text messages.
func conversation(v json.Raw) (out []said, err error) {
	if v, err = list(v); err != nil {
		return nil, err
	}
	for m := range v.Elements() {
		r := reading{Raw: m}
		role := r.text("role")
		content, ok := contentOf(value(m, "content"))
		if !ok {
			r.fail("content of message %d is not text", len(out)+1)
		}
		if r.err != nil {
			return nil, r.err
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
		t, kind := value(part, "text"), session.Text(part, "type")
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
