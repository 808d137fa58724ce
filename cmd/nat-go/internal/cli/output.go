package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/nat-go/nat-go/builders/finding"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage"
	"github.com/nat-go/nat-go/internal/objects"
	"github.com/nat-go/nat-go/internal/secret"
	"github.com/nat-go/nat-go/internal/terminal"
	"github.com/nat-go/nat-go/internal/terminal/columns"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// printResult prints a command's result as text or, with --json, as one JSON object.
func printResult(cmd *cobra.Command, v any, text func(io.Writer) error) error {
	if asJSON(cmd) {
		return json.NewEncoder(cmd.OutOrStdout()).Encode(v)
	}
	return text(cmd.OutOrStdout())
}

// printReport is like printResult, for the report of a check. If sound is false, it returns an error for the failed
// check.
func printReport(cmd *cobra.Command, v any, text func(io.Writer) error, sound bool) error {
	err := printResult(cmd, v, text)
	if err == nil && !sound {
		return exit.With(exit.Failed, nil)
	}
	return err
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

// hide masks the environment's credentials for object storage in all later output of the command. It returns the set
// of masked values, so that more can be added.
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

// console returns a writer that prints log lines as text. It escapes fields itself and bypasses w, which would also
// escape the colours.
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

// colored reports whether text written to w may have colours. This is so if w is a terminal, NO_COLOR isn't set
// (https://no-color.org), and TERM isn't dumb.
func colored(w io.Writer) bool {
	return terminal.Is(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// progress shows the progress of a run. On a terminal, it overwrites a single line. Elsewhere, it prints a line every
// 10 seconds.
type progress struct {
	mu    sync.Mutex // needed because an upload reports its progress from another goroutine
	w     io.Writer
	now   func() time.Time
	width func() int // current width of the terminal in columns; 0 means that w isn't a terminal
	quiet bool
	last  time.Time
	asked time.Time // when the system was last queried for the width
	shown bool
	step  string // the current step
	began time.Time
	from  int64 // amount already done when the step began, which isn't 0 in a resumed run
}

const (
	terminalEvery = 100 * time.Millisecond
	lineEvery     = 10 * time.Second
	// ratesAfter is the minimum time that a step must run before its rate and remaining time are meaningful.
	ratesAfter = time.Second
)

func newProgress(cmd *cobra.Command) *progress {
	w := cmd.ErrOrStderr()
	return &progress{
		w: w, now: time.Now, width: func() int { return terminal.Width(w) }, quiet: isQuiet(cmd), last: time.Now(),
	}
}

// show displays a step's progress, if an update is due.
func (p *progress) show(s stage.Progress) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.quiet {
		return
	}
	now := p.now()
	if s.Step != p.step || s.Done < p.from {
		p.step, p.began, p.from = s.Step, now, s.Done
	}
	if now.Sub(p.last) < terminalEvery || now.Sub(p.asked) < terminalEvery {
		return // avoid the system call that queries the terminal's width
	}
	p.asked = now
	width, every := p.width(), lineEvery
	if width > 0 {
		every = terminalEvery
	}
	if now.Sub(p.last) < every {
		return
	}
	p.last = now
	if width == 0 {
		fmt.Fprintln(p.w, terminal.Line(p.line(s, now, 0)))
		return
	}
	p.shown = true
	// Leave the last column empty, because a terminal wraps after writing it.
	fmt.Fprint(p.w, terminal.ClearLine()+columns.Fit(terminal.Line(p.line(s, now, width-1)), width-1))
}

const (
	minBar = 8
	maxBar = 24
)

// line returns a line like
//
//	build  [######------]  50 %  44.0 of 88.0 MiB  3s left  12.3 MiB/s  1000 examples, 84000 records
//
// most is the maximum width in columns. If the line is wider, parts at the end are omitted, but never the first two. If
// most is 0, the width is unlimited and the bar is omitted.
func (p *progress) line(s stage.Progress, now time.Time, most int) string {
	if s.Text != "" {
		return s.Text
	}
	if s.Unit == "" {
		return s.Step
	}
	percent := ""
	if s.Total > 0 {
		percent = fmt.Sprintf("%3d %%", min(100, 100*s.Done/s.Total))
	}
	rate, left := p.rate(s, now)
	parts := []string{s.Step, percent, amountOf(s.Done, s.Total, s.Unit), left, rate, s.Detail}
	parts = slices.DeleteFunc(parts, func(part string) bool { return part == "" })
	const gap = 2
	width := func() int { return utf8.RuneCountInString(strings.Join(parts, "  ")) }
	for most > 0 && len(parts) > 2 && width() > most {
		parts = parts[:len(parts)-1]
	}
	if room := most - width() - gap; most > 0 && s.Total > 0 && room >= minBar {
		parts[0] += "  " + bar(s.Done, s.Total, min(room, maxBar))
	}
	return strings.Join(parts, "  ")
}

// rate formats a step's speed and, if the total is known, the time left at that speed. Both are empty while the speed
// is unknown.
func (p *progress) rate(s stage.Progress, now time.Time) (rate, left string) {
	took := now.Sub(p.began)
	if took < ratesAfter || s.Done <= p.from {
		return "", ""
	}
	perSecond := float64(s.Done-p.from) / took.Seconds()
	if s.Unit == stage.UnitByte {
		rate = fmt.Sprintf("%.1f MiB/s", perSecond/(1<<20))
	} else {
		rate = fmt.Sprintf("%.0f/s", perSecond)
	}
	if s.Total > s.Done {
		left = duration(time.Duration(float64(s.Total-s.Done)/perSecond*float64(time.Second))) + " left"
	}
	return rate, left
}

// duration formats a duration, such as 7s, 3m20s or 2h05m.
func duration(d time.Duration) string {
	switch d = d.Round(time.Second); {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
}

func amountOf(done, total int64, unit string) string {
	if unit == stage.UnitByte {
		if total > 0 {
			return fmt.Sprintf("%.1f of %.1f MiB", float64(done)/(1<<20), float64(total)/(1<<20))
		}
		return fmt.Sprintf("%.1f MiB", float64(done)/(1<<20))
	}
	if total > 0 {
		return fmt.Sprintf("%d of %s", done, ledger.Quantity(total, unit))
	}
	return ledger.Quantity(done, unit)
}

func bar(done, total int64, width int) string {
	cells := width - 2
	full := int(min(done, total) * int64(cells) / total)
	return "[" + strings.Repeat("#", full) + strings.Repeat("-", cells-full) + "]"
}

// end clears the line.
func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shown {
		p.shown = false
		fmt.Fprint(p.w, terminal.ClearLine())
	}
}
