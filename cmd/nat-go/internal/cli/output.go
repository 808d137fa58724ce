package cli

import (
	"io"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/nat-go/nat-go/internal/secret"
	"github.com/nat-go/nat-go/internal/terminal"
)

// newLogger logs for a person on a terminal, and as JSON elsewhere.
func newLogger(cmd *cobra.Command) zerolog.Logger {
	w := cmd.ErrOrStderr()
	if terminal.Is(w) {
		w = console(w)
	}
	return zerolog.New(w).Level(logLevel(cmd)).With().Timestamp().Logger()
}

// hide masks the values that are added to what it returns in all that the command prints from then on.
func hide(cmd *cobra.Command) *secret.Values {
	values := new(secret.Values)
	for _, w := range []io.Writer{cmd.OutOrStdout(), cmd.ErrOrStderr()} {
		if t, ok := w.(*terminal.Writer); ok {
			t.Hide(values)
		}
	}
	return values
}

// console writes log lines for a person. Its colours are its own, so it writes beside the writer that would escape them, what
// others said escaped before.
func console(w io.Writer) io.Writer {
	return zerolog.ConsoleWriter{
		Out: terminal.For(w).Raw(), NoColor: !colored(w), TimeFormat: time.TimeOnly,
		FormatPrepare: func(event map[string]any) error {
			for k, v := range event {
				if s, ok := v.(string); ok {
					event[k] = terminal.Line(s)
				}
			}
			return nil
		},
	}
}
