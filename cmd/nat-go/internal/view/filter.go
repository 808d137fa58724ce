package view

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/builders/finding"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/curate"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// filter is the content of the filter box: terms that must all hold. Words without a key are searched for in the texts.
type filter struct {
	terms []term
	words []string
}

// term reports whether a record matches, by its ordinal, entry and decision.
type term func(n uint32, e *entry, d curate.Decision) bool

// number is a field that <, >, = compare.
type number func(e *entry) float64

var numbers = map[string]number{
	"margin":   func(e *entry) float64 { return e.scoreOf(true) },
	"score":    func(e *entry) float64 { return e.scoreOf(false) },
	"length":   func(e *entry) float64 { return float64(e.Chars) },
	"messages": func(e *entry) float64 { return float64(e.Messages) },
	"sites":    func(e *entry) float64 { return float64(e.Sites) },
	"turns":    func(e *entry) float64 { return float64(e.Turns) },
	"share":    func(e *entry) float64 { return e.share() },
	"spread":   func(e *entry) float64 { return float64(e.Spread) },
}

// scoreOf returns the margin of a preference or, if preference is false, the score or reward of another record. It
// returns NaN for a record of the other sort.
func (e *entry) scoreOf(preference bool) float64 {
	if (builders.Kind(e.Kind) == builders.KindPreference) != preference {
		return math.NaN()
	}
	return float64(e.Score)
}

// fields are the keys of terms with a colon, as listed by help.
var fields = []string{"builder", "kind", "reason", "split", "fidelity", "task", "example", "format", "mark"}

// parseFilter parses the filter box: builder:dpo reason:tie margin>0.2 "two words".
func (r *Run) parseFilter(text string) (*filter, error) {
	f := &filter{}
	for _, token := range tokens(text) {
		if token.quoted {
			f.words = append(f.words, token.text)
			continue
		}
		add, err := r.term(token.text)
		if err != nil {
			return nil, err
		}
		if add == nil {
			f.words = append(f.words, token.text)
			continue
		}
		f.terms = append(f.terms, add)
	}
	return f, nil
}

type token struct {
	text   string
	quoted bool
}

// tokens splits a filter at spaces outside quotes. A quoted value belongs to the key before it.
func tokens(s string) (out []token) {
	for s = strings.TrimSpace(s); s != ""; s = strings.TrimSpace(s) {
		var b strings.Builder
		quoted, first, i := false, s[0] == '"', 0
		for ; i < len(s) && (quoted || s[i] != ' '); i++ {
			if s[i] == '"' {
				quoted = !quoted
				continue
			}
			b.WriteByte(s[i])
		}
		if b.Len() > 0 {
			out = append(out, token{b.String(), first})
		}
		s = s[i:]
	}
	return out
}

// mistyped returns an error for a word that is meant as a term but names no field.
func mistyped(text string) error {
	if key, value, ok := strings.Cut(text, ":"); ok && value != "" {
		if near := finding.Nearest(key, fields); near != "" {
			return fmt.Errorf("unknown field %q: did you mean %s? Quote %q to search for it in the texts", key, near, text)
		}
	}
	i := strings.IndexAny(text, "<>=")
	if i <= 0 {
		return nil
	}
	if _, err := strconv.ParseFloat(strings.TrimLeft(text[i:], "<>="), 64); err != nil {
		return nil
	}
	names := slices.Sorted(maps.Keys(numbers))
	return fmt.Errorf("unknown number %q: the numbers are %s. Quote %q to search for it in the texts",
		text[:i], strings.Join(names, ", "), text)
}

func (r *Run) term(text string) (term, error) {
	if i := strings.IndexAny(text, "<>="); i > 0 {
		if of, ok := numbers[text[:i]]; ok {
			return comparison(of, text[i:])
		}
	}
	key, value, ok := strings.Cut(text, ":")
	if !ok || !slices.Contains(fields, key) {
		return nil, mistyped(text)
	}
	switch key {
	case "builder":
		b := slices.Index(r.table.Builders, value)
		if b < 0 {
			return nil, fmt.Errorf("unknown builder %q: the builders are %s", value, strings.Join(r.table.Builders, ", "))
		}
		return func(_ uint32, e *entry, _ curate.Decision) bool { return int(e.Builder) == b }, nil
	case "kind":
		for k := range uint8(16) {
			if builders.Kind(k).String() == value {
				return func(_ uint32, e *entry, _ curate.Decision) bool { return e.Kind == k }, nil
			}
		}
		return nil, fmt.Errorf("unknown kind %q: use preference, demonstration, rollout, distillation or state", value)
	case "fidelity":
		for k := range uint8(16) {
			if ttc.Fidelity(k).String() == value {
				return func(_ uint32, e *entry, _ curate.Decision) bool { return e.Fidelity == k }, nil
			}
		}
		return nil, fmt.Errorf("unknown fidelity %q", value)
	case "split":
		switch value {
		case "train":
			return func(_ uint32, _ *entry, d curate.Decision) bool { return d.Trains() }, nil
		case "validation":
			return func(_ uint32, _ *entry, d curate.Decision) bool { return d.Validates() }, nil
		}
		return nil, fmt.Errorf("unknown split %q: expected train or validation", value)
	case "reason":
		return func(_ uint32, _ *entry, d curate.Decision) bool {
			r, dropped := d.Reason()
			return dropped && (value == "any" || r == ledger.Reason(value)) || !dropped && value == "none"
		}, nil
	case "task":
		h := hashOf(value)
		return func(_ uint32, e *entry, _ curate.Decision) bool { return e.Task == h }, nil
	case "example":
		h := hashOf(value)
		return func(_ uint32, e *entry, _ curate.Decision) bool { return e.Example == h }, nil
	case "format":
		return r.ofFormat(value)
	default: // mark
		marked := r.verdicts()
		return func(_ uint32, e *entry, _ curate.Decision) bool {
			m := marked[e.Content]
			return m == value || value == "any" && m != "" || value == "none" && m == ""
		}, nil
	}
}

// comparison reads the operator and number of a term such as margin>0.2.
func comparison(of number, text string) (term, error) {
	op := text[:1]
	if len(text) > 1 && text[1] == '=' {
		op = text[:2]
	}
	x, err := strconv.ParseFloat(text[len(op):], 64)
	if err != nil || math.IsNaN(x) {
		return nil, fmt.Errorf("cannot compare %q with a number", text)
	}
	holds := map[string]func(a float64) bool{
		"<":  func(a float64) bool { return a < x },
		"<=": func(a float64) bool { return a <= x },
		">":  func(a float64) bool { return a > x },
		">=": func(a float64) bool { return a >= x },
		"=":  func(a float64) bool { return a == x },
		"==": func(a float64) bool { return a == x },
	}[op]
	return func(_ uint32, e *entry, _ curate.Decision) bool { return holds(of(e)) }, nil
}

func (f *filter) fits(n uint32, e *entry, d curate.Decision) bool {
	for _, t := range f.terms {
		if !t(n, e, d) {
			return false
		}
	}
	return true
}
