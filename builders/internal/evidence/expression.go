package evidence

import (
	"regexp"
	"regexp/syntax"
	"strings"

	"github.com/nat-go/nat-go/internal/lazy"
)

// expression is a regular expression that tries only the alternatives whose literals occur in the text. The expressions
// here have up to 150 alternatives, each a different wording of a failure, and Go's engine takes microseconds per
// character to try them all.
type expression struct {
	*regexp.Regexp
	alternatives []alternative
	fold         bool // literals are lower-cased, and so is the text that is searched
}

// alternative is an expression reduced to one of its alternatives.
type alternative struct {
	literals []string // a matching text contains at least one of these literals; nil if they are unknown
	compiled func() *regexp.Regexp
}

func newExpression(expr string) *expression {
	x := &expression{Regexp: regexp.MustCompile(expr), fold: strings.Contains(expr, "(?i")}
	for _, a := range split(expr) {
		of := alternative{compiled: lazy.Regexp(a)}
		if parsed, err := syntax.Parse(a, syntax.Perl); err == nil {
			of.literals = x.literals(parsed)
		}
		x.alternatives = append(x.alternatives, of)
	}
	return x
}

// split returns copies of expr, each with only one of its alternatives. Text that matches expr matches one of them. The
// alternatives are the top-level ones or, if there are none, those of the top-level group with the most alternatives.
func split(expr string) []string {
	open, widest := []group{{}}, group{}
	for i := 0; i < len(expr); i++ {
		switch expr[i] {
		case '\\':
			i++
		case '[':
			for i++; expr[i] == '^' || expr[i] == ']'; i++ { // a leading bracket is a literal
			}
			for ; expr[i] != ']'; i++ {
				if expr[i] == '\\' {
					i++
				}
			}
		case '(':
			open = append(open, group{start: i + 1})
		case '|':
			top := &open[len(open)-1]
			top.bars = append(top.bars, i)
		case ')':
			g := open[len(open)-1]
			g.end = i
			open = open[:len(open)-1]
			repeated := i+1 < len(expr) && strings.IndexByte("?*+{", expr[i+1]) >= 0
			if len(open) == 1 && !repeated && len(g.bars) > len(widest.bars) {
				widest = g
			}
		}
	}
	if all := open[0]; all.bars != nil || widest.bars == nil {
		all.end = len(expr)
		return all.cut(expr)
	}
	return widest.cut(expr)
}

// group locates the alternatives of a group in an expression.
type group struct {
	start, end int
	bars       []int // offsets of the bars between the alternatives
}

// cut returns copies of an expression, each with only one of the group's alternatives.
func (g group) cut(expr string) (out []string) {
	from := g.start
	if expr[from:] != "" && expr[from] == '?' || strings.HasPrefix(expr[from:], "(?i)") { // each copy keeps the flags
		from += strings.IndexAny(expr[from:], ":)") + 1
	}
	start := from
	for _, bar := range append(g.bars, g.end) {
		out = append(out, expr[:start]+expr[from:bar]+expr[g.end:])
		from = bar + 1
	}
	return out
}

// literals returns strings such that every match contains at least one of them, or nil.
func (x *expression) literals(re *syntax.Regexp) (found []string) {
	switch re.Op {
	case syntax.OpLiteral:
		literal := string(re.Rune)
		if x.fold {
			literal = strings.ToLower(literal)
			if strings.ContainsFunc(literal, func(r rune) bool { return r > 'z' }) {
				return nil // case folding beyond ASCII is more complicated
			}
		}
		return []string{literal}
	case syntax.OpCapture, syntax.OpPlus:
		return x.literals(re.Sub[0])
	case syntax.OpRepeat:
		if re.Min > 0 {
			return x.literals(re.Sub[0])
		}
	case syntax.OpConcat:
		for _, sub := range re.Sub {
			if l := x.literals(sub); shortest(l) > shortest(found) { // longer literals are rarer
				found = l
			}
		}
	case syntax.OpAlternate:
		for _, sub := range re.Sub {
			l := x.literals(sub)
			if l == nil {
				return nil
			}
			found = append(found, l...)
		}
	}
	return found
}

// shortest returns the length of the shortest literal, or 0 without literals.
func shortest(literals []string) (n int) {
	for i, l := range literals {
		if i == 0 || len(l) < n {
			n = len(l)
		}
	}
	return n
}

// MatchString is like regexp.Regexp.MatchString.
func (x *expression) MatchString(s string) bool {
	searched := s
	if x.fold {
		if strings.Contains(s, "ſ") { // (?i)s matches this letter, but ToLower leaves it unchanged
			return x.Regexp.MatchString(s)
		}
		searched = strings.ToLower(s)
	}
	in := trigramsOf(searched)
	for i := range x.alternatives {
		a := &x.alternatives[i]
		may := a.literals == nil
		for _, l := range a.literals {
			if may = in.mayHave(l) && strings.Contains(searched, l); may {
				break
			}
		}
		if may && a.compiled().MatchString(s) {
			return true
		}
	}
	return false
}

// trigrams is a set of hashes of the text's three-byte substrings. Most literals that aren't in the text contain a
// trigram that isn't in it either.
type trigrams [64]uint64

func trigramsOf(s string) (t trigrams) {
	for i := 2; i < len(s); i++ {
		word, bit := trigram(s, i)
		t[word] |= bit
	}
	return t
}

func trigram(s string, last int) (word int, bit uint64) {
	h := (uint32(s[last-2])<<16 | uint32(s[last-1])<<8 | uint32(s[last])) * 0x9e3779b1 >> 20
	return int(h >> 6), 1 << (h & 63)
}

// mayHave returns false only for literals that the text doesn't contain.
func (t *trigrams) mayHave(literal string) bool {
	for i := 2; i < len(literal); i++ {
		if word, bit := trigram(literal, i); t[word]&bit == 0 {
			return false
		}
	}
	return true
}
