//go:build linux

package terminal

import (
	"errors"
	"flag"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/e2e"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/nat-go/nat-go/internal/terminal/columns"
)

var updateScreens = flag.Bool(
	"screens",
	false,
	"write the screens into testdata: read the difference before it is committed",
)

// screen is a command whose output is shown on a terminal.
type screen struct {
	// The name of its file; without one, only the width is checked, because its text changes with every code or
	// setting.
	name string
	wide bool     // findings and errors, which people copy, are not wrapped
	args []string // RUN stands for the run's folder
	code int
}

// screens are run in this order, in a copy of examples/hints.
func screens() []screen {
	words := strings.Fields
	all := []screen{
		{name: "run", args: words("run --config-file finetune.yml --run-id r --output-dir out")},
		{name: "run-without-config", args: words("run traces.jsonl --run-id chosen --output-dir out")},
		{name: "list", args: words("finetune list --output-dir out")},
		{name: "resume", args: words("finetune resume r --output-dir out")},
		{name: "status", args: words("finetune status r --output-dir out")},
		{name: "plan", args: words("run --config-file finetune.yml --output-dir out --plan --run-id p")},
		{name: "inspect", args: words("inspect traces.jsonl")},
		{name: "inspect-folder", args: words("inspect mixed")},
		{name: "init", args: words("init traces.jsonl --write new.yml")},
		{name: "stats", args: words("dataset stats RUN")},
		{name: "verify", args: words("dataset verify RUN"), wide: true},
		{name: "convert", args: words("dataset convert RUN --format kto")},
		{args: words("run --config-file finetune.yml --run-id again --output-dir out")},
		{name: "merge", args: words("dataset merge RUN out/again --run-id both --output-dir out")},
		{name: "show", args: words("dataset show RUN --limit 4")},
		{name: "show-dropped", args: words("dataset show RUN --dropped any --limit 4")},
		{name: "explain-one", args: words("explain no_repair")},
		{
			name: "validate",
			args: words("validate finetune.yml -o trajectory_builders.hints.target=next"),
			code: 2,
			wide: true,
		},
		{args: words("explain")},
		{args: words("formats")},
		{args: words("builders list")},
		{args: words("builders describe sdpo_traj_builder")},
		{args: words("plugins list")},
	}
	if e2e.WithTokenizers() {
		all = append(
			all,
			screen{name: "run-tokens", args: words("run --config-file finetune.yml --run-id t --output-dir out " +
				"-o collator.tokenizer=tokenizer")},
			screen{name: "show-site", args: words("dataset show out/t --site 4")},
			screen{name: "show-tokens", args: words("dataset show out/t --tokens 1")},
			screen{name: "mask", args: words("chat mask --tokenizer tokenizer --input one.jsonl")},
			screen{
				name: "mask-refused",
				args: words("chat mask --tokenizer tokenizer --input bad.jsonl"),
				code: 1,
				wide: true,
			},
		)
	}
	return all
}

// TestScreens: what commands print on terminals of 80 and 200 columns fits them, and matches testdata/screens.
func TestScreens(t *testing.T) {
	for _, width := range []int{80, 200} {
		t.Run(strconv.Itoa(width), func(t *testing.T) {
			b := &bed{e2e.NewFolder(t)}
			b.Env = append(os.Environ(), "TERM=xterm", "NO_COLOR=")
			if err := os.CopyFS(b.Dir, os.DirFS("../../../../../examples/hints")); err != nil {
				t.Fatal(err)
			}
			traces, err := os.ReadFile(filepath.Join(b.Dir, "traces.jsonl"))
			if err != nil {
				t.Fatal(err)
			}
			first, _, _ := strings.Cut(string(traces), "\n")
			b.Write(t, "one.jsonl", first+"\n")
			b.Write(t, "bad.jsonl", `{"messages": 7}`+"\n")
			b.Write(t, "mixed/talk.jsonl", first+"\n")
			b.Write(t, "mixed/empty.jsonl", "")
			b.Write(t, "mixed/notes.json", `{"a": {}}`)
			for _, s := range screens() {
				args := strings.Split(strings.ReplaceAll(strings.Join(s.args, "\x00"), "RUN", "out/r"), "\x00")
				got := b.onScreen(t, width, s, args...)
				if s.name != "" {
					compareScreen(t, filepath.Join("testdata", "screens", strconv.Itoa(width), s.name+".txt"), got)
				}
			}
		})
	}
}

