package source

import (
	"strings"

	"github.com/nat-go/nat-go/ttc/json"
)

// Chosen is a label's verdict about two answers.
type Chosen uint8

// The verdicts of a label.
const (
	NoChoice Chosen = iota // the label names neither answer
	First
	Second
	Tie
)

// labels maps labels whose meaning doesn't depend on the answers' names; any other label is a suffix of such a name.
var labels = map[string]Chosen{
	"left": First, "first": First, "right": Second, "second": Second,
	"tie": Tie, "both": Tie, "neither": Tie, "equal": Tie, "same": Tie, "none": Tie, "": Tie,
}

// ChoiceOf returns which of two answers a label chooses. A label is a word such as left, the name of an answer's key,
// or a suffix that only that name has, such as 2 for answer2. A missing label or an empty list means a tie. A list with
// one label, or an object with a label under value, selected or choices, means that label.
func ChoiceOf(label json.Raw, first, second string) Chosen {
	switch label.Kind() {
	case json.Invalid, json.Null:
		return Tie
	case json.Array:
		return choiceOfList(label, first, second)
	case json.Object:
		for _, key := range []string{"value", "selected", "choices"} {
			if inner, ok := label.Get(key); ok {
				return ChoiceOf(inner, first, second)
			}
		}
		return NoChoice
	}
	word := CommonName(IDText(label))
	if word == "" {
		return Tie
	}
	first, second = withoutCommonEnd(first, second)
	is := func(name string) bool {
		name = CommonName(name[strings.LastIndexByte(name, '.')+1:])
		rest, ends := strings.CutSuffix(name, word)
		if !ends || rest == "" || len(word) > 1 {
			return ends
		}
		before := rest[len(rest)-1]
		return !isAlphanumeric(before) || isLetter(word[0]) != isLetter(before)
	}
	switch one, other := is(first), is(second); {
	case one && !other:
		return First
	case other && !one:
		return Second
	}
	return labels[word]
}

// withoutCommonEnd removes the trailing keys that two paths share: a.text and b.text become a and b.
func withoutCommonEnd(first, second string) (_, _ string) {
	i, j := strings.LastIndexByte(first, '.'), strings.LastIndexByte(second, '.')
	if i < 0 || j < 0 || first[i:] != second[j:] {
		return first, second
	}
	return withoutCommonEnd(first[:i], second[:j])
}

func choiceOfList(list json.Raw, first, second string) Chosen {
	chosen, n := Tie, 0
	for e := range list.Elements() {
		chosen = ChoiceOf(e, first, second)
		n++
	}
	if n > 1 {
		return NoChoice
	}
	return chosen
}

func isLetter(b byte) bool { return b|0x20 >= 'a' && b|0x20 <= 'z' }

func isAlphanumeric(b byte) bool { return isLetter(b) || b >= '0' && b <= '9' }
