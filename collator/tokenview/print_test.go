package tokenview

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/nat-go/nat-go/internal/property"
	"github.com/nat-go/nat-go/internal/terminal/columns"
)

// TestWrapTokens checks that lines are no wider than requested, and that no token is lost.
func TestWrapTokens(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		texts := rapid.SliceOfN(rapid.StringMatching(`[a-z 世界]{0,40}`), 1, 30).Draw(t, "texts")
		width := rapid.IntRange(minTokens, 60).Draw(t, "width")
		lines := wrapTokens(texts, width)
		for _, l := range lines {
			if columns.Width(l) > width {
				t.Fatalf("%d columns in %d: %q", columns.Width(l), width, l)
			}
		}
		if got, want := strings.Join(lines, ""), strings.Join(texts, "|"); got != want {
			t.Fatalf("got %q, want %q", got, want)
		}
	})
}

func TestFolded(t *testing.T) {
	texts := strings.Split(strings.Repeat("context ", 40), " ")
	print := func(l Look, whole bool) string {
		var b strings.Builder
		(&printer{w: &b, Look: l}).tokens("head ", texts, dim, whole)
		return b.String()
	}
	if got := print(Look{Width: 40}, false); strings.Count(got, "\n") != maxFoldedLines+1 ||
		!strings.Contains(got, "lines more: --full") {
		t.Errorf("%s", got)
	}
	for _, got := range []string{
		print(Look{Width: 40, Full: true}, false), print(Look{Width: 40}, true), print(Look{}, false),
	} {
		if strings.Count(got, "context") != 40 {
			t.Errorf("%s", got)
		}
	}
}

// TestWords checks that a line of words is wrapped to the width, if there is one.
func TestWords(t *testing.T) {
	line := strings.TrimSpace(strings.Repeat("word ", 20))
	for width, lines := range map[int]int{0: 1, 40: 3} {
		var b strings.Builder
		(&printer{w: &b, Look: Look{Width: width}}).words("  ", line)
		if got := b.String(); strings.Count(got, "\n") != lines || !strings.HasPrefix(got, "  word") {
			t.Errorf("%d columns: %q", width, got)
		}
	}
}
