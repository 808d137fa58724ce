package cli

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/term"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/finetune"
)

// newLogger logs for a person on a terminal, and as JSON elsewhere.
func newLogger(w io.Writer) zerolog.Logger {
	if isTerminal(w) {
		w = zerolog.ConsoleWriter{Out: w, NoColor: !colored(w), TimeFormat: time.TimeOnly}
	}
	return zerolog.New(w).Level(zerolog.WarnLevel).With().Timestamp().Logger()
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// progress shows how far a run is: one line that is written over on a terminal, a line each 10 s elsewhere.
type progress struct {
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
	return &progress{w: w, terminal: isTerminal(w), last: time.Now()}
}

// show is called from one goroutine.
func (p *progress) show(s finetune.Progress) {
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
	text := fmt.Sprintf("%s: %d %s", s.Step, s.Done, s.Unit)
	if s.Total > 0 {
		text = fmt.Sprintf("%s: %d %% of %d %s", s.Step, 100*s.Done/s.Total, s.Total, s.Unit)
	}
	if s.Text != "" {
		text = s.Text
	}
	if p.terminal {
		p.shown = true
		fmt.Fprintf(p.w, "\r\x1b[K%s", text)
		return
	}
	fmt.Fprintln(p.w, text)
}

// end clears the line.
func (p *progress) end() {
	if p.shown {
		p.shown = false
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}
