package detect

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/nat-go/nat-go/internal/lists"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/source/internal/source"
)

// Words in key names. A name is compared word by word: "Customer asks" and inputs.userQuestion match.
var (
	promptWords = []string{
		"prompt", "question", "query", "instruction", "instructions", "problem", "asks", "asked", "ask", "request",
		"customer", "frage", "pregunta",
	}
	answerWords = []string{
		"answer", "response", "reply", "completion", "generation", "output", "said", "says", "resps", "bot",
		"assistant",
		"antwort", "respuesta", "réponse",
	}
	scoreWords = append(source.ScoreNames(), "points", "scores", "note", "bewertung")
	// otherWords are words in the names of keys that don't hold prompts, answers or scores, regardless of their values.
	otherWords = []string{
		"id", "uuid", "uid", "hash", "no", "number", "ticket", "date", "time", "timestamp", "at", "created", "updated",
		"url", "link", "path", "file", "model", "version", "author", "project", "metric", "filter", "split", "source",
		"usage", "tokens", "latency", "cost", "count", "index", "name", "type", "status", "language", "lang",
		"role", "reason",
	}
)

// likeness holds the possible meanings of an input's keys, based on their names and values.
type likeness struct {
	keys  [][2]string // meaning and key, as in --map: {{"prompt", "Frage"}, ...}
	doubt [][]string  // for each meaning in doubt, a list of the meaning and the keys that may have it
}

// likely finds the keys that may have the wanted meanings, except for keys whose meaning is in doubt.
func likely(h *source.Head) (l likeness) {
	columns := slices.Concat(h.Columns().All(), h.Paths())
	prompts := find(columns, promptWords, isSaid)
	if first, second, choice := chosenBetween(h, columns); choice != "" {
		l.add(prompts, "prompt")
		l.keys = append(l.keys, [2]string{"first", first}, [2]string{"second", second}, [2]string{"choice", choice})
		l.doubt = nil
		return l
	}
	answers := find(columns, answerWords, isSaid)
	prompts = slices.DeleteFunc(prompts, func(key string) bool { return slices.Contains(answers, key) })
	prompts, answers = remaining(columns, prompts, answers)
	l.add(prompts, "prompt")
	l.add(answers, "output")
	l.add(find(columns, scoreWords, (*source.Column).Number), "score")
	return l
}

// find returns the keys whose names match their meaning and whose values fit. Keys that match in the last element of
// their path take precedence over keys that match only in another element.
func find(columns []*source.Column, words []string, fits func(*source.Column) bool) []string {
	var last, any []string
	for _, c := range columns {
		named := source.Words(c.Key)
		if len(named) == 0 || !fits(c) || c.Present == 0 {
			continue
		}
		leaf := leafWords(c)
		switch {
		case common(leaf, otherWords):
		case common(leaf, words):
			last = append(last, c.Key)
		case common(named, words):
			any = append(any, c.Key)
		}
	}
	if last != nil {
		return last
	}
	return any
}

// common reports whether two lists have a word in common.
func common(a, b []string) bool {
	return slices.ContainsFunc(a, func(w string) bool { return slices.Contains(b, w) })
}

// leafWords returns the words in the last element of a column's path.
func leafWords(c *source.Column) []string {
	return source.Words(c.Key[strings.LastIndexByte(c.Key, '.')+1:])
}

// add records the meaning of a single key, or marks several keys as being in doubt.
func (l *likeness) add(keys []string, means string) {
	switch {
	case len(keys) == 1:
		l.keys = append(l.keys, [2]string{means, keys[0]})
	case len(keys) > 1:
		l.doubt = append(l.doubt, append([]string{means}, keys...))
	}
}

// remaining finds the prompt or the answer by elimination, if the key names don't identify it and only two
// columns contain prose.
func remaining(columns []*source.Column, prompts, answers []string) (_, _ []string) {
	var prose []string
	for _, c := range columns {
		if isProse(c) && !common(source.Words(c.Key), otherWords) {
			prose = append(prose, c.Key)
		}
	}
	if len(prose) != 2 {
		return prompts, answers
	}
	switch {
	case prompts == nil && answers == nil:
		return prose[:1], prose[1:]
	case prompts == nil && len(answers) == 1:
		return slices.DeleteFunc(prose, func(key string) bool { return key == answers[0] }), answers
	case answers == nil && len(prompts) == 1:
		return prompts, slices.DeleteFunc(prose, func(key string) bool { return key == prompts[0] })
	}
	return prompts, answers
}

