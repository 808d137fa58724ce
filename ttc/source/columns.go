package source

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/nat-go/nat-go/ttc/json"
)

// Column is what stands under one key of the entries of a head.
type Column struct {
	Key     string
	Present int                  // entries that have it, and not as null
	Kinds   [json.Object + 1]int // of its values
	Numeric int                  // values that are numbers, or texts of one, as in CSV
	Empty   int                  // texts that are empty
	JSON    int                  // texts that are JSON: an array or an object
	Size    int                  // bytes of its values
}

// Columns are the keys of the entries that are objects, in the order in which they first stand.
type Columns struct {
	all   []*Column
	given map[string]string
}

// Columns looks through the entries of a head, once.
func (h *Head) Columns() Columns {
	if h.columns == nil {
		h.columns = h.look()
	}
	return Columns{all: h.columns, given: h.Given}
}

func (h *Head) look() []*Column {
	all := []*Column{}
	byKey := map[string]*Column{}
	for _, e := range h.Entries {
		for key, value := range e.Members() {
			name, _ := key.Text()
			c := byKey[name]
			if c == nil {
				c = &Column{Key: name}
				byKey[name] = c
				all = append(all, c)
			}
			c.add(value)
		}
	}
	return all
}

func (c *Column) add(v json.Raw) {
	if v.Kind() == json.Null {
		return
	}
	c.Present++
	c.Size += len(v)
	c.Kinds[v.Kind()]++
	switch text, _ := v.Text(); {
	case v.Kind() == json.Number || v.Kind() == json.Bool:
		c.Numeric++
	case v.Kind() != json.String:
	case text == "":
		c.Empty++
	case isNumber(text):
		c.Numeric++
	case strings.HasPrefix(text, "[") || strings.HasPrefix(text, "{"):
		if json.Valid([]byte(text)) {
			c.JSON++
		}
	}
}

func isNumber(text string) bool {
	_, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	return err == nil
}

// All are the columns, in their order.
func (cs Columns) All() []*Column { return cs.all }

// Of returns the column of a key; nil where no entry has it.
func (cs Columns) Of(key string) *Column {
	if i := slices.IndexFunc(cs.all, func(c *Column) bool { return c.Key == key && c.Present > 0 }); i >= 0 {
		return cs.all[i]
	}
	return nil
}

// Has reports whether an entry has one of the keys, be it null.
func (cs Columns) Has(keys ...string) bool {
	return slices.ContainsFunc(cs.all, func(c *Column) bool { return slices.Contains(keys, c.Key) })
}

// Names lists the keys, for a person.
func (cs Columns) Names() string {
	var names []string
	for _, c := range cs.all {
		names = append(names, c.Key)
	}
	return strings.Join(names, ", ")
}

// maxNamed is how many keys are named to a person.
const maxNamed = 20

// KeysOf lists the keys of an entry, for a person.
func KeysOf(entry json.Raw) string {
	var names []string
	for key := range entry.Members() {
		if len(names) == maxNamed {
			return strings.Join(names, ", ") + " and more"
		}
		name, _ := key.Text()
		names = append(names, name)
	}
	return strings.Join(names, ", ")
}

// Text says whether the column holds texts.
func (c *Column) Text() bool { return c.Kinds[json.String] == c.Present }

// Number says whether the column holds numbers: true and false are 1 and 0, and CSV has them as texts.
func (c *Column) Number() bool { return c.Numeric == c.Present }

// List says whether the column holds arrays, or the JSON texts of some, as tables do.
func (c *Column) List() bool {
	return c.Kinds[json.Array] == c.Present || c.Kinds[json.String] == c.Present && c.JSON == c.Present
}

// Key is a key of a source's config that may be called otherwise in an input.
type Key struct {
	Setting string             // "output_key"
	Default string             // "output"
	Means   string             // "the answer"
	Others  []string           // what it is also called
	Last    []string           // what it may be called where no other column can be it
	Is      func(*Column) bool // whether a column can be it; nil: any
}

// Choice is the key that an input has for a setting.
type Choice struct {
	*Column        // nil: there is none
	Guessed bool   // it isn't the default, and nobody named it
	Given   bool   // a person named it
	Problem string // two keys could be it
}

// Find finds the column of a key: the one of its default name, else the only one with another name it goes by. taken
// are columns that are something else.
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
			if slices.Contains(names, strings.ToLower(c.Key)) && fits(c.Key) != nil {
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
	name := strings.TrimSuffix(k.Setting, "_key")
	what := fmt.Sprintf("%s may be %q or %q: say which with --map %s=%s or --map %s=%s",
		k.Means, found[0].Key, found[1].Key, name, found[0].Key, name, found[1].Key)
	return Choice{Column: found[0], Guessed: true, Problem: what}
}

// Set sets a setting of the source.
func (r *Reading) Set(setting, value string) {
	if r.Settings == nil {
		r.Settings = map[string]string{}
	}
	r.Settings[setting] = value
}

// Take notes a choice in a reading.
func (r *Reading) Take(k Key, c Choice) {
	if c.Problem != "" && r.Problem == "" {
		r.Problem = c.Problem
	}
	if c.Column == nil || !c.Guessed && !c.Given {
		return
	}
	r.Set(k.Setting, c.Key)
	if c.Given {
		return
	}
	r.Guessed = append(r.Guessed, fmt.Sprintf("%s is read from %q", k.Means, c.Key))
}

// Objects are the columns of the objects in the lists under a key, or in the JSON texts of such lists.
func (h *Head) Objects(key string) Columns {
	inner := Head{Given: h.Given}
	for _, e := range h.Entries {
		list, _ := e.Get(key)
		if text, ok := list.Text(); ok {
			list, _ = json.Parse([]byte(text), InTexts)
		}
		for element := range list.Elements() {
			if element.Kind() == json.Object {
				inner.Entries = append(inner.Entries, element)
			}
		}
	}
	return inner.Columns()
}

// HasWithin says whether the objects in a list of the entries have a key.
func (h *Head) HasWithin(key string) bool {
	return slices.ContainsFunc(h.Columns().all, func(c *Column) bool {
		return c.Present > 0 && c.List() && h.Objects(c.Key).Of(key) != nil
	})
}

// Texts says whether all the texts under a key are as is says, and there is one. Empty ones say nothing.
func (h *Head) Texts(key string, is func(text string) bool) bool {
	n := 0
	for _, e := range h.Entries {
		v, _ := e.Get(key)
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

// lowerIsBetter are names of scores of which a lower one is the better.
var lowerIsBetter = []string{"loss", "cost", "error_rate", "distance", "rank", "perplexity", "regret", "penalty", "nll"}

// ScoreNames are what scores are also called.
func ScoreNames() []string {
	return append([]string{
		"score", "rating", "reward", "grade", "overall_score", "final_score", "quality", "judge_score",
		"final_reward", "label", "helpfulness",
	}, lowerIsBetter...)
}

// TakeScore notes the choice of a score, and its direction where the name says that a lower one is the better.
func (r *Reading) TakeScore(k Key, c Choice) {
	r.Take(k, c)
	if c.Column != nil && slices.Contains(lowerIsBetter, strings.ToLower(c.Key)) {
		r.Lower = true
		r.Guessed = append(r.Guessed, fmt.Sprintf("a lower %q is taken for the better one", c.Key))
	}
}
