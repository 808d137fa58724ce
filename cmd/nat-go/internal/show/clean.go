package show

import (
	"strings"

	"github.com/nat-go/nat-go/internal/terminal"
)

// clean makes a text safe to print, so that its width is known: tabs become spaces.
func clean(s string) string { return strings.ReplaceAll(terminal.Text(s), "\t", "    ") }
