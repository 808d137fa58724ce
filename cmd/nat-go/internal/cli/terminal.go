package cli

import (
	"io"
	"os"
)

// colored reports whether a writer is a terminal that wants colours (https://no-color.org).
func colored(w io.Writer) bool {
	return isTerminal(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}
