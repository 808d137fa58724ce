package show

import (
	"strings"

	"github.com/nat-go/nat-go/internal/terminal"
)

// clean makes a string safe to print. It also replaces tabs with spaces, so that the string's width is known.
func clean(s string) string { return strings.ReplaceAll(terminal.Text(s), "\t", "    ") }
