package builders

import (
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/nat-go/nat-go/internal/property"
)

// TestIsASCII compares isASCII with looking at every byte, for texts of any length.
func TestIsASCII(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		b := rapid.SliceOfN(rapid.ByteMax(utf8.RuneSelf-1), 0, 40).Draw(t, "text")
		if n := len(b); n > 0 && rapid.Bool().Draw(t, "other") {
			b[rapid.IntRange(0, n-1).Draw(t, "at")] |= utf8.RuneSelf
		}
		want := true
		for _, c := range b {
			want = want && c < utf8.RuneSelf
		}
		if got := isASCII(string(b)); got != want {
			t.Errorf("%q: %t", b, got)
		}
	})
}
