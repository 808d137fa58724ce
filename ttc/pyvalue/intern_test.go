package pyvalue

import (
	"strings"
	"testing"
	"unsafe"
)

// TestInternedWordsAreLiterals checks that the words of Intern share memory with the literals in other packages, so
// that comparing equal keys only compares addresses.
func TestInternedWordsAreLiterals(t *testing.T) {
	for _, w := range []string{"role", "content", "tool_calls", "user"} {
		if unsafe.StringData(Intern(strings.Clone(w))) != unsafe.StringData(w) {
			t.Errorf("Intern has its own copy of %s", w)
		}
	}
}
