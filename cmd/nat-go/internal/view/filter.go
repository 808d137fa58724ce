package view

import (
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/curate"
	"github.com/nat-go/nat-go/internal/where"
	"github.com/nat-go/nat-go/ttc"
)

// item is a record that a filter is applied to.
type item struct {
	n      uint32
	entry  *entry
	fate   curate.Decision
	record *builders.Resolved // set only if the filter has text conditions
}

// filter is a parsed filter, from the filter box or --where, in the language of dataset.where.
type filter struct {
	table where.Filter[*item]
	texts where.Filter[*item] // the clauses that can't be evaluated without reading the records
}

// parseFilter parses a filter such as builder == "dpo" and margin > 0.2 and text contains "two words".
func (r *Run) parseFilter(query string) (f *filter, err error) {
	fields := r.fields()
	if strings.Contains(query, "format") && r.formats != nil { // read the origins only if the query needs them
		formats, err := r.formats()
		if err != nil {
			return nil, err
		}
		within := func(s *item, meets func(string) bool) bool {
			for name, set := range formats {
				if set.has(s.n) && meets(name) {
					return true
				}
			}
			return false
		}
		fields = append(fields, where.Field[*item]{Name: "format", Texts: within})
	}
	text := where.Field[*item]{Name: "text", Texts: func(s *item, meets func(string) bool) bool {
		return slices.ContainsFunc(
			[]*builders.Passage{&s.record.Prompt, &s.record.Chosen, &s.record.Rejected, &s.record.Messages},
			func(p *builders.Passage) bool { return inPassage(p, meets) })
	}}
	all, err := where.Parse(query, append(fields, text))
	f = &filter{}
	f.table, f.texts = all.Split(fields)
	return f, err
}

// fields returns the fields whose values are known without reading a record. Fields with the same meaning as in
// dataset.where have the same names.
func (r *Run) fields() []where.Field[*item] {
	marked := r.verdicts()
	hashed := func(name string, of func(e *entry) uint64) where.Field[*item] {
		return where.Field[*item]{Name: name, Is: func(value string) func(*item) bool {
			h := hashOf(value)
			return func(s *item) bool { return of(s.entry) == h }
		}}
	}
	fields := []where.Field[*item]{
		{Name: "builder", Values: r.table.Builders, Text: func(s *item) string {
			return r.table.Builders[s.entry.Builder]
		}},
		{Name: "kind", Values: where.Kinds, Text: func(s *item) string { return builders.Kind(s.entry.Kind).String() }},
		{Name: "fidelity", Values: where.Fidelities, Text: func(s *item) string {
			return ttc.Fidelity(s.entry.Fidelity).String()
		}},
		{Name: "split", Values: []string{"train", "validation"}, Texts: func(s *item, meets func(string) bool) bool {
			return s.fate.Trains() && meets("train") || s.fate.Validates() && meets("validation")
		}},
		{Name: "reason", Text: func(s *item) string {
			reason, _ := s.fate.Reason()
			return string(reason)
		}},
		{Name: "mark", Values: []string{"approve", "reject", "note", ""}, Text: func(s *item) string {
			return marked[s.entry.Content]
		}},
		hashed("id", func(e *entry) uint64 { return e.Example }),
		hashed("task", func(e *entry) uint64 { return e.Task }),
	}
	for _, name := range slices.Sorted(maps.Keys(numbers)) {
		of := numbers[name]
		fields = append(fields, where.Field[*item]{Name: name, Number: func(s *item) float64 { return of(s.entry) }})
	}
	return fields
}

// numbers maps the names of numeric fields to functions that return their values.
var numbers = map[string]func(e *entry) float64{
	"margin":   func(e *entry) float64 { return e.scoreOf(true) },
	"score":    func(e *entry) float64 { return e.scoreOf(false) },
	"length":   func(e *entry) float64 { return float64(e.Chars) },
	"messages": func(e *entry) float64 { return float64(e.Messages) },
	"sites":    func(e *entry) float64 { return float64(e.Sites) },
	"turns":    func(e *entry) float64 { return float64(e.Turns) },
	"share":    func(e *entry) float64 { return e.share() },
	"spread":   func(e *entry) float64 { return float64(e.Spread) },
}

// scoreOf returns the margin of a preference or, if preference is false, the score or reward of any other record. It
// returns NaN if preference doesn't match the record.
func (e *entry) scoreOf(preference bool) float64 {
	if (builders.Kind(e.Kind) == builders.KindPreference) != preference {
		return math.NaN()
	}
	return float64(e.Score)
}
