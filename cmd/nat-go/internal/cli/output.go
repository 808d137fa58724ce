package cli

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/finetune"
	"github.com/nat-go/nat-go/internal/secret"
	"github.com/nat-go/nat-go/internal/terminal"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// newLogger logs for a person on a terminal, and as JSON elsewhere.
func newLogger(w io.Writer) zerolog.Logger {
	if terminal.Is(w) {
		w = console(w)
	}
	return zerolog.New(w).Level(zerolog.WarnLevel).With().Timestamp().Logger()
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

// progress shows how far a run is: one line that is written over on a terminal, a line each 10 s elsewhere.
type progress struct {
	mu       sync.Mutex // an upload reports from the goroutine that sends it
	w        io.Writer
	terminal bool
	last     time.Time
	shown    bool
}

const (
	terminalEvery = 100 * time.Millisecond
	lineEvery     = 10 * time.Second
)

func newProgress(w io.Writer) *progress {
	return &progress{w: w, terminal: terminal.Is(w), last: time.Now()}
}

// show shows how far a step is, if it is time to.
func (p *progress) show(s finetune.Progress) {
	p.mu.Lock()
	defer p.mu.Unlock()
	every := lineEvery
	if p.terminal {
		every = terminalEvery
	}
	if now := time.Now(); now.Sub(p.last) >= every {
		p.last = now
		p.print(s)
	}
}

func (p *progress) print(s finetune.Progress) {
	if p.terminal {
		p.shown = true
		fmt.Fprint(p.w, terminal.ClearLine()+terminal.Line(progressText(s, bar(s.Done, s.Total))))
		return
	}
	fmt.Fprintln(p.w, terminal.Line(progressText(s, "")))
}

// progressText is a line like "build  [####----]  50 %  44.0 of 88.0 MiB, 1000 examples".
func progressText(s finetune.Progress, bar string) string {
	if s.Text != "" {
		return s.Text
	}
	parts := []string{s.Step}
	if s.Total > 0 {
		if bar != "" {
			parts = append(parts, bar)
		}
		parts = append(parts, fmt.Sprintf("%3d %%", min(100, 100*s.Done/s.Total)))
	}
	if s.Unit == "" {
		return s.Step
	}
	amount := amountOf(s.Done, s.Total, s.Unit)
	if s.Detail != "" {
		amount += ", " + s.Detail
	}
	return strings.Join(append(parts, amount), "  ")
}

func amountOf(done, total int64, unit string) string {
	if unit == finetune.UnitByte {
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

const barCells = 24

func bar(done, total int64) string {
	if total <= 0 {
		return ""
	}
	full := int(min(done, total) * barCells / total)
	return "[" + strings.Repeat("#", full) + strings.Repeat("-", barCells-full) + "]"
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
