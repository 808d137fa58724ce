package evidence

import (
	"slices"
	"strings"
)

// maxLine is the number of bytes examined in each line.
const maxLine = 400

// firstLines returns the first non-blank lines of text, without trailing space, each truncated to maxLine bytes. If all
// lines are blank, it returns one empty line.
func firstLines(text string, limit int) []string {
	var out []string
	for text != "" && len(out) < limit {
		line, rest, _ := strings.Cut(text, "\n")
		if s := trimmed(line); s != "" {
			out = append(out, s)
		}
		text = rest
	}
	if out == nil {
		return []string{""}
	}
	return out
}

// lastLines returns the last non-blank lines of text, in order, trimmed as in firstLines.
func lastLines(text string, limit int) []string {
	var out []string
	for text != "" && len(out) < limit {
		i := strings.LastIndexByte(text, '\n')
		if s := trimmed(text[i+1:]); s != "" {
			out = append(out, s)
		}
		text = text[:max(i, 0)]
	}
	if out == nil {
		return []string{""}
	}
	slices.Reverse(out)
	return out
}

func trimmed(line string) string {
	if len(line) > maxLine {
		line = strings.ToValidUTF8(line[:maxLine], "")
	}
	return strings.TrimRight(line, " \t\r")
}
