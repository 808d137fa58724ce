package source

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/nat-go/nat-go/internal/lists"
	"github.com/nat-go/nat-go/ttc/json"
)

// Column describes the values under one key in the entries of a head.
type Column struct {
	Key     string
	Present int                  // number of entries in which the key has a value other than null
	Kinds   [json.Object + 1]int // number of values of each kind
	Numeric int                  // values that Number converts: numbers, booleans, and strings that contain either
	Empty   int                  // empty strings
	JSON    int                  // strings that hold a JSON array or object
	Dates   int                  // strings that begin with a date or a time
	Links   int                  // strings that are an address or a file path
	Spaced  int                  // strings of several words

	numbers  []float64           // the numeric values
	distinct map[string]struct{} // values that are strings or numbers, as JSON
}

// Columns are the keys of the entries that are objects, in order of first appearance.
type Columns struct {
	all     []*Column
	given   map[string]string
	entries []json.Raw
}

// Columns examines the entries of a head, once.
func (h *Head) Columns() Columns {
	if h.columns == nil {
		h.columns = h.findColumns()
	}
	return Columns{all: h.columns, given: h.Given, entries: h.Entries}
}

func (h *Head) findColumns() []*Column {
	all := found{[]*Column{}, map[string]*Column{}}
	for _, e := range h.Entries {
		for key, value := range e.Members() {
			name, _ := key.Text()
			all.add(name, value)
		}
	}
	return all.order
}

// found holds columns in order of first appearance.
type found struct {
	order []*Column
	byKey map[string]*Column
}

func (f *found) add(key string, v json.Raw) {
	c := f.byKey[key]
	if c == nil {
		c = &Column{Key: key}
		f.byKey[key] = c
		f.order = append(f.order, c)
	}
	c.add(v)
}

func (c *Column) add(v json.Raw) {
	kind := v.Kind()
	if kind == json.Null {
		return
	}
	c.Present++
	c.Kinds[kind]++
	if kind == json.String || kind == json.Number {
		if c.distinct == nil {
			c.distinct = map[string]struct{}{}
		}
		c.distinct[string(v)] = struct{}{}
	}
	f, isNumber := Number(v)
	switch text, _ := v.Text(); {
	case isNumber:
		c.Numeric++
		if !math.IsNaN(f) {
			c.numbers = append(c.numbers, f)
		}
	case kind != json.String:
	case text == "":
		c.Empty++
	case strings.HasPrefix(text, "[") || strings.HasPrefix(text, "{"):
		if json.Valid([]byte(text)) {
			c.JSON++
		}
	case date.MatchString(text):
		c.Dates++
	case link.MatchString(text):
		c.Links++
	case strings.ContainsFunc(strings.TrimSpace(text), unicode.IsSpace):
		c.Spaced++
	}
}

var (
	date = regexp.MustCompile(`^\s*(?:\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4}|\d{1,2}:\d\d)(?:\D|$)`)
	link = regexp.MustCompile(`^(?:\w+://\S+|(?:[\w.-]+)?/[\w./-]+|[\w-]+\.\w{2,5})$`)
)

// Number converts a value to a number: true and false are 1 and 0, and strings are parsed, because tables store
// such values as strings.
func Number(v json.Raw) (f float64, ok bool) {
	if text, isText := v.Text(); isText {
		text = strings.TrimSpace(text)
		if f, err := strconv.ParseFloat(text, 64); err == nil {
			return f, true
		}
		switch strings.ToLower(text) {
		case "true":
			return 1, true
		case "false":
			return 0, true
		}
		return 0, false
	}
	if yes, isBool := v.Bool(); isBool {
		if yes {
			return 1, true
		}
		return 0, true
	}
	return v.Float64()
}

// All returns the columns, in order.
func (cs Columns) All() []*Column { return cs.all }

