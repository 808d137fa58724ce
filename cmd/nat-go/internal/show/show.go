package show

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/rivo/uniseg"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/internal/terminal"
	"github.com/nat-go/nat-go/ttc/chat"
)

// Options configures how a record is printed.
type Options struct {
	Width int  // cells per line; 0 means 80
	Color bool // whether to mark differences with colours instead of {+ +} and [- -]
	Full  bool // whether to print long text in full instead of only its beginning and end
}

// View is the printable form of a record, row or drop.
type View struct {
	Title string
	Facts []string // lines of text

	Prompt           builders.Passage
	Chosen, Rejected builders.Passage // the sides of a preference
	Messages         builders.Passage // conversation of any other kind of record, printed without Prompt
	Pair             bool             // whether to print Prompt, Chosen and Rejected instead of Messages
}

const (
	sideBySide = 100 // minimum width in cells for printing two columns
	headLines  = 24  // number of lines printed from the beginning of a text that is shortened
	tailLines  = 8
)

// Write prints a record.
func Write(w io.Writer, v View, o Options) error {
	if o.Width <= 0 {
		o.Width = 80
	}
	p := &printer{Options: o}
	p.title(v.Title)
	for _, f := range v.Facts {
		for _, l := range wrap([]Piece{{clean(f), false}}, p.Width) {
			p.printLine(l, dim, unmarked)
			p.WriteString("\n")
		}
	}
	switch {
	case v.Pair:
		p.heading("prompt", "")
		p.printPassage(v.Prompt)
		p.printPair(v.Chosen, v.Rejected)
	case len(v.Messages.Nodes) > 0 || v.Messages.Text != "": // without messages, the view has only facts
		p.printPassage(v.Messages)
	}
	p.WriteString("\n")
	_, err := io.WriteString(terminal.For(w), p.String())
	return err
}

// style is an SGR parameter.
type style string

const (
	plain style = ""
	bold  style = "1"
	dim   style = "2"
	green style = "32"
	red   style = "31"
	cyan  style = "36"
)

// marks describes how differing pieces are printed, either in a style or, without colours, between two strings.
type marks struct {
	style     style
	open, end string
}

var (
	unmarked = marks{}
	added    = marks{green, "{+", "+}"}
	removed  = marks{red, "[-", "-]"}
)

type printer struct {
	strings.Builder
	Options
}

func (p *printer) styled(s string, st style) {
	if st == plain || !p.Color || s == "" {
		p.WriteString(s)
		return
	}
	p.WriteString(terminal.Style(string(st), s))
}

func (p *printer) title(s string) {
	s = clean(s)
	fill := max(3, p.Width-4-uniseg.StringWidth(s))
	p.styled("── "+s+" "+strings.Repeat("─", fill), bold)
	p.WriteString("\n")
}

func (p *printer) heading(s, more string) {
	p.WriteString("\n")
	p.styled(s, bold)
	p.styled(more, dim)
	p.WriteString("\n")
}

// printPassage prints a plain text passage, or messages one after another with their roles.
func (p *printer) printPassage(c builders.Passage) {
	if c.IsText() {
		p.printBlock([]Piece{{clean(c.Text), false}}, 2, unmarked)
		return
	}
	for i := range c.Nodes {
		m := &c.Nodes[i].Message
		p.WriteString("  ")
		p.styled(clean(m.Role), cyan)
		if m.ToolCallID != "" {
			p.styled(" (answers "+clean(m.ToolCallID)+")", dim)
		}
		p.WriteString("\n")
		p.printBlock([]Piece{{clean(messageText(m)), false}}, 4, unmarked)
	}
}

// printBlock prints indented text, without its middle if it is long (see shortened).
func (p *printer) printBlock(spans []Piece, indent int, m marks) {
	lines := wrap(spans, p.Width-indent)
	p.shortened(len(lines), indent, func(i int) {
		p.WriteString(strings.Repeat(" ", indent))
		p.printLine(lines[i], plain, m)
	})
}

// shortened prints n lines. If there are many lines, it omits the middle, unless p.Full is set.
func (p *printer) shortened(n, indent int, print func(i int)) {
	cut := n - headLines - tailLines
	for i := range n {
		if !p.Full && cut > 3 && i >= headLines && i < headLines+cut {
			if i == headLines {
				p.styled(fmt.Sprintf("%s… %d more lines; --full prints them", strings.Repeat(" ", indent), cut), dim)
				p.WriteString("\n")
			}
			continue
		}
		print(i)
		p.WriteString("\n")
	}
}

