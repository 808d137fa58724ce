package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/nat-go/nat-go/internal/objects"
	"github.com/nat-go/nat-go/internal/secret"
	"github.com/nat-go/nat-go/internal/terminal"
	"github.com/nat-go/nat-go/internal/terminal/columns"
)

// printed prints the findings of a command: as text or, with --json, as one JSON object.
func printed(cmd *cobra.Command, v any, text func(io.Writer) error) error {
	if asJSON(cmd) {
		return json.NewEncoder(cmd.OutOrStdout()).Encode(v)
	}
	return text(cmd.OutOrStdout())
}

// printedLine is like printed, for a line of text.
func printedLine(cmd *cobra.Command, v any, line string, args ...any) error {
	return printed(cmd, v, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, line+"\n", args...)
		return err
	})
}

// tableText prints a table that fits the terminal.
func tableText(t *columns.Table) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, t.Text(terminal.Width(w)))
		return err
	}
}

// newLogger logs as text on a terminal, and as JSON elsewhere.
func newLogger(cmd *cobra.Command) zerolog.Logger {
	w := cmd.ErrOrStderr()
	if terminal.Is(w) {
		w = console(w)
	}
	return zerolog.New(w).Level(logLevel(cmd)).With().Timestamp().Logger()
}

// hide returns the set of values that are masked in everything the command prints from then on: the environment's
// credentials, and the values added to the set.
func hide(cmd *cobra.Command) *secret.Values {
	values := secret.NewValues(objects.Secrets(os.Getenv)...)
	for _, w := range []io.Writer{cmd.OutOrStdout(), cmd.ErrOrStderr()} {
		if t, ok := w.(*terminal.Writer); ok {
			t.Hide(values)
		}
	}
	return values
}

// stackField is the field in which the host logs a plugin's traceback.
const stackField = "stack"

// console writes log lines as text. It escapes text from elsewhere itself and bypasses the escaping writer, which would
// also escape its colours.
func console(w io.Writer) io.Writer {
	return zerolog.ConsoleWriter{
		Out: terminal.For(w).Raw(), NoColor: !colored(w), TimeFormat: time.TimeOnly,
		FieldsExclude: []string{stackField},
		FormatExtra: func(event map[string]any, out *bytes.Buffer) error { // prints a traceback below its line
			if stack, ok := event[stackField].(string); ok && stack != "" {
				for line := range strings.Lines(strings.TrimRight(stack, "\n") + "\n") {
					out.WriteString("\n    " + strings.TrimRight(line, "\n"))
				}
			}
			return nil
		},
		FormatPrepare: func(event map[string]any) error {
			for k, v := range event {
				s, ok := v.(string)
				switch {
				case ok && k == stackField:
					event[k] = terminal.Text(s)
				case ok:
					event[k] = terminal.Line(s)
				}
			}
			return nil
		},
	}
}