// Of returns the column for a key, which may be a path as in At. It returns nil if the key is missing or null in every
// entry.
func (cs Columns) Of(key string) *Column {
	if i := slices.IndexFunc(cs.all, func(c *Column) bool { return c.Key == key && c.Present > 0 }); i >= 0 {
		return cs.all[i]
	}
	if first, _, isPath := strings.Cut(key, "."); !isPath || !cs.Has(first) { // searching a large entry is slow
		return nil
	}
	c := Column{Key: key}
	for _, e := range cs.entries {
		if v := At(e, key); v != nil {
			c.add(v)
		}
	}
	if c.Present == 0 {
		return nil
	}
	return &c
}

// Has reports whether any entry has one of the keys, even with a null value.
func (cs Columns) Has(keys ...string) bool {
	return slices.ContainsFunc(cs.all, func(c *Column) bool { return slices.Contains(keys, c.Key) })
}

// Names lists the keys, for messages to users.
func (cs Columns) Names() string {
	return named(lists.Map(cs.all, func(c *Column) string { return c.Key }))
}

// named lists keys, for messages to users.
func named(keys []string) string {
	if len(keys) > maxNamed {
		return strings.Join(keys[:maxNamed], ", ") + " and more"
	}
	return strings.Join(keys, ", ")
}

// maxNamed is the maximum number of keys listed in a message to users.
const maxNamed = 20

// KeysOf lists the keys of an entry, for messages to users.
func KeysOf(entry json.Raw) string {
	var names []string
	for key := range entry.Members() {
		if len(names) > maxNamed {
			break
		}
		name, _ := key.Text()
		names = append(names, name)
	}
	return named(names)
}

// Text reports whether the column holds strings.
func (c *Column) Text() bool { return c.Kinds[json.String] == c.Present }

// Number reports whether the column holds only values that the function Number converts.
func (c *Column) Number() bool { return c.Numeric == c.Present }

// List reports whether the column holds arrays or, as in tables, strings of JSON, which may also be objects.
func (c *Column) List() bool {
	return c.Kinds[json.Array] == c.Present || c.Kinds[json.String] == c.Present && c.JSON == c.Present
}

// Key is a key in a source's config that may have another name in an input.
type Key struct {
	Setting string             // "output_key"
	Default string             // "output"
	Means   string             // "the answer"
	Others  []string           // other names or paths that the key may have in an input
	Ranked  bool               // if several of Others are present, the first wins
	Last    []string           // names that the key may have if no other column qualifies
	Is      func(*Column) bool // whether a column qualifies; nil accepts any
}

// Choice is the key chosen for a setting in an input.
type Choice struct {
	*Column        // nil means none
	Guessed bool   // the key is neither the default nor named by the user
	Given   bool   // the user named the key
	Problem string // a message that names the keys that qualify, if there are several

	Passed []string // keys that also qualify but rank lower, quoted
	Doubt  string   // why a column with one of the key's names is not chosen
}

// Find finds the column for a key: the one that the user named, else the one with the default name, else the only one
// with one of the key's other names (the first if the key is Ranked). taken lists columns that are already assigned to
// other keys.
func (cs Columns) Find(k Key, taken ...string) Choice {
	fits := func(name string) *Column {
		c := cs.Of(name)
		if c == nil || slices.Contains(taken, name) || k.Is != nil && !k.Is(c) {
			return nil
		}
		return c
	}
	if name := cs.given[k.Setting]; name != "" {
		return Choice{Column: cs.Of(name), Given: true}
	}
	if c := fits(k.Default); c != nil && k.Default != "" {
		return Choice{Column: c}
	}
	called := func(names []string) (found []*Column) {
		for _, c := range cs.all {
			if slices.Contains(names, CommonName(c.Key)) && fits(c.Key) != nil {
				found = append(found, c)
			}
		}
		for _, name := range names {
			if c := fits(name); c != nil && strings.Contains(name, ".") {
				found = append(found, c)
			}
		}
		return found
	}
	found := called(k.Others)
	if found == nil {
		found = called(k.Last)
	}
	switch len(found) {
	case 0:
		return Choice{}
	case 1:
		return Choice{Column: found[0], Guessed: true}
	}
	if k.Ranked {
		return ranked(k, found)
	}
	name := strings.TrimSuffix(k.Setting, "_key")
	what := fmt.Sprintf("%s may be %q or %q: say which with --map %s=%s or --map %s=%s",
		k.Means, found[0].Key, found[1].Key, name, found[0].Key, name, found[1].Key)
	return Choice{Column: found[0], Guessed: true, Problem: what}
}

