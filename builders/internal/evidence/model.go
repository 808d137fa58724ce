package evidence

import (
	_ "embed"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/nat-go/nat-go/ttc/json"
)

// A text of one or two sentences is scored by a logistic regression over its words, their stems and pairs, and its
// form. All argument values become one word and all numbers another, so the score depends on a text's wording, not on
// the values in it. TestWeights trains the model on the labelled results and writes weights.txt.

//go:embed weights.txt
var weightsFile string

// weights maps each feature to its weight in hundredths; their sum is the log-odds of a failure.
type weights map[string]float64

var trained = sync.OnceValue(func() weights {
	w := weights{}
	for line := range strings.Lines(weightsFile) {
		name, n, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		w[name], _ = strconv.ParseFloat(n, 64)
	}
	return w
})

// sure is the weight at which a text that no rule matches counts as a failure. A text whose weight is below answer
// isn't a failure, even if it reads like a refusal.
const sure, answer = 50, -125

// weigh weighs a text that no rule matches, or that is read as a refusal.
func (c Call) weigh(t *text, f Verdict) Verdict {
	w := c.weights
	if w == nil {
		w = trained()
	}
	few := t.count < 3 && !strings.ContainsAny(t.all, "'_") // too few words to judge
	if len(w) == 0 || f.Rule != "" && !f.Failed || f.Rule == "" && (few || matches(t.head[0], "done")) {
		return f
	}
	switch n := w.of(features(t.all, c, f)); {
	case f.Rule == "" && n >= sure:
		return failed("wording", t.head[0])
	case f.Failed && n < answer:
		return nearMiss(f.Rule, f.Quote, "the text's words, weighed together, are those of an answer")
	}
	return f
}

func (w weights) of(fs map[string]float64) float64 {
	sum := w[""]
	for _, name := range slices.Sorted(maps.Keys(fs)) {
		sum += w[name] * fs[name]
	}
	return sum
}

const given, number = "<given>", "<number>"

// features returns the features of s: its words, their stems, the pairs of words, its form, and the rules' finding. The
// longer the text, the less a word counts.
func features(s string, c Call, f Verdict) map[string]float64 {
	words := c.wordsOf(s)
	fs, times := map[string]float64{}, map[string]int{}
	for i, w := range words {
		fs[w] = 1
		times[w]++
		if i > 0 {
			fs[words[i-1]+" "+w] = 1
		}
	}
	share := 2.5 / math.Sqrt(float64(max(1, len(fs))))
	for name := range fs {
		fs[name] = share
	}
	for w := range times {
		fs["~"+pattern("ending").ReplaceAllString(w, "$1")] = share
	}
	if len(words) > 0 {
		fs["^"+words[0]], fs[words[len(words)-1]+"$"] = 1, 1
	}
	fs[fmt.Sprint("length ", min(5, len(words)/4))] = 1
	fs[fmt.Sprint("by ", f.Rule, f.Failed)] = 1
	for _, mark := range "\n|;→%#@=[{\"" {
		if strings.ContainsRune(s, mark) {
			fs[fmt.Sprintf("has %q", mark)] = 0.5
		}
	}
	for name, n := range map[string]int{given: times[given], number: times[number], ",": strings.Count(s, ",")} {
		fs[fmt.Sprint(name, " ", min(3, n))] = 0.5
	}
	return fs
}

// wordsOf returns the words and marks of a text, in lower case, with the call's arguments and numbers replaced.
func (c Call) wordsOf(s string) []string {
	values := c.values()
	slices.SortFunc(values, func(a, b string) int { return len(b) - len(a) })
	for _, v := range values {
		s = replaceWord(s, v)
	}
	var out []string
	for _, w := range pattern("wordOf").FindAllString(s, -1) {
		switch {
		case w[0] >= '0' && w[0] <= '9':
			w = number
		case w != given:
			w = strings.ToLower(w)
		}
		switch verb, negated := strings.CutSuffix(w, "n't"); {
		case w == "cannot":
			out = append(out, "can", "not")
		case negated:
			out = append(out, verb, "not")
		default:
			out = append(out, w)
		}
	}
	return out
}

// replaceWord replaces each occurrence of a value as a whole word.
func replaceWord(s, value string) string {
	if !holdsWord(s, value) {
		return s
	}
	var b strings.Builder
	for {
		i := strings.Index(s, value)
		if i < 0 {
			return b.String() + s
		}
		end := i + len(value)
		around := s[max(0, i-1):min(len(s), end+1)]
		b.WriteString(s[:i])
		if holdsWord(around, value) {
			b.WriteString(" " + given + " ")
		} else {
			b.WriteString(value)
		}
		s = s[end:]
	}
}

// values returns the short strings and the numbers among the arguments.
func (c Call) values() (out []string) {
	const most, longest = 32, 80
	for v := range Scalars(c.Arguments) {
		s, isText := v.Text()
		switch {
		case len(out) == most:
			return out
		case isText && len(s) <= longest && matches(s, "aWordIn"):
			out = append(out, s)
		case v.Kind() == json.Number:
			out = append(out, string(v))
		}
	}
	return out
}
