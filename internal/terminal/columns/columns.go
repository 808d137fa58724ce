package columns

import (
	"strings"

	"github.com/rivo/uniseg"
)

// Width returns the number of columns that a line occupies.
func Width(line string) int { return uniseg.StringWidth(line) }

// Fit cuts a line to the given number of columns, with an ellipsis if it was too long.
func Fit(line string, columns int) string {
	if Width(line) <= columns {
		return line
	}
	if columns <= 0 {
		return ""
	}
	head, _ := Cut(line, columns-1)
	return head + "…"
}

// Cut cuts a line after the last character that ends within the given number of columns.
func Cut(line string, columns int) (head, rest string) {
	end, used := 0, 0
	for g := uniseg.NewGraphemes(line); g.Next() && used+g.Width() <= columns; {
		used += g.Width()
		_, end = g.Positions()
	}
	return line[:end], line[end:]
}

// Pad pads a line with spaces to the given number of columns.
func Pad(line string, columns int) string {
	return line + strings.Repeat(" ", max(0, columns-Width(line)))
}
