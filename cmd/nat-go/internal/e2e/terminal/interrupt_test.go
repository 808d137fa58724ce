//go:build linux

package terminal

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/e2e"

	"golang.org/x/sys/unix"
)

// These tests end the program while it waits for input that never comes, with signals to the process and with what a
// person types on a terminal.

const interruptConfig = `
trajectory_builders: {b: {_type: dpo_traj_builder}}
%s
dataset: {formats: [trl]}
finetuning: {enabled: true, trajectory_builder: b, output_dir: out}
`

// stalled is a program waiting for input.
type stalled struct {
	name   string
	config string            // of finetune.yml, beside the builder
	pipes  []string          // named pipes that nobody writes to
	args   []string          // in addition to run and the configuration
	begins string            // the input's beginning
	files  map[string]string // regular ones
}

func stalledRuns() []stalled {
	in := []string{"--from", "in.json"}
	files := map[string]string{"in.json": e2e.SmallInput}
	source := func(s string) string { return "sources: {s: {" + s + "}}" }
	all := []stalled{
		{name: "input", pipes: []string{"p"}, args: []string{"--from", "p"}},
		{name: "input of a known kind", pipes: []string{"p"}, args: []string{"--from", "p", "--source", "traces"}},
		{name: "nat_config", config: source("_type: command, nat_config: p"), pipes: []string{"p"}},
		{
			name: "base of nat_config", config: source("_type: command, nat_config: n.yml"), pipes: []string{"p"},
			files: map[string]string{"n.yml": "base: p\n"},
		},
		{
			name: "questions", config: source("_type: endpoint, endpoint: 'http://127.0.0.1:9', dataset: p"),
			pipes: []string{"p"},
		},
		{
			name: "tools", config: source("_type: traces, path: in.json, tools_file: p"), pipes: []string{"p"},
			files: files,
		},
		{name: "standard input", args: []string{"--from", "/dev/stdin"}},
		{
			name: "standard input after an entry", args: []string{"--from", "/dev/stdin"},
			begins: e2e.SmallInput[:len(e2e.SmallInput)-1] + ",",
		},
		{
			name: "standard input in an entry", args: []string{"--from", "/dev/stdin", "--source", "workflow_output"},
			begins: e2e.SmallInput[:100],
		},
		{
			name: "value from a file", config: "collator: {policy: 'file://p.txt'}", pipes: []string{"p.txt"},
			args: in, files: files,
		},
	}
	if e2e.WithTokenizers() {
		all = append(
			all,
			stalled{
				name: "tokenizer", config: "collator: {tokenizer: tokenizer.json}", pipes: []string{"tokenizer.json"},
				args: in, files: files,
			},
			stalled{
				name: "template", config: "collator: {tokenizer: TOKENIZER, template: p}", pipes: []string{"p"},
				args: in, files: files,
			},
			stalled{
				name: "reference", config: "collator: {tokenizer: TOKENIZER, reference: {path: p, fingerprint: f}}",
				pipes: []string{"p"}, args: in, files: files,
			},
		)
	}
	return all
}

// TestInterruptedWhileStalled checks that SIGINT once, SIGINT twice and SIGTERM all take effect wherever the program
// waits for input.
func TestInterruptedWhileStalled(t *testing.T) {
	if testing.Short() {
		t.Skip("-short")
	}
	for _, s := range stalledRuns() {
		for _, signals := range [][]os.Signal{{os.Interrupt}, {os.Interrupt, os.Interrupt}, {syscall.SIGTERM}} {
			t.Run(fmt.Sprint(s.name, signals), func(t *testing.T) {
				t.Parallel()
				cmd, in := s.start(t)
				defer in.Close()
				var errs bytes.Buffer
				cmd.Stdout, cmd.Stderr = &errs, &errs
				e2e.Start(t, cmd)
				waits(t, cmd.Process.Pid)
				for _, signal := range signals {
					if err := cmd.Process.Signal(signal); err != nil {
						t.Error(err)
					}
				}
				want := 130
				if signals[0] == syscall.SIGTERM {
					want = 143
				}
				ends(t, cmd, want, &errs)
			})
		}
	}
}

