package cli

import (
	"io"
	"os"

	"github.com/nat-go/nat-go/internal/terminal"
)

// colored reports whether text written to w may have colours. It may if w is a terminal, NO_COLOR isn't set
// (https://no-color.org), and TERM isn't dumb.
func colored(w io.Writer) bool {
	return terminal.Is(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}
