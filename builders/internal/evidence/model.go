package evidence

import (
	_ "embed"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/nat-go/nat-go/ttc/json"
)

// A text of one or two sentences is scored by a logistic regression over its words, their stems and pairs, and its
// form. All argument values become one word and all numbers another, so the score depends on the text's wording, not on
// the values in it. TestWeights trains the model on the labelled results and writes weights.txt.

//go:embed weights.txt
var weightsFile string

// weights maps each feature to its weight in hundredths. The weights of a text's features, times their values,
// add up to the log-odds of a failure.
type weights map[string]float64

var trained = sync.OnceValue(func() weights {
	w := weights{}
	for line := range strings.Lines(weightsFile) {
		name, n, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		w[name], _ = strconv.ParseFloat(n, 64)
	}
	return w
})

// sure is the weight at which text that no rule matches counts as a failure. Text whose weight is below answer
// isn't a failure, even if it reads like a refusal.
const sure, answer = 100.0, -140.0

// weigh weighs text that no rule matches, or that is read as a refusal.
func (c Call) weigh(t *text, f Verdict) Verdict {
	least := sure
	if t.count < 3 && !strings.ContainsAny(t.all, "'_") {
		least = 3 * sure // one or two words are weak evidence
	}
	if f.Rule != "" && !f.Failed || f.Rule == "" && done(t.head[0]) {
		return f
	}
	switch n := c.weight(c.features(t.all, f)); {
	case f.Rule == "" && n >= least:
		return failed("wording", t.head[0])
	case f.Failed && f.by != "form" && n < answer:
		return nearMiss(f.Rule, f.Quote, "the text's words, weighed together, are those of an answer")
	}
	return f
}

// weight returns the log-odds of a failure, in hundredths, by c.weights or, if that is nil, by the trained weights.
func (c Call) weight(fs features) float64 {
	w := c.weights
	if w == nil {
		w = trained()
	}
	const unit = 1e6 // the sum of integers doesn't depend on their order
	sum := int64(0)
	for name, value := range fs {
		sum += int64(math.Round(w[name] * value * unit))
	}
	return w[""] + float64(sum)/unit
}

// features maps each feature of text to its value.
type features map[string]float64

// all sets each feature to the same value. The more features there are, the smaller the value.
func (fs features) all(names map[string]bool) {
	share := 2.5 / math.Sqrt(float64(max(1, len(names))))
	for name := range names {
		fs[name] = share
	}
}

const given, number = "<given>", "<number>"

// features returns the features of s: its words, their stems, the pairs of words, the classes of words and their
// sequence, its punctuation and length, and the rules' finding. The longer the text, the less a word counts.
func (c Call) features(s string, f Verdict) features {
	words, fs := c.wordsOf(s), features{"by " + f.Rule + " " + f.by: 1}
	fs.all(phrases(words))
	fs.all(forms(words[:min(len(words), 40)]))
	fs[fmt.Sprint("length ", min(5, len(words)/4))] = 1
	if len(words) > 0 {
		fs["^"+words[0]], fs[words[len(words)-1]+"$"] = 1, 1
	}
	for name, in := range map[string]string{given: strings.Join(words, " "), number: strings.Join(words, " "), ",": s} {
		fs[fmt.Sprint(name, " ", min(3, strings.Count(in, name)))] = 0.5
	}
	for _, mark := range pattern("mark").FindAllString(s, -1) {
		fs[fmt.Sprintf("has %q", mark)] = 0.5
	}
	return fs
}

// phrases returns the words, their stems and the pairs of words.
func phrases(words []string) map[string]bool {
	names := map[string]bool{}
	for i, w := range words {
		names[w], names["~"+w[:len(w)-len(ending(w))]] = true, true
		if i > 0 {
			names[words[i-1]+" "+w] = true
		}
	}
	return names
}

// forms returns the classes of the words, and the pairs and triples of their forms, which reflect a sentence's
// structure regardless of its subject. A word's form is its first class or, without a class, its ending; a mark is its
// own form.
func forms(words []string) map[string]bool {
	names, sequence := map[string]bool{}, []string{"^"}
	for _, w := range append(slices.Clip(words), "$") {
		of := classes()[w]
		for _, class := range of {
			names["is "+class] = true
		}
		if w[0] >= 'a' {
			w = slices.Concat(of, []string{"*" + ending(w)})[0]
		}
		sequence = append(sequence, w)
	}
	for i := range sequence {
		for n := 2; n <= 3 && i+n <= len(sequence); n++ {
			names["/"+strings.Join(sequence[i:i+n], " ")] = true
		}
	}
	return names
}

var endings = strings.Fields("ations ation tion ings edly able ible ing ied ies ed es ly er s e")

// ending returns the longest ending that leaves at least four letters.
func ending(w string) string {
	for _, end := range endings {
		if len(w) >= len(end)+4 && strings.HasSuffix(w, end) {
			return end
		}
	}
	return ""
}

//go:embed classes.txt
var classText string

// classes returns the classes of each word. Each line of classes.txt has a class and its words. The class named = gives
// each of its words a class of its own, which comes first.
var classes = sync.OnceValue(func() map[string][]string {
	of := map[string][]string{}
	for line := range strings.Lines(classText) {
		words := strings.Fields(line)
		for _, w := range words[1:] {
			of[w] = append(of[w], strings.ReplaceAll(words[0], "=", w))
		}
	}
	return of
})

// wordsOf returns the words and marks of text, in lower case, with the call's arguments and numbers replaced.
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
		case negated && verb != "":
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
