package columns

import (
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTable(t *testing.T) {
	table := &Table{Indent: 2}
	table.Add("tie", "both scores are equal")
	table.Add("non_finite_score", "a score is NaN or infinite, and nothing can be told from it")
	const wide = `  tie               both scores are equal
  non_finite_score  a score is NaN or infinite, and nothing can be told from it
`
	const narrower = `  tie               both scores are equal
  non_finite_score  a score is NaN or infinite,
                    and nothing can be told from
                    it
`
	const narrow = `  tie
      both scores are equal
  non_finite_score
      a score is NaN or infinite, and
      nothing can be told from it
`
	for width, want := range map[int]string{0: wide, 50: narrower, 40: narrow} {
		got := table.Text(width)
		if trimmed(got) != trimmed(want) {
			t.Errorf("%d columns:\n%s\nwant\n%s", width, got, want)
		}
		if !fits(got, width) {
			t.Errorf("more than %d columns:\n%s", width, got)
		}
	}
}

// TestTableOfPaths: a path that is longer than the terminal is wide is broken, after a slash if it has one.
func TestTableOfPaths(t *testing.T) {
	table := &Table{}
	table.Add("acme", "PATH", "/a/folder/whose/name/is/rather/long/bin/nat-go-builder-acme")
	table.Add("other", "PATH", strings.Repeat("x", 60)+"/"+strings.Repeat("世", 20))
	const want = `acme   PATH
    /a/folder/whose/name/is/rather/
    long/bin/nat-go-builder-acme
other  PATH
    xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
    xxxxxxxxxxxxxxxxxxxxxxxxxxxx/
    世世世世世世世世世世世世世世世世
    世世世世
`
	got := table.Text(36)
	if diff := cmp.Diff(want, trimmed(got)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if !fits(got, 36) {
		t.Errorf("more than 36 columns:\n%s", got)
	}
}

// trimmed returns a text without the spaces at the ends of its lines.
func trimmed(text string) string { return regexp.MustCompile(" +\n").ReplaceAllString(text, "\n") }

func fits(text string, width int) bool {
	for line := range strings.Lines(text) {
		if width > 0 && Width(strings.TrimRight(line, " \n")) > width {
			return false
		}
	}
	return true
}

func TestWrap(t *testing.T) {
	got := strings.Join(Wrap("one two averylongword three 世界 世界", 9), "|")
	if got != "one two|averylongword|three|世界 世界" {
		t.Errorf("%q", got)
	}
	if got := Wrap("", 9); len(got) != 1 || got[0] != "" {
		t.Errorf("%q", got)
	}
}