// ranked chooses the column whose name comes first in k.Others.
func ranked(k Key, found []*Column) Choice {
	slices.SortStableFunc(found, func(a, b *Column) int {
		return slices.Index(k.Others, CommonName(a.Key)) - slices.Index(k.Others, CommonName(b.Key))
	})
	passed := lists.Map(found[1:], func(other *Column) string { return strconv.Quote(other.Key) })
	return Choice{Column: found[0], Guessed: true, Passed: passed}
}

// CommonName writes a key in the most common style: Model Answer as model_answer, and Rating (1-5) as rating.
func CommonName(key string) string {
	key, _, _ = strings.Cut(key, "(")
	return strings.NewReplacer(" ", "_", "-", "_").Replace(strings.ToLower(strings.TrimSpace(key)))
}

// Set sets one of the source's settings.
func (r *Reading) Set(setting, value string) {
	if r.Settings == nil {
		r.Settings = map[string]string{}
	}
	r.Settings[setting] = value
}

// Guess records a guess, described for users.
func (r *Reading) Guess(format string, args ...any) {
	r.Guessed = append(r.Guessed, fmt.Sprintf(format, args...))
}

// Take records a choice in a reading.
func (r *Reading) Take(k Key, c Choice) {
	r.Problem = cmp.Or(r.Problem, c.Problem)
	if c.Column == nil || !c.Guessed && !c.Given {
		return
	}
	r.Set(k.Setting, c.Key)
	if !c.Given {
		r.Guess("%s is read from %q", k.Means, c.Key)
	}
}

// Objects returns the columns of the objects in the lists under a key, or in strings that hold such lists as JSON.
func (h *Head) Objects(key string) Columns {
	inner := Head{Given: h.Given}
	for _, e := range h.Entries {
		list, _ := Inner(At(e, key))
		for element := range list.Elements() {
			if element.Kind() == json.Object {
				inner.Entries = append(inner.Entries, element)
			}
		}
	}
	return inner.Columns()
}

// HasWithin reports whether the objects in a list of the entries have a key.
func (h *Head) HasWithin(key string) bool {
	return slices.ContainsFunc(h.Columns().all, func(c *Column) bool {
		return c.Present > 0 && c.List() && h.Objects(c.Key).Of(key) != nil
	})
}

// Texts reports whether a key has values other than null and "", all of them strings that the given function accepts.
func (h *Head) Texts(key string, is func(text string) bool) bool {
	n := 0
	for _, e := range h.Entries {
		v := At(e, key)
		text, ok := v.Text()
		switch {
		case v.Kind() == json.Null || v.Kind() == json.Invalid || ok && text == "":
		case !ok || !is(text):
			return false
		default:
			n++
		}
	}
	return n > 0
}

// strictScores are key names that can only mean a score, so a string under one of them is a mistake.
var strictScores = []string{
	"score", "rating", "reward", "grade", "overall_score", "final_score", "judge_score", "final_reward", "stars",
}

// TextScores explains why an input whose scores are words can't be read, and what to write instead; it returns "" if
// they aren't words. setting is the setting for the key of the scores.
func (h *Head) TextScores(setting string) string {
	cols := h.Columns()
	c := cols.Of(h.Given[setting])
	if c == nil {
		i := slices.IndexFunc(cols.all, func(c *Column) bool {
			return slices.Contains(strictScores, CommonName(c.Key)) && c.words() > c.Numeric
		})
		if h.Given[setting] != "" || i < 0 || cols.hasNumericScore() {
			return ""
		}
		c = cols.all[i]
	}
	if c.words() <= c.Numeric {
		return ""
	}
	return fmt.Sprintf("the scores under %q are words, such as %s: write a number for each, 1 for the best and 0 for "+
		"the worst, or remove the key if nothing is to be compared", c.Key, strings.Join(h.wordsUnder(c.Key), " and "))
}