// TestProgressOnScreen: a long run that is killed, and its resume, show their progress within the terminal's width.
func TestProgressOnScreen(t *testing.T) {
	for _, width := range []int{80, 200} {
		t.Run(strconv.Itoa(width), func(t *testing.T) {
			b := newBed(t, 6000)
			cmd := b.Command(
				[]string{"TERM=xterm"},
				"finetune",
				"run",
				"--config-file",
				"finetune.yml",
				"--run-id",
				"r",
			)
			term := terminalOf(t, cmd)
			term.resize(t, width)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			term.until(t, " of ") // 12.0 of 88.0 MiB
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait()
			fits(t, width, term.rest())
			resumed := b.Resume("out")
			resumed.Env = append(resumed.Env, "TERM=xterm")
			term = terminalOf(t, resumed)
			term.resize(t, width)
			if err := resumed.Run(); err != nil {
				t.Fatalf("%v: %s", err, term.rest())
			}
			all := term.rest()
			fits(t, width, all)
			if !strings.Contains(all, " of ") || !strings.Contains(all, "completed") {
				t.Errorf("no progress, or no end: %q", all)
			}
		})
	}
}

// onScreen runs a command on a terminal and returns what is shown at the end.
func (b *bed) onScreen(t *testing.T, width int, s screen, args ...string) string {
	t.Helper()
	cmd := b.Command(nil, args...)
	term := terminalOf(t, cmd)
	term.resize(t, width)
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	all := term.rest()
	if got := cmd.ProcessState.ExitCode(); got != s.code {
		t.Errorf("%v: exit %d, want %d: %s", args, got, s.code, all)
	}
	if !s.wide {
		fits(t, width, all)
	}
	return shown(all)
}

var styles = regexp.MustCompile(`\x1b\[[0-9;]*m`)

// fits checks every line that was written, including those that were overwritten.
func fits(t *testing.T, width int, all string) {
	t.Helper()
	for _, line := range strings.FieldsFunc(styles.ReplaceAllString(all, ""), func(r rune) bool {
		return r == '\r' || r == '\n'
	}) {
		if line = strings.TrimPrefix(line, "\x1b[K"); columns.Width(line) > width {
			t.Errorf("%d columns on a terminal of %d: %q", columns.Width(line), width, line)
		}
	}
}

var (
	moments = regexp.MustCompile(`\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d)?Z`)
	jobIDs  = regexp.MustCompile(`\b(r|t|chosen)-[0-9a-f]{8}\b`)
)

// shown returns what is left on the screen, without anything that differs from run to run.
func shown(all string) string {
	var out []string
	for line := range strings.SplitSeq(strings.ReplaceAll(styles.ReplaceAllString(all, ""), "\r\n", "\n"), "\n") {
		out = append(out, line[strings.LastIndex(line, "\r\x1b[K")+1:])
	}
	text := strings.ReplaceAll(strings.Join(out, "\n"), "\x1b[K", "")
	return jobIDs.ReplaceAllString(moments.ReplaceAllString(text, "2026-01-02 03:04Z"), "$1-01234567")
}

func compareScreen(t *testing.T, path, got string) {
	t.Helper()
	if *updateScreens {
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755),
			os.WriteFile(path, []byte(got), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s is not there: go test -tags tokenizers ./cmd/nat-go/internal/e2e/terminal -run TestScreens -screens writes it", path)
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s (-screens writes it anew) -want +got:\n%s", path, d)
	}
}

// resize gives the terminal this many columns.
func (p *pty) resize(t *testing.T, width int) {
	t.Helper()
	size := unix.Winsize{Row: 40, Col: uint16(width)} //nolint:gosec // 80 or 200
	if err := unix.IoctlSetWinsize(int(p.master.Fd()), syscall.TIOCSWINSZ, &size); err != nil {
		t.Fatal(err)
	}
}

// rest returns everything that was on the screen, once the command has ended.
func (p *pty) rest() string {
	p.slave.Close()
	<-p.done
	for {
		select {
		case text := <-p.text:
			p.all.WriteString(text)
		default:
			return p.all.String()
		}
	}
}
