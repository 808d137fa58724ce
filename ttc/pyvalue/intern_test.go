package pyvalue

import (
	"strings"
	"testing"
	"unsafe"
)

// TestInternedWordsAreLiterals: a word that Intern knows is the literal that other packages write, so that looking up a
// key compares addresses.
func TestInternedWordsAreLiterals(t *testing.T) {
	for _, w := range []string{"role", "content", "tool_calls", "user"} {
		if unsafe.StringData(Intern(strings.Clone(w))) != unsafe.StringData(w) {
			t.Errorf("Intern has its own copy of %s", w)
		}
	}
}
