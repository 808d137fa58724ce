package yamldoc

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/nat-go/nat-go/internal/secret"
	"github.com/nat-go/nat-go/internal/terminal"
)

const (
	maskText     = "********"
	snippetWidth = 140
	maxLine      = 2000 // number of characters examined in a line
)

// snippet returns the line with secrets masked, a newline, and a caret under columns [col, end).
func (s *Source) snippet(line, col, end int) string {
	text := s.line(line)
	first := 0 // index of the first character to examine
	if len(text) > maxLine {
		first = max(0, min(col-1-maxLine/2, len(text)-maxLine))
		text = text[first : first+maxLine]
	}
	hide := hiddenIn(text, first > 0)
	for _, m := range s.masks {
		if m.line == line {
			hide = append(hide, [2]int{m.from - 1 - first, m.to - 1 - first})
		}
	}
	slices.SortFunc(hide, func(a, b [2]int) int { return a[0] - b[0] })

	var out []rune
	at := 0
	place := make([]int, len(text)+1) // position of each character in the masked text
	masked := false
	for i, r := range text {
		for at < len(hide) && hide[at][1] <= i {
			at++
		}
		place[i] = len(out)
		inside := at < len(hide) && i >= hide[at][0]
		if inside && !masked {
			out = append(out, []rune(maskText)...)
		} else if !inside {
			out = append(out, r)
		}
		masked = inside
	}
	place[len(text)] = len(out)
	from, to := place[min(max(col-1-first, 0), len(text))], place[min(max(end-1-first, 0), len(text))]
	return cropped(out, from, max(to, from+1))
}

// hiddenIn finds the ranges of characters that look like secrets. If cut is set, the text begins in the middle of a
// line, and its first word may be the end of a secret.
func hiddenIn(text []rune, cut bool) (hide [][2]int) {
	whole := string(text)
	for _, span := range secret.SpansOfSetting(whole) {
		hide = append(hide, [2]int{utf8.RuneCountInString(whole[:span[0]]), utf8.RuneCountInString(whole[:span[1]])})
	}
	if i := strings.IndexAny(whole, " ,]}"); cut && i > 0 {
		hide = append(hide, [2]int{0, utf8.RuneCountInString(whole[:i])})
	}
	return hide
}

// cropped returns the part of a long line around the caret, with its tabs, so that the caret lines up.
func cropped(line []rune, from, to int) string {
	lead, tail := "", ""
	if len(line) > snippetWidth {
		start := max(0, min(from-snippetWidth/3, len(line)-snippetWidth))
		stop := min(len(line), start+snippetWidth)
		if start > 0 {
			lead = "..."
		}
		if stop < len(line) {
			tail = "..."
		}
		line, from, to = line[start:stop], from-start, min(to, stop)-start
	}
	indent := strings.Map(func(r rune) rune {
		if r == '\t' {
			return r
		}
		return ' '
	}, lead+string(line[:min(from, len(line))]))
	return lead + strings.Map(printable, string(line)) + tail + "\n" + indent + strings.Repeat("^", max(1, to-from))
}

// printable replaces each control character of a file with one printable character, which protects the terminal and
// keeps the caret aligned.
func printable(r rune) rune {
	if r == '\t' || terminal.Safe(r) {
		return r
	}
	return '�'
}