// printLine prints a line in style st, and its differing pieces with marks.
func (p *printer) printLine(l line, st style, m marks) {
	for _, s := range l.spans {
		switch {
		case !s.Differs:
			p.styled(s.Text, st)
		case p.Color:
			p.styled(s.Text, m.style)
		default:
			p.WriteString(m.open + s.Text + m.end)
		}
	}
}

// printPair prints two answers, side by side if the screen is wide enough.
func (p *printer) printPair(chosen, rejected builders.Passage) {
	a, b := answerText(chosen), answerText(rejected)
	left, right, alike := Compare(a, b)
	nameA, nameB := "chosen", "rejected"
	if !alike {
		p.WriteString("\n")
		p.styled("the two answers have little in common, so differences are not marked\n", dim)
	}
	sizeA := fmt.Sprintf("  %d characters", utf8.RuneCountInString(a))
	sizeB := fmt.Sprintf("  %d characters", utf8.RuneCountInString(b))
	if p.Width < sideBySide {
		p.heading(nameA, sizeA)
		p.printBlock(left, 2, added)
		p.heading(nameB, sizeB)
		p.printBlock(right, 2, removed)
		return
	}
	column := (p.Width - 3) / 2
	room := column
	if !p.Color {
		room -= 8 // space for the marks of two differing pieces
	}
	p.WriteString("\n")
	p.styled(nameA, bold)
	p.styled(sizeA, dim)
	p.WriteString(strings.Repeat(" ", max(0, column-len(nameA)-len(sizeA))) + " │ ")
	p.styled(nameB, bold)
	p.styled(sizeB, dim)
	p.WriteString("\n")
	p.printColumns(wrap(left, room), wrap(right, room), column)
}

// printColumns prints two columns line by line, side by side. Like printBlock, it may omit the middle.
func (p *printer) printColumns(left, right []line, column int) {
	p.shortened(max(len(left), len(right)), 0, func(i int) {
		var l, r line
		if i < len(left) {
			l = left[i]
		}
		if i < len(right) {
			r = right[i]
		}
		p.printLine(l, plain, added)
		used := l.width
		if !p.Color {
			for _, s := range l.spans {
				if s.Differs {
					used += 4
				}
			}
		}
		p.WriteString(strings.Repeat(" ", max(0, column-used)) + " │ ")
		p.printLine(r, plain, removed)
	})
}

// answerText returns an answer as text, either its only message or all of its messages with their roles.
func answerText(c builders.Passage) string {
	switch {
	case c.IsText():
		return clean(c.Text)
	case len(c.Nodes) == 1:
		return clean(messageText(&c.Nodes[0].Message))
	}
	var b strings.Builder
	for i := range c.Nodes {
		m := &c.Nodes[i].Message
		fmt.Fprintf(&b, "%s: %s\n", m.Role, messageText(m))
	}
	return clean(b.String())
}

// messageText returns a message's reasoning, content and calls.
func messageText(m *chat.Message) string {
	var parts []string
	if m.Reasoning != "" {
		parts = append(parts, "(thinks) "+m.Reasoning)
	}
	switch m.Form {
	case chat.Text:
		if m.Text != "" || len(m.ToolCalls) == 0 {
			parts = append(parts, m.Text)
		}
	case chat.Parts:
		for _, p := range m.Parts {
			if p.Type == "text" {
				parts = append(parts, p.Text)
			} else {
				parts = append(parts, "("+p.Type+")")
			}
		}
	}
	for i := range m.ToolCalls {
		c := &m.ToolCalls[i]
		call := "→ " + c.Name + "(" + c.Arguments + ")"
		if c.ID != "" {
			call += "  " + c.ID
		}
		parts = append(parts, call)
	}
	return strings.Join(parts, "\n")
}

// clean makes a string safe to print. It also replaces tabs with spaces, because the width of a tab varies.
func clean(s string) string { return strings.ReplaceAll(terminal.Text(s), "\t", "    ") }

// line is a line on the screen. The widths of its pieces add up to width.
type line struct {
	spans []Piece
	width int // in terminal cells
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

// wordsAndSpaces splits a string into words and the spaces between them. A regular expression would make printing
// long text take nearly twice as long.
func wordsAndSpaces(s string) (out []string) {
	for s != "" {
		n := len(s) - len(strings.TrimLeft(s, " "))
		if n == 0 {
			word, _, _ := strings.Cut(s, " ")
			n = len(word)
		}
		out, s = append(out, s[:n]), s[n:]
	}
	return out
}
