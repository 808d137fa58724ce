package evidence

import (
	"cmp"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
)

// TestExpressions compares every expression with Go's regexp, on tool results, on their lines, and on sentences made of
// the expressions' own literals.
func TestExpressions(t *testing.T) {
	var texts []string
	for _, set := range []string{"dev", "held"} {
		for _, r := range labelled(t, set) {
			texts = append(texts, r.Text[:min(len(r.Text), 500)])
			for i, l := range strings.Split(r.Text, "\n") {
				if i < 3 {
					texts = append(texts, l, strings.ToUpper(l))
				}
			}
		}
	}
	if testing.Short() {
		texts = texts[:len(texts)/5]
	}
	pcg := rand.New(rand.NewPCG(1, 2))
	compared, matched := 0, 0
	for name, expr := range patterns() {
		if _, err := regexp.Compile(expr); err != nil || expr == "" {
			continue
		}
		x := newExpression(expr)
		var words []string
		for _, a := range x.alternatives {
			words = append(words, a.literals...)
		}
		own := []string{"", "ſ", "\u212a", strings.Join(words, " ")}
		for range 40 {
			s := ""
			for range 1 + pcg.IntN(4) {
				if len(words) > 0 {
					s += words[pcg.IntN(len(words))] + []string{"", " ", " x", ": a", "12"}[pcg.IntN(5)]
				}
			}
			own = append(own, s, strings.ToUpper(s), strings.ReplaceAll(s, "s", "ſ"), strings.ReplaceAll(s, "k", "\u212a"))
		}
		for _, list := range [][]string{texts, own} {
			for _, s := range list {
				want := x.Regexp.MatchString(s)
				if got := x.MatchString(s); got != want {
					t.Fatalf("%s: %v of %q, want %v", name, got, s, want)
				}
				if compared++; want {
					matched++
				}
			}
		}
	}
	if compared < 10_000 || matched < 1_000 {
		t.Errorf("%d compared, %d of them match", compared, matched)
	}
}

func TestSplit(t *testing.T) {
	for expr, want := range map[string]string{
		`a`:                  `a`,
		`a|b`:                `a b`,
		`(?i)a|[|]b|\|`:      `(?i)a (?i)[|]b (?i)\|`,
		`^(?:a|b(?:c|d))$`:   `^(?:a)$ ^(?:b(?:c|d))$`,
		`(?i:a|b)(c|d|e)f`:   `(?i:a|b)(c)f (?i:a|b)(d)f (?i:a|b)(e)f`,
		`(?:a|b)+c`:          `(?:a|b)+c`,
		`(?:[^]|)]|[]|(]|x)`: `(?:[^]|)]) (?:[]|(]) (?:x)`,
		`(?:x|y)z|[\]|]`:     `(?:x|y)z [\]|]`,
	} {
		if got := strings.Join(split(expr), " "); got != want {
			t.Errorf("%s: %s, want %s", expr, got, want)
		}
	}
}

func TestLiterals(t *testing.T) {
	for expr, want := range map[string]string{
		`a.bcd`: "bcd", `(?:abc|[xy])d`: "abcd, d", `(?:abc|de)+`: "abc de", `(?:abc|[xy])+`: "-", `abc|[xy]z+|.`: "abc, z, -", `(?:abc){0,2}`: "-",
		`(?:abc){2}`: "abc", `(?i)ABC`: "abc", `ABC`: "ABC", `(?i)é`: "-", `é`: "é", `(?:abc)*`: "-", `(abc)+`: "abc",
	} {
		var got []string
		for _, a := range newExpression(expr).alternatives {
			got = append(got, cmp.Or(strings.Join(a.literals, " "), "-"))
		}
		if all := strings.Join(got, ", "); all != want {
			t.Errorf("%s: %s, want %s", expr, all, want)
		}
	}
}
