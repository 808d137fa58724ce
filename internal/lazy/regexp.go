package lazy

import (
	"regexp"
	"sync"
)

// Regexp returns a function that compiles a regular expression on first use. It panics if the expression is invalid.
func Regexp(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}
