package where

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nat-go/nat-go/ttc/ledger"
)

// Field is a value of S that filters can name. Exactly one of its functions is set, and determines its type.
type Field[S any] struct {
	Name, Doc string
	Values    []string // possible values of a text field; nil means any

	Bool   func(S) bool
	Number func(S) float64
	Text   func(S) string
	Texts  func(s S, meets func(string) bool) bool // reports whether any string in a list satisfies a condition
	Is     func(text string) func(S) bool          // set for a string that can only be tested for equality
}

// Type returns the name of the field's type.
func (f *Field[S]) Type() string {
	switch {
	case f.Bool != nil:
		return "condition"
	case f.Number != nil:
		return "number"
	case f.Texts != nil:
		return "list of texts"
	}
	return "text"
}

// Meaning returns the field's description, with its possible values if they are limited.
func (f *Field[S]) Meaning() string {
	if f.Values == nil {
		return f.Doc
	}
	return f.Doc + ": " + strings.Join(f.Values, ", ")
}

// Filter is a parsed filter; the zero value matches everything.
type Filter[S any] struct{ Clauses []Clause[S] }

// Clause is an operand of the outermost `and` of a filter.
type Clause[S any] struct {
	Text   string // the clause as written in the filter
	fields []string
	holds  func(S) bool
}

// Split divides a filter into the clauses that name only the given fields, and the others.
func (f *Filter[S]) Split(within []Field[S]) (inside, others Filter[S]) {
	for _, c := range f.Clauses {
		to := &inside
		if slices.ContainsFunc(c.fields, func(name string) bool { return lookUp(within, name) == nil }) {
			to = &others
		}
		to.Clauses = append(to.Clauses, c)
	}
	return inside, others
}

// Names reports whether the filter names any of the fields.
func (f *Filter[S]) Names(fields []Field[S]) bool {
	return slices.ContainsFunc(f.Clauses, func(c Clause[S]) bool {
		return slices.ContainsFunc(c.fields, func(name string) bool { return lookUp(fields, name) != nil })
	})
}

func lookUp[S any](fields []Field[S], name string) *Field[S] {
	if i := slices.IndexFunc(fields, func(f Field[S]) bool { return f.Name == name }); i >= 0 {
		return &fields[i]
	}
	return nil
}

// FirstFailing returns the text of the first clause that doesn't hold for s, or "" if all of them hold.
func (f *Filter[S]) FirstFailing(s S) string {
	for i := range f.Clauses {
		if !f.Clauses[i].holds(s) {
			return f.Clauses[i].Text
		}
	}
	return ""
}

// Step is a clause of a filter with the number of items that remain after it.
type Step struct {
	Clause string `json:"clause"`
	Unit   string `json:"unit"` // "example" or "record"
	Left   int64  `json:"left"`
}

// String returns the step on one line, with its clause shortened.
func (s Step) String() string {
	clause := strings.Join(strings.Fields(s.Clause), " ")
	if runes := []rune(clause); len(runes) > 200 {
		clause = string(runes[:200]) + "..."
	}
	return ledger.Quantity(s.Left, s.Unit) + " left by " + clause
}

// Funnel returns the number of items that remain after each clause, given the number that each dropped and the number
// kept.
func (f *Filter[S]) Funnel(unit string, kept int64, dropped map[string]int64) []Step {
	steps := make([]Step, len(f.Clauses))
	for i, c := range slices.Backward(f.Clauses) {
		steps[i] = Step{c.Text, unit, kept}
		kept += dropped[c.Text]
	}
	return steps
}

// Parse parses a filter over fields. If text is blank, the filter matches everything. The error is an *Error.
func Parse[S any](text string, fields []Field[S]) (f Filter[S], err error) {
	p := &parser[S]{lexer: lexer{text: []rune(text)}, fields: fields}
	defer func() {
		if r := recover(); r != nil {
			wrong, is := r.(*Error)
			if !is {
				panic(r)
			}
			err = wrong
		}
	}()
	if len(p.text) > maxLength {
		p.fail(0, 1, "", "filter of %d characters: expected at most %d", len(p.text), maxLength)
	}
	if p.next(); p.token.is("") {
		return f, nil
	}
	whole := p.or()
	if p.condition(&whole); !p.token.is("") {
		p.unexpected("the end of the filter")
	}
	if whole.fields = p.named; whole.operands == nil {
		whole.operands = []node[S]{whole}
	}
	for _, n := range whole.operands {
		c := Clause[S]{string(p.text[n.from:n.to]), n.fields, n.Bool}
		if !slices.ContainsFunc(f.Clauses, func(other Clause[S]) bool { return other.Text == c.Text }) {
			f.Clauses = append(f.Clauses, c)
		}
	}
	return f, nil
}

// maxLength is the maximum number of characters in a filter.
const maxLength = 10_000

// Error describes an error in a filter, with its position.
type Error struct {
	Text       string // the invalid line of the filter
	Line       int    // from 1
	From, To   int    // columns in characters, from 1; To is exclusive
	Message    string
	Suggestion string // the text to write instead of the invalid part; may be empty
}

func (e *Error) Error() string {
	text := fmt.Sprintf("column %d: %s", e.From, e.Message)
	if e.Line > 1 {
		text = fmt.Sprintf("line %d, %s", e.Line, text)
	}
	if e.Suggestion != "" {
		text += "; did you mean " + e.Suggestion + "?"
	}
	return text
}
