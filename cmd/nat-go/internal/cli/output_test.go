package cli

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage"
	"github.com/nat-go/nat-go/internal/terminal"
	"github.com/nat-go/nat-go/internal/terminal/columns"
)

// progressAt returns a progress on a terminal with the given number of columns and a settable clock.
func progressAt(wide int, now *time.Time) (*progress, *bytes.Buffer) {
	var out bytes.Buffer
	return &progress{
		w: terminal.NewWriter(&out), width: func() int { return wide }, now: func() time.Time { return *now },
	}, &out
}

func TestProgress(t *testing.T) {
	build := stage.Progress{
		Step:   "build",
		Done:   44 << 20,
		Total:  88 << 20,
		Unit:   stage.UnitByte,
		Detail: "1000 examples, 84000 records",
	}
	begun := build
	pipe := stage.Progress{Step: "build", Done: 39 << 20, Unit: stage.UnitByte}
	some := stage.Progress{Step: "write", Done: 10, Total: 40, Unit: "record"}
	long := stage.Progress{Text: strings.Repeat("word ", 20)}
	const half = "\r\x1b[Kbuild  [###########-----------]   50 %  44.0 of 88.0 MiB  20s left  2.2 MiB/s"
	begun.Done = 33 << 20 // a resumed run had done this much before
	for _, c := range []struct {
		name    string
		p       stage.Progress
		columns int
		want    string
	}{
		{"a file", build, 0, "build   50 %  44.0 of 88.0 MiB  20s left  2.2 MiB/s  1000 examples, 84000 records\n"},
		{"a narrow terminal", build, 42, "\r\x1b[Kbuild   50 %  44.0 of 88.0 MiB  20s left"},
		{"80 columns", build, 80, half},
		{"200 columns", build, 200, half + "  1000 examples, 84000 records"},
		{"a pipe", pipe, 80, "\r\x1b[Kbuild  39.0 MiB  1.2 MiB/s"},
		{"records", some, 0, "write   25 %  10 of 40 records\n"},
		{"a wait", stage.Progress{Step: "wait for the trainer"}, 0, "wait for the trainer\n"},
		{"words", stage.Progress{Text: "training: running"}, 0, "training: running\n"},
		{"words that are too long", long, 20, "\r\x1b[Kword word word wor…"},
	} {
		t.Run(c.name, func(t *testing.T) {
			now := time.Unix(1000, 0)
			p, out := progressAt(c.columns, &now)
			p.last = now
			p.show(begun) // too soon for a line
			p.last, now = time.Time{}, now.Add(5*time.Second)
			p.show(c.p)
			p.show(c.p) // too soon
			if got := out.String(); got != c.want {
				t.Errorf("%s: got %q, want %q", c.name, got, c.want)
			}
			if c.columns > 0 && columns.Width(strings.TrimPrefix(out.String(), "\r\x1b[K")) >= c.columns {
				t.Errorf("%s: %q does not fit %d columns", c.name, out.String(), c.columns)
			}
		})
	}
}

func TestProgressIsRare(t *testing.T) {
	now := time.Unix(1000, 0)
	p, out := progressAt(0, &now)
	p.last = now
	step := stage.Progress{Step: "build", Unit: stage.UnitByte}
	p.show(step)
	if out.Len() > 0 {
		t.Errorf("a run that just began says %q", out.String())
	}
	now = now.Add(lineEvery)
	p.show(step)
	if out.Len() == 0 {
		t.Error("nothing is said after 10 s")
	}
	out.Reset()
	p.quiet, now = true, now.Add(lineEvery)
	if p.show(step); out.Len() > 0 {
		t.Errorf("--quiet, and it says %q", out.String())
	}
}

func TestDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 59 * time.Second: "59s", time.Minute: "1m00s", 200 * time.Second: "3m20s", 125 * time.Minute: "2h05m",
	} {
		if got := duration(d); got != want {
			t.Errorf("%v: got %s, want %s", d, got, want)
		}
	}
}

// TestReaderThatLeaves checks that a command doesn't fail if the reader of its output leaves early.
func TestReaderThatLeaves(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	defer w.Close()
	for _, args := range [][]string{{"formats"}, {"version"}, {"explain", "--json"}} {
		var stderr strings.Builder
		code := Program{}.Main(args, strings.NewReader(""), w, &stderr)
		if code != exit.OK || stderr.String() != "" {
			t.Errorf("%v: exit %d: %s", args, code, stderr.String())
		}
	}
}

// TestFullOutputIsReported checks that a command whose output can't be written says so once, with the exit code for the
// environment.
func TestFullOutputIsReported(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("no /dev/full")
	}
	defer full.Close()
	for _, args := range [][]string{{"formats"}, {"version"}, {"explain", "--json"}} {
		var stderr strings.Builder
		code := Program{}.Main(args, strings.NewReader(""), full, &stderr)
		if code != exit.Environment || strings.Count(stderr.String(), "some of the output was not written") != 1 {
			t.Errorf("%v: exit %d: %s", args, code, stderr.String())
		}
	}
}