// start prepares the program, keeping the other end of its standard input open.
func (s *stalled) start(t *testing.T) (*exec.Cmd, *os.File) {
	t.Helper()
	b := e2e.NewFolder(t)
	tokenizer, err := filepath.Abs("../../../../../examples/hints/tokenizer")
	if err != nil {
		t.Fatal(err)
	}
	b.Write(t, "finetune.yml", fmt.Sprintf(interruptConfig, strings.ReplaceAll(s.config, "TOKENIZER", tokenizer)))
	for name, text := range s.files {
		b.Write(t, name, text)
	}
	for _, name := range s.pipes {
		if err := syscall.Mkfifo(filepath.Join(b.Dir, name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := []string{"finetune", "run", "--config-file", "finetune.yml", "--run-id", "r"}
	cmd := b.Command(nil, append(run, s.args...)...)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	if _, err := io.WriteString(w, s.begins); err != nil {
		t.Fatal(err)
	}
	cmd.Stdin = r
	return cmd, w
}

// waits returns once a process is waiting: one of its threads is blocked opening a file, or what it has as standard
// input is open twice and everything in it has been read.
func waits(t *testing.T, pid int) {
	t.Helper()
	opens := fmt.Sprint(unix.SYS_OPENAT)
	for deadline, seen := time.Now().Add(2*time.Minute), 0; seen < 4; time.Sleep(25 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the process is not waiting for input")
		}
		calls, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/syscall", pid))
		opening := slices.ContainsFunc(calls, func(name string) bool {
			call, _ := os.ReadFile(name) // the thread may have gone
			return strings.HasPrefix(string(call), opens+" ")
		})
		fds, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
		in, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/0", pid))
		again := slices.ContainsFunc(fds, func(name string) bool {
			to, _ := os.Readlink(name)
			n, _ := strconv.Atoi(filepath.Base(name))
			return n > 2 && to == in
		})
		if opening || again {
			seen++
		} else {
			seen = 0
		}
	}
}

// ends waits for the program to end with the given code.
func ends(t *testing.T, cmd *exec.Cmd, want int, said *bytes.Buffer) {
	t.Helper()
	hung := time.AfterFunc(2*time.Minute, func() { _ = cmd.Process.Signal(syscall.SIGQUIT) })
	defer hung.Stop()
	_ = cmd.Wait()
	code := cmd.ProcessState.ExitCode()
	if w, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		code = 128 + int(w.Signal()) // the shell's code for a second interrupt that arrived as it was ending
	}
	if code != want || strings.Contains(said.String(), "goroutine ") {
		t.Errorf("exit %d, want %d: %s", code, want, said)
	}
}

// TestTerminal: Ctrl-C on a terminal, once and twice, while the terminal itself is the input, and while waiting for a
// trainer.
func TestTerminal(t *testing.T) {
	if testing.Short() {
		t.Skip("-short")
	}
	for _, typed := range []string{"\x03", "\x03\x03"} {
		t.Run(fmt.Sprintf("input %q", typed), func(t *testing.T) {
			t.Parallel()
			s := stalled{args: []string{"--from", "/dev/stdin"}}
			cmd, in := s.start(t)
			in.Close()
			term := terminalOf(t, cmd)
			e2e.Start(t, cmd)
			waits(t, cmd.Process.Pid)
			term.types(t, typed)
			ends(t, cmd, 130, term.said(t))
		})
		t.Run(fmt.Sprintf("trainer %q", typed), func(t *testing.T) {
			t.Parallel()
			p := e2e.NewLocal(t)
			cmd := p.Command(p.RunArgs()...)
			term := terminalOf(t, cmd)
			e2e.Start(t, cmd)
			p.Submitted(t)
			for i := range typed {
				if i > 0 {
					term.until(t, "interrupt again")
				}
				term.types(t, typed[i:i+1])
			}
			ends(t, cmd, 130, term.said(t))
			if twice := len(typed) > 1; p.Cancelled(t) != twice {
				t.Errorf("typed %q: cancelled %v", typed, !twice)
			}
		})
	}
}

// pty is a pseudo-terminal, and what has appeared on its screen.
type pty struct {
	master *os.File
	slave  *os.File // this process's end: the terminal closes once nobody has it open
	text   chan string
	all    bytes.Buffer
	done   chan struct{}
}

// terminalOf gives a command a terminal of its own.
func terminalOf(t *testing.T, cmd *exec.Cmd) *pty {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("no terminals here: %v", err)
	}
	fd := int(master.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no terminals here: %v", err)
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	p := &pty{master: master, slave: slave, text: make(chan string, 10000), done: make(chan struct{})}
	go func() {
		defer close(p.done)
		b := make([]byte, 4096)
		for {
			n, err := master.Read(b)
			if err != nil { // the last process that had it open has ended
				return
			}
			p.text <- string(b[:n])
		}
	}()
	t.Cleanup(func() { slave.Close(); <-p.done; master.Close() })
	return p
}

func (p *pty) types(t *testing.T, text string) {
	t.Helper()
	if _, err := io.WriteString(p.master, text); err != nil {
		t.Error(err)
	}
}

// until waits for a text to appear on the screen.
func (p *pty) until(t *testing.T, want string) {
	t.Helper()
	for deadline := time.After(2 * time.Minute); !strings.Contains(p.all.String(), want); {
		select {
		case text := <-p.text:
			p.all.WriteString(text)
		case <-deadline:
			t.Fatalf("no %q on the screen: %s", want, &p.all)
		}
	}
}

// said returns what is on the screen so far.
func (p *pty) said(t *testing.T) *bytes.Buffer {
	t.Helper()
	for {
		select {
		case text := <-p.text:
			p.all.WriteString(text)
		default:
			return &p.all
		}
	}
}

// TestPipeWithoutSource: what was read from a pipe to recognise its format is not lost.
func TestPipeWithoutSource(t *testing.T) {
	b := newBed(t, 20)
	hung := func(cmd *exec.Cmd) *exec.Cmd { // a program that lost what it read would wait for a second writer
		stop := time.AfterFunc(2*time.Minute, func() { _ = cmd.Process.Kill() })
		t.Cleanup(func() { stop.Stop() })
		return cmd
	}
	args := []string{"finetune", "run", "--builder", "dpo", "--format", "trl"}
	b.Must(t, b.Command(nil, append(args, "--from", "in.json", "--run-id", "r", "--output-dir", "file")...))
	want, err := os.ReadFile(filepath.Join(b.Dir, "file", "r", "dataset", "trl", "train.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(b.Dir, "in.json"))
	if err != nil {
		t.Fatal(err)
	}
	b.Dir = filepath.Join(b.Dir, "piped")
	if err := os.Mkdir(b.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	run := func(from string) *exec.Cmd {
		return b.Command(nil, append(args, "--from", from, "--run-id", filepath.Base(from), "--output-dir", "out")...)
	}
	end := e2e.Pipe(t, filepath.Join(b.Dir, "in.json"), func(w io.Writer) error { _, err := w.Write(text); return err })
	b.Must(t, hung(run("in.json")))
	end()
	cmd := run("/dev/stdin")
	cmd.Stdin = bytes.NewReader(text)
	b.Must(t, hung(cmd))
	for _, id := range []string{"in.json", "stdin"} {
		got, err := os.ReadFile(filepath.Join(b.Dir, "out", id, "dataset", "trl", "train.jsonl"))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %d bytes, want %d: %v", id, len(got), len(want), err)
		}
	}
}
