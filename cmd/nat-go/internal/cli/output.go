package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/nat-go/nat-go/builders/finding"
	"github.com/nat-go/nat-go/internal/objects"
	"github.com/nat-go/nat-go/internal/secret"
	"github.com/nat-go/nat-go/internal/terminal"
)

// printResult prints a command's result as text or, with --json, as one JSON object.
func printResult(cmd *cobra.Command, v any, text func(io.Writer) error) error {
	if asJSON(cmd) {
		return json.NewEncoder(cmd.OutOrStdout()).Encode(v)
	}
	return text(cmd.OutOrStdout())
}

// printLine is like printResult, for a line of text.
func printLine(cmd *cobra.Command, v any, line string, args ...any) error {
	return printResult(cmd, v, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, line+"\n", args...)
		return err
	})
}

// printText is like printResult, for text that is fitted to the terminal's width.
func printText(cmd *cobra.Command, v any, text func(width int) string) error {
	return printResult(cmd, v, func(w io.Writer) error {
		_, err := io.WriteString(w, text(terminal.Width(w)))
		return err
	})
}

// newLogger returns a logger that writes text to a terminal, and JSON to anything else.
func newLogger(cmd *cobra.Command) zerolog.Logger {
	w, level := cmd.ErrOrStderr(), zerolog.WarnLevel
	if terminal.Is(w) {
		w = console(w)
	}
	if verbose, _ := cmd.Flags().GetBool("verbose"); verbose {
		level = zerolog.DebugLevel
	} else if isQuiet(cmd) {
		level = zerolog.ErrorLevel
	}
	return zerolog.New(w).Level(level).With().Timestamp().Logger()
}

// hide masks the environment's credentials for object storage in everything that the command prints from then on. It
// returns the set of masked values, so that more can be added.
func hide(cmd *cobra.Command) *secret.Values {
	values := secret.NewValues(objects.Secrets(os.Getenv)...)
	for _, w := range []io.Writer{cmd.OutOrStdout(), cmd.ErrOrStderr()} {
		if t, ok := w.(*terminal.Writer); ok {
			t.Hide(values)
		}
	}
	return values
}

// stackField is the log field in which package host puts a plugin's traceback.
const stackField = "stack"

// console returns a writer that prints log lines as text. It escapes the fields itself and bypasses the escaping writer
// w, which would also escape the colours.
func console(w io.Writer) io.Writer {
	return zerolog.ConsoleWriter{
		Out: terminal.For(w).Raw(), NoColor: !colored(w), TimeFormat: time.TimeOnly,
		FieldsExclude: []string{stackField},
		FormatExtra: func(event map[string]any, out *bytes.Buffer) error { // prints a traceback below its log line
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

func asJSON(cmd *cobra.Command) bool {
	on, _ := cmd.Flags().GetBool("json")
	return on
}

func isQuiet(cmd *cobra.Command) bool {
	quiet, _ := cmd.Flags().GetBool("quiet")
	return quiet
}

// findingsPrinter returns a function that prints findings to standard error. With --quiet, it prints only errors.
func findingsPrinter(cmd *cobra.Command) func([]finding.Finding) {
	stderr, quiet := cmd.ErrOrStderr(), isQuiet(cmd)
	return func(fs []finding.Finding) {
		if quiet {
			isMinor := func(f finding.Finding) bool { return f.Severity != finding.Error }
			fs = slices.DeleteFunc(slices.Clone(fs), isMinor)
		}
		_ = finding.Text(stderr, fs, colored(stderr))
	}
}

// colored reports whether text written to w may have colours. It may if w is a terminal, NO_COLOR isn't set
// (https://no-color.org), and TERM isn't dumb.
func colored(w io.Writer) bool {
	return terminal.Is(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}