// words returns the number of strings that aren't empty, numbers, JSON or dates. It is a lower bound, because
// Numeric also counts values that aren't strings.
func (c *Column) words() int {
	return c.Kinds[json.String] - min(c.Kinds[json.String], c.Numeric) - c.Empty - c.JSON - c.Dates
}

func (cs Columns) hasNumericScore() bool {
	return slices.ContainsFunc(cs.all, func(c *Column) bool {
		return slices.Contains(ScoreNames(), CommonName(c.Key)) && c.Present > 0 && c.Number()
	})
}

// wordsUnder returns the beginnings of the first two different strings under a key that aren't numbers, quoted.
func (h *Head) wordsUnder(key string) (out []string) {
	for _, e := range h.Entries {
		v := At(e, key)
		text, _ := v.Text()
		_, isNumber := Number(v)
		if q := strconv.Quote(text[:min(len(text), 20)]); text != "" && !isNumber && !slices.Contains(out, q) {
			if out = append(out, q); len(out) == 2 {
				break
			}
		}
	}
	return out
}

// judgements are the names of keys that hold non-numeric judgements of an answer.
var judgements = []string{
	"feedback", "verdict", "judge", "judgement", "judgment", "preference", "thumbs", "scores", "rewards", "ratings",
	"eval", "evals", "evaluation", "evaluations", "evaluator", "feedback_stats", "annotation", "annotations",
}

// NoScore records, for an input without scores, which numbers within objects could be read as scores, and which
// columns have names of scores but are not read because some of their values are not numbers.
func (r *Reading) NoScore(cs Columns) {
	within := map[string]bool{}
	if found := cs.scoresWithin(); len(found) > 0 {
		var names []string
		for _, c := range found {
			top, _, _ := strings.Cut(c.Key, ".")
			within[top] = true
			names = append(names, strconv.Quote(c.Key))
		}
		r.Guess("nothing has a score; there are numbers in %s: to use them, add --map score=%s",
			strings.Join(names, " and "), found[0].Key)
	}
	for _, c := range cs.all {
		name := CommonName(c.Key)
		if c.Present > 0 && !c.Number() && !within[c.Key] && soundsLikeScore(name) {
			r.Guess("not all values of %q are numbers, so it is not read: nothing has a score", c.Key)
		}
	}
}

// notScores are the names of numbers that appear next to scores but aren't scores.
var notScores = []string{
	"id", "index", "n", "count", "total", "version", "seed", "timestamp", "created_at", "latency", "duration", "tokens",
	"cost", "total_tokens", "prompt_tokens", "completion_tokens",
}

func soundsLikeScore(name string) bool {
	return slices.Contains(ScoreNames(), name) || slices.Contains(judgements, name)
}

// maxScoreColumns is the maximum number of scores inside objects that a message to users names.
const maxScoreColumns = 3

// scoresWithin returns columns of numbers within objects whose path contains a name of scores.
func (cs Columns) scoresWithin() (found []*Column) {
	h := Head{Entries: cs.entries}
	for _, c := range h.Paths() {
		parts := strings.Split(c.Key, ".")
		last := CommonName(parts[len(parts)-1])
		named := slices.ContainsFunc(parts, func(name string) bool { return soundsLikeScore(CommonName(name)) })
		if named && c.Number() && !slices.Contains(notScores, last) && len(found) < maxScoreColumns {
			found = append(found, c)
		}
	}
	return found
}

// Words splits the name of a key into its words: "userQuestion", "Model Answer (text)", inputs.question.
func Words(key string) (words []string) {
	var word []rune
	flush := func() {
		if len(word) > 0 {
			words = append(words, strings.ToLower(string(word)))
		}
		word = nil
	}
	lower := false
	for _, r := range key {
		if !unicode.IsLetter(r) || unicode.IsUpper(r) && lower {
			flush()
		}
		if lower = unicode.IsLower(r); unicode.IsLetter(r) {
			word = append(word, r)
		}
	}
	flush()
	return words
}
