package cli

import (
	"io"
	"os"

	"golang.org/x/term"
)

// colored reports whether a writer is a terminal that wants colours (https://no-color.org).
func colored(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && term.IsTerminal(int(f.Fd()))
}
