package cli

import (
	"io"
	"os"

	"github.com/nat-go/nat-go/internal/terminal"
)

// colored reports whether a writer is a terminal that wants colours (https://no-color.org).
func colored(w io.Writer) bool {
	return terminal.Is(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}
