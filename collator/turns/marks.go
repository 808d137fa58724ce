package turns

import (
	"iter"
	"slices"
	"strings"

	"github.com/nat-go/nat-go/internal/lazy"
)

// marks finds special tokens in text. Without a tokenizer, any text that looks like a special token counts as one.
type marks struct {
	first   [256]bool // bytes with which a special token can begin
	lengths []int     // lengths of the tokens, longest first
	tokens  map[string]bool
}

// looks matches text that looks like a special token.
var looks = lazy.Regexp(`<[^\s<>]{1,64}>|\[/?[A-Z_]{2,32}\]|\[\|[^\s\[\]|]{1,64}\|\]|\[e~\[|\]~b\]`)

func newMarks(tokens []string) *marks {
	m := &marks{tokens: map[string]bool{}}
	for _, t := range tokens {
		if t != "" && !m.tokens[t] {
			m.tokens[t], m.first[t[0]] = true, true
			m.lengths = append(m.lengths, len(t))
		}
	}
	slices.Sort(m.lengths)
	m.lengths = slices.Compact(m.lengths)
	slices.Reverse(m.lengths)
	return m
}

// each iterates over the ranges of the special tokens in s.
func (m *marks) each(s string) iter.Seq2[int, int] {
	return func(yield func(start, end int) bool) {
		if len(m.tokens) == 0 {
			for _, at := range looks().FindAllStringIndex(s, -1) {
				if !yield(at[0], at[1]) {
					return
				}
			}
			return
		}
		for i := 0; i < len(s); i++ {
			if !m.first[s[i]] {
				continue
			}
			for _, n := range m.lengths {
				if i+n <= len(s) && m.tokens[s[i:i+n]] {
					if !yield(i, i+n) {
						return
					}
					i += n - 1
					break
				}
			}
		}
	}
}

// all returns the special tokens in s, in order.
func (m *marks) all(s string) (out []string) {
	for start, end := range m.each(s) {
		out = append(out, s[start:end])
	}
	return out
}

// next returns the range of the first special token in s, or false if s doesn't contain one.
func (m *marks) next(s string) (start, end int, ok bool) {
	for start, end := range m.each(s) {
		return start, end, true
	}
	return 0, 0, false
}

// in reports whether s contains a special token.
func (m *marks) in(s string) bool {
	_, _, ok := m.next(s)
	return ok
}

// whole returns s without an incomplete special token at its end.
func (m *marks) whole(s string) string {
	if at := strings.LastIndexAny(s, "<["); at > strings.LastIndexAny(s, ">]") {
		return s[:at]
	}
	return s
}
