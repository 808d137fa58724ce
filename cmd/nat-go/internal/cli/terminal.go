package cli

import (
	"io"
	"os"

	"github.com/nat-go/nat-go/internal/terminal"
)

// colored reports whether text written to w may have colours: w is a terminal, and the environment doesn't object
// (https://no-color.org).
func colored(w io.Writer) bool {
	return terminal.Is(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}
