package tokenview

import (
	"fmt"
	"io"
	"strings"

	"github.com/nat-go/nat-go/internal/terminal"
	"github.com/nat-go/nat-go/internal/terminal/columns"
)

// Terminal colours.
const green, dim, yellow = "32", "2", "33"

// minTokens is the minimum width of a column of tokens.
const minTokens = 16

type printer struct {
	Look
	w   io.Writer
	err error
}

func (p *printer) printf(format string, a ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format, a...)
	}
}

// words writes a line of text, wrapped if it is too wide.
func (p *printer) words(indent, line string) {
	lines := []string{terminal.Line(line)}
	if p.Width > 0 {
		lines = columns.Wrap(lines[0], max(p.Width-columns.Width(indent), minTokens))
	}
	for _, l := range lines {
		p.printf("%s%s\n", indent, l)
	}
}

// tokens writes a heading and the decoded tokens, separated by | and wrapped between tokens. Unless whole or Full is
// set, lines in the middle of a long run are omitted and counted.
func (p *printer) tokens(head string, texts []string, colour string, whole bool) {
	lines := wrapTokens(texts, p.Width-columns.Width(head))
	if n := len(lines); !whole && !p.Full && n > maxFoldedLines+1 {
		left := fmt.Sprintf("... %d lines more: --full", n-maxFoldedLines)
		lines = append(append(lines[:maxFoldedLines-1:maxFoldedLines-1], left), lines[n-1])
	}
	for i, line := range lines {
		if i > 0 {
			head = strings.Repeat(" ", columns.Width(head))
		}
		if line = head + line; p.Colour {
			line = terminal.Style(colour, line)
		}
		p.printf("%s\n", line)
	}
}

// wrapTokens joins decoded tokens into lines of at most width columns, or into a single line if width is 0 or less. A
// token wider than a line is split.
func wrapTokens(texts []string, width int) []string {
	if width <= 0 {
		return []string{strings.Join(texts, "|")}
	}
	width = max(width, minTokens)
	lines := []string{""}
	used := 0
	for i, t := range texts {
		if i < len(texts)-1 {
			t += "|"
		}
		w := columns.Width(t)
		if used > 0 && used+w > width {
			lines, used = append(lines, ""), 0
		}
		for w > width {
			head, rest := columns.Cut(t, width)
			lines[len(lines)-1] += head
			lines, t, w = append(lines, ""), rest, columns.Width(rest)
		}
		lines[len(lines)-1] += t
		used += w
	}
	return lines
}
