package columns

import (
	"slices"
	"strings"
)

const (
	gap = 2
	// minLastWidth is the minimum width of the last column; a narrower column is printed below the others.
	minLastWidth = 24
	indent       = 4
)

// Table is a list of rows of cells.
type Table struct {
	Rows   [][]string
	Indent int                                       // number of spaces before every line
	Style  func(row, column int, cell string) string // styles a cell after padding; if nil, cells are not styled
}

// Add adds a row.
func (t *Table) Add(cells ...string) { t.Rows = append(t.Rows, cells) }

// Text lays out the table. Lines have at most width columns if the cells allow it; a width of 0 means no limit. Text
// that doesn't fit in the last column is wrapped there or, if there is too little room, printed on separate lines
// below. A word that is longer than a line, such as a path, is broken.
func (t *Table) Text(width int) string {
	wide := t.widths()
	var b strings.Builder
	for r, row := range t.Rows {
		t.line(&b, r, row, wide, width)
	}
	return b.String()
}

// widths returns the width of each column's widest cell.
func (t *Table) widths() []int {
	var wide []int
	for _, row := range t.Rows {
		for i, cell := range row {
			if i == len(wide) {
				wide = append(wide, 0)
			}
			wide[i] = max(wide[i], Width(cell))
		}
	}
	return wide
}

func (t *Table) line(b *strings.Builder, r int, row []string, wide []int, width int) {
	styled := func(c int, cell string) string {
		if t.Style == nil {
			return cell
		}
		return t.Style(r, c, cell)
	}
	last, space := len(row)-1, strings.Repeat(" ", t.Indent)
	for c, cell := range row {
		if c < last {
			b.WriteString(space + styled(c, cell))
			space = strings.Repeat(" ", wide[c]-Width(cell)+gap)
			continue
		}
		at := t.Indent
		for _, w := range wide[:last] {
			at += w + gap
		}
		parts := []string{cell}
		if width > 0 && at+Width(cell) > width {
			if width-at < minLastWidth && c > 0 {
				at = t.Indent + indent
				space = "\n" + strings.Repeat(" ", at)
			}
			parts = broken(Wrap(cell, max(width-at, minLastWidth)), max(width-at, minLastWidth))
		}
		for _, part := range parts {
			b.WriteString(space + styled(c, part))
			space = "\n" + strings.Repeat(" ", at)
		}
	}
	b.WriteByte('\n')
}

// broken breaks lines that are longer than width, after a slash if possible, because they are mostly paths.
func broken(lines []string, width int) []string {
	var out []string
	for _, line := range lines {
		for Width(line) > width {
			head, _ := Cut(line, width)
			if slash := strings.LastIndexByte(head, '/'); slash > 0 {
				head = head[:slash+1]
			}
			if head == "" { // the character is wider than the line
				break
			}
			out = append(out, head)
			line = line[len(head):]
		}
		out = append(out, line)
	}
	return out
}

// Wrap breaks a line between words, so that each part takes at most width columns; a longer word gets a separate line.
func Wrap(line string, width int) []string {
	var out []string
	used := 0
	for word := range strings.FieldsSeq(line) {
		w := Width(word)
		if n := len(out); n > 0 && used+1+w <= width {
			out[n-1] += " " + word
			used += 1 + w
			continue
		}
		out = append(out, word)
		used = w
	}
	return slices.Clip(append(out, make([]string, max(0, 1-len(out)))...))
}
