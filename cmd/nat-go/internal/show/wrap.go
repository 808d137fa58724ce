package show

import (
	"strings"

	"github.com/rivo/uniseg"
)

// line is a line on the screen. The widths of its pieces add up to width.
type line struct {
	spans []Piece
	width int // cells
}

func (l *line) add(s string, differs bool, width int) {
	l.width += width
	if n := len(l.spans); n > 0 && l.spans[n-1].Differs == differs {
		l.spans[n-1].Text += s
		return
	}
	l.spans = append(l.spans, Piece{s, differs})
}

// trim removes the spaces at the end of a wrapped line.
func (l *line) trim() {
	for n := len(l.spans); n > 0; n = len(l.spans) {
		last := &l.spans[n-1]
		short := strings.TrimRight(last.Text, " ")
		l.width -= len(last.Text) - len(short)
		if last.Text = short; short != "" {
			return
		}
		l.spans = l.spans[:n-1]
	}
}

// wrap breaks pieces into lines of at most width cells (but at least 8), at spaces if possible.
func wrap(spans []Piece, width int) []line {
	width = max(width, 8)
	lines := []line{{}}
	for _, s := range spans {
		for i, part := range strings.Split(s.Text, "\n") {
			if i > 0 {
				lines = append(lines, line{})
			}
			for _, w := range wordsAndSpaces(part) {
				lines = placeWord(lines, w, s.Differs, width)
			}
		}
	}
	return lines
}

// placeWord puts a word on the last line or, if it doesn't fit there, on a new one. If a word is wider than a line, it
// is split between characters.
func placeWord(lines []line, word string, differs bool, width int) []line {
	last := &lines[len(lines)-1]
	w := uniseg.StringWidth(word)
	switch {
	case last.width+w <= width:
		last.add(word, differs, w)
		return lines
	case strings.TrimSpace(word) == "":
		last.trim()
		return append(lines, line{}) // a space at a line break is omitted
	case w <= width:
		last.trim()
		lines = append(lines, line{})
		lines[len(lines)-1].add(word, differs, w)
		return lines
	}
	for g := uniseg.NewGraphemes(word); g.Next(); {
		if lines[len(lines)-1].width+g.Width() > width {
			lines = append(lines, line{})
		}
		lines[len(lines)-1].add(g.Str(), differs, g.Width())
	}
	return lines
}

func wordsAndSpaces(s string) []string {
	var out []string
	start := 0
	for i := 1; i < len(s); i++ {
		if (s[i] == ' ') != (s[i-1] == ' ') {
			out = append(out, s[start:i])
			start = i
		}
	}
	if start < len(s) {
		out = append(out, s[start:])
	}
	return out
}
