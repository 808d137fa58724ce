package evidence

import (
	_ "embed"
	"strings"
	"sync"
)

// patternText contains a block for each pattern: its name, then the indented pieces of its expression, which are
// joined.
//
//go:embed patterns.txt
var patternText string

var patterns = sync.OnceValue(func() map[string]string {
	named, name := map[string]string{}, ""
	for l := range strings.Lines(patternText) {
		l = strings.TrimSuffix(l, "\n")
		if piece, ok := strings.CutPrefix(l, "\t"); ok {
			named[name] += piece
		} else {
			name = l
		}
	}
	return named
})

// pattern returns the regular expression with the given name in patterns.txt.
func pattern(name string) func() *expression {
	return sync.OnceValue(func() *expression { return newExpression(patterns()[name]) })
}

// lazy returns a regular expression that is compiled on first use: a process that serves other builders never needs it.
func lazy(expr string) func() *expression {
	return sync.OnceValue(func() *expression { return newExpression(expr) })
}