// isSaid reports whether a column's text may be part of a conversation. None of its values may be a date or JSON, and
// fewer than half may be links.
func isSaid(c *source.Column) bool {
	return c.Present > 0 && c.Text() && c.Dates == 0 && c.JSON == 0 && c.Links*2 < c.Present
}

// isProse reports whether a column's text is likely part of a conversation, regardless of the column's name.
func isProse(c *source.Column) bool { return isSaid(c) && c.Numeric == 0 && c.Spaced*2 >= c.Present }

// chosenBetween returns two columns whose names differ only at the end, and a third whose values all choose between
// them. It returns empty strings unless exactly one such set exists, or if there are too many columns to compare,
// as in a tokenizer's vocabulary.
func chosenBetween(h *source.Head, columns []*source.Column) (first, second, choice string) {
	if len(columns) > 1000 {
		return "", "", ""
	}
	for i, a := range columns {
		for _, b := range columns[i+1:] {
			if !twins(a, b) {
				continue
			}
			labels := labelsOf(h, columns, a.Key, b.Key)
			if len(labels) != 1 || first != "" {
				return "", "", ""
			}
			first, second, choice = a.Key, b.Key, labels[0]
		}
	}
	return first, second, choice
}

// twins reports whether two columns contain text and have names such as answer1 and answer2, or response_a and
// response_b.
func twins(a, b *source.Column) bool {
	n := len(a.Key) - 1
	return len(a.Key) == len(b.Key) && a.Present > 0 && b.Present > 0 && a.Text() && b.Text() &&
		a.Key[:n] == b.Key[:n] && b.Key[n] == a.Key[n]+1 && strings.ContainsRune("0123aA", rune(a.Key[n])) &&
		a.Spaced+b.Spaced > 0
}

// labelsOf returns the columns whose values choose between two others.
func labelsOf(h *source.Head, columns []*source.Column, first, second string) (found []string) {
	for _, c := range columns {
		if c.Present == 0 || c.Key == first || c.Key == second || c.Kinds[json.Object]+c.Kinds[json.Array] > 0 ||
			common(leafWords(c), otherWords) {
			continue
		}
		chosen := 0
		fits := !slices.ContainsFunc(h.Entries, func(e json.Raw) bool {
			said := source.ChoiceOf(source.At(e, c.Key), first, second)
			if said == source.First || said == source.Second {
				chosen++
			}
			return said == source.NoChoice
		})
		if fits && chosen > 0 {
			found = append(found, c.Key)
		}
	}
	return found
}

// example shows how to specify keys on the command line.
func (l *likeness) example() string {
	parts := lists.Map(l.keys, func(k [2]string) string { return "--map " + k[0] + "=" + quoted(k[1]) })
	for _, means := range []string{"prompt", "output"} {
		if !l.has(means) && !l.has("choice") {
			parts = append(parts, "--map "+means+"=KEY")
		}
	}
	return strings.Join(parts, " ")
}

func (l *likeness) has(means string) bool {
	return slices.ContainsFunc(l.keys, func(k [2]string) bool { return k[0] == means })
}

// doubts describes which keys may have the same meaning.
func (l *likeness) doubts() string {
	var parts []string
	for _, d := range l.doubt {
		quoted := lists.Map(d[1:min(len(d), maxDoubts+1)], strconv.Quote)
		parts = append(parts, fmt.Sprintf("%s may be %s", d[0], strings.Join(quoted, " or ")))
	}
	if parts == nil {
		return ""
	}
	return " (" + strings.Join(parts, "; ") + ")"
}

// maxDoubts is the maximum number of keys listed with the same possible meaning.
const maxDoubts = 4

// row shows how the first entry would be read using the named keys.
func (l *likeness) row(h *source.Head) string {
	if len(l.keys) < 2 {
		return ""
	}
	var b strings.Builder
	b.WriteString("\nThe first entry, as read with these keys:")
	for _, k := range l.keys {
		v := source.At(h.Entries[0], k[1])
		text, ok := v.Text()
		if !ok {
			text = string(v)
		}
		fmt.Fprintf(&b, "\n  %-7s %s", k[0], shortened(text))
	}
	return b.String()
}

// shortened returns the beginning of text, on one line.
func shortened(text string) string {
	const most = 80
	text = strings.Join(strings.Fields(text[:min(len(text), 8*most)]), " ")
	if r := []rune(text); len(r) > most {
		return string(r[:most]) + "..."
	}
	return text
}
