package show

import (
	"strings"

	"github.com/nat-go/nat-go/internal/terminal"
)

// clean makes a text safe to print, and replaces tabs by spaces, so that its width is known.
func clean(s string) string { return strings.ReplaceAll(terminal.Text(s), "\t", "    ") }
