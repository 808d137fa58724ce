package columns

import (
	"regexp"
	"strings"
	"testing"
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
