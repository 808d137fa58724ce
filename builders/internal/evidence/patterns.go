package evidence

import (
	"cmp"
	_ "embed"
	"regexp"
	"strings"
	"sync"
)

// patternText contains a block for each pattern: its name, then the indented pieces of its expression, which are
// joined. A name in double braces is replaced by an earlier expression.
//
//go:embed patterns.txt
var patternText string

// patterns holds the expressions by name.
var patterns = sync.OnceValue(func() map[string]string {
	named, name := map[string]string{}, ""
	included := regexp.MustCompile(`\{\{\w+\}\}`)
	for l := range strings.Lines(patternText) {
		piece, ok := strings.CutPrefix(strings.TrimSuffix(l, "\n"), "\t")
		if !ok {
			name = piece
			continue
		}
		named[name] += included.ReplaceAllStringFunc(piece, func(s string) string {
			return cmp.Or(named[s[2:len(s)-2]], s) // a test finds names that aren't defined earlier
		})
	}
	return named
})

// compiled holds a function for each pattern that compiles the pattern on first use, because a process that serves
// other builders doesn't need any.
var compiled = sync.OnceValue(func() map[string]func() *expression {
	all := map[string]func() *expression{}
	for name, expr := range patterns() {
		all[name] = sync.OnceValue(func() *expression { return newExpression(expr) })
	}
	return all
})

// pattern returns the regular expression with the given name in patterns.txt.
func pattern(name string) *expression { return compiled()[name]() }

// matches reports whether text matches the pattern with the given name.
func matches(s, name string) bool { return pattern(name).MatchString(s) }
