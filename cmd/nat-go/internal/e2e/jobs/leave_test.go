package jobs

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/e2e"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/trainers/customizer/customizertest"
)

// These tests leave jobs running: with real signals to the program itself, from copies of run folders, and by killing
// the program while it starts a local trainer.

// newRemote returns a place whose service runs the job until it is released.
func newRemote(t *testing.T) *place {
	t.Helper()
	s := &customizertest.Service{States: []string{"running"}}
	p := newProject(t, s, "")
	var done atomic.Bool
	s.Fault = func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
		if done.Load() && strings.HasSuffix(r.URL.Path, "/status") {
			_, _ = io.WriteString(w, `{"status": "completed", "percentage_done": 100}`)
			return true
		}
		return false
	}
	return &place{&e2e.Place{
		Project: p.Project, Release: func() { done.Store(true) },
		Cancelled: func(*testing.T) bool {
			for _, r := range s.Requests() {
				if strings.HasSuffix(r.Path, "/cancel") {
					return true
				}
			}
			return false
		},
		Jobs: func(*testing.T) int { return s.JobCount() },
	}}
}

// session is the running program, with its standard error read line by line.
type session struct {
	cmd   *exec.Cmd
	lines chan string
	all   strings.Builder
}

func (p *place) start(t *testing.T, args ...string) *session {
	t.Helper()
	s := &session{cmd: p.Command(args...), lines: make(chan string, 10000)}
	errs, err := s.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(s.lines)
		for r := bufio.NewScanner(errs); r.Scan(); {
			s.lines <- r.Text()
		}
	}()
	return s
}

// until reads on until a line contains a text, or returns false if the program ended first.
func (s *session) until(text string) bool {
	for line := range s.lines {
		s.all.WriteString(line + "\n")
		if strings.Contains(line, text) {
			return true
		}
	}
	return false
}

// end returns the exit code once the program has ended.
func (s *session) end() int {
	s.until("\x00")
	_ = s.cmd.Wait()
	return s.cmd.ProcessState.ExitCode()
}

// TestSignals: one SIGINT leaves the job running and says how to come back to it, two cancel it, and SIGTERM leaves at
// once; this holds while a run, a resumed run or `finetune wait` waits.
func TestSignals(t *testing.T) {
	for name, open := range map[string]func(*testing.T) *place{"local": newLocal, "service": newRemote} {
		for _, command := range []string{"run", "wait", "resume"} {
			for _, signals := range [][]syscall.Signal{
				{syscall.SIGINT},
				{syscall.SIGINT, syscall.SIGINT},
				{syscall.SIGTERM},
			} {
				if command == "resume" && len(signals) == 1 {
					continue // as a run
				}
				t.Run(fmt.Sprintf("%s/%s/%v", name, command, signals), func(t *testing.T) {
					t.Parallel()
					p := open(t)
					args := p.RunArgs()
					if command != "run" {
						p.NatGo(t, 0, p.RunArgs("--detach")...)
						args = []string{"finetune", command, "out/r1"}
					}
					p.leave(t, args, signals)
				})
			}
		}
	}
}

func (p *place) leave(t *testing.T, args []string, signals []syscall.Signal) {
	t.Helper()
	s := p.start(t, args...)
	p.Submitted(t)
	if args[1] != "run" { // signals are handled once it has asked for the status
		p.When(t, func() bool { return len(p.asked(t)) > 0 })
	}
	for i, signal := range signals {
		if i == 1 && !s.until("interrupt again") {
			t.Fatalf("a second interrupt is not offered:\n%s", s.all.String())
		}
		if err := s.cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
	}
	want := 130
	if signals[0] == syscall.SIGTERM {
		want = 143
	}
	code := s.end()
	text := s.all.String()
	if code != want || strings.Contains(text, e2e.Canary) {
		t.Fatalf("exit %d, want %d:\n%s", code, want, text)
	}
	if len(signals) == 2 {
		if !strings.Contains(text, "is being cancelled") || !p.Cancelled(t) {
			t.Errorf("the job was not cancelled:\n%s", text)
		}
		return
	}
	if !strings.Contains(text, "finetune wait out/r1") || !strings.Contains(text, "finetune cancel out/r1") ||
		p.Cancelled(t) {
		t.Errorf("the job was cancelled, or how to come back is missing:\n%s", text)
	}
	p.Release()
	p.NatGo(t, 0, "finetune", "wait", "out/r1")
	if n := p.Jobs(t); n != 1 {
		t.Errorf("%d jobs were made", n)
	}
}

// asked returns a sign that a command has begun to wait: it wrote the journal, or the service was asked.
func (p *place) asked(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(p.Dir, "out", "r1", "job.json"))
	if err != nil {
		return ""
	}
	if strings.Contains(string(b), `"status": "running"`) {
		return "running"
	}
	return ""
}

// TestLocalTrainerKilledAnywhere: kill -9 of nat-go at each step of starting a local trainer; `finetune resume` ends
// with exactly one started trainer, never two, never none.
func TestLocalTrainerKilledAnywhere(t *testing.T) {
	exists := func(name ...string) func(p *place) bool {
		return func(p *place) bool {
			_, err := os.Stat(filepath.Join(append([]string{p.Dir, "out", "r1"}, name...)...))
			return err == nil
		}
	}
	for name, at := range map[string]func(p *place) bool{
		"data set complete": exists("manifest.json"),
		"intent":            func(p *place) bool { return p.Journal().Phase != "" }, // it lasts only a moment
		"folder":            exists("trainer"),
		"submission":        exists("trainer", "submission.json"),
		"process group":     exists("trainer", "pid"),
		"program": func(p *place) bool {
			_, err := os.Stat(filepath.Join(p.Dir, "starts"))
			return err == nil
		},
		"reference": func(p *place) bool { return p.Journal().Job != nil },
		"polling":   func(p *place) bool { return strings.Contains(string(p.Journal().Job), "host") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newLocal(t)
			s := p.start(t, p.RunArgs()...)
			p.When(t, func() bool { return at(p) })
			if err := s.cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			if code := s.end(); code != -1 {
				t.Fatalf("the program was not killed: exit %d\n%s", code, s.all.String())
			}
			p.Release()
			p.NatGo(t, 0, "finetune", "resume", "out/r1")
			if n := p.Jobs(t); n != 1 {
				t.Errorf("the trainer was started %d times", n)
			}
		})
	}
}

// TestTrainerAndAllKilled kills nat-go, the shell that starts the trainer and the trainer at once with kill -9, as by a
// power cut, at each step of the shell. What status and resume say is true, and a trainer that may have begun is not
// started a second time.
func TestTrainerAndAllKilled(t *testing.T) {
	const all = `kill -9 $(cut -d" " -f4 /proc/$shell/stat) $shell`
	noted := `until grep -q '"phase": "training"' ../job.json; do /bin/sleep 0.01; done; `
	// The mv that the shell runs: it records the process group and, in the end, the exit status.
	mv := func(name, before, after string) string {
		return `[ "$2" = ` + name + ` ] && [ ! -e "$KILLED" ] && { : > "$KILLED"; shell=$PPID; ` + before + after + `; exit 1; }`
	}
	for _, c := range []struct {
		name, mv, command string
		status            string // what status says; empty: there is no job yet
		never             bool   // the trainer never began, so resume starts it
		starts            int    // how often the trainer was started in the end
	}{
		{
			name:   "before the process group is noted",
			mv:     mv("pid", noted, all),
			status: "killed before it began",
			never:  true,
			starts: 1,
		},
		{name: "after the process group is noted", mv: mv("pid", noted, `/bin/mv "$@"; `+all), status: "killed before it began", never: true, starts: 1},
		{
			name: "at its first instruction", status: "killed as it began",
			command: `[ -e "$1/release" ] || { : > "$1/killed"; until grep -q '"phase": "training"' "$1/out/r1/job.json"; do /bin/sleep 0.01; done; ` +
				`shell=$PPID; ` + all + `; kill -9 $$; }; `,
		},
		{
			name:   "before its exit status is noted",
			mv:     mv("exit", noted, all),
			status: "or it ended and the shell",
			starts: 1,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := os.Stat("/proc/self/stat"); err != nil {
				t.Skip("SKIPPED: no /proc, where the processes are found")
			}
			p := newLocal(t)
			config := filepath.Join(p.Dir, "finetune.yml")
			text, err := os.ReadFile(config)
			if err != nil {
				t.Fatal(err)
			}
			changed := strings.Replace(string(text), "-c, '", "-c, '"+strings.ReplaceAll(c.command, "'", "''"), 1)
			changed = strings.Replace(changed, "poll_interval", "env: [KILLED]\n    poll_interval", 1)
			if err := os.WriteFile(config, []byte(changed), 0o600); err != nil {
				t.Fatal(err)
			}
			bin := t.TempDir()
			if err := os.WriteFile(filepath.Join(bin, "mv"), []byte("#!/bin/sh\n"+c.mv+"\nexec /bin/mv \"$@\"\n"),
				0o700); err != nil {
				t.Fatal(err)
			}
			t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
			t.Setenv("KILLED", filepath.Join(p.Dir, "killed"))
			if c.starts > 0 {
				p.Release() // the trainer ends when it is started
			}
			s := p.start(t, p.RunArgs()...)
			if code := s.end(); code != -1 {
				t.Fatalf("the program was not killed: exit %d\n%s", code, s.all.String())
			}
			said := e2e.Finish(t, p.Command("finetune", "status", "out/r1"))
			// Killed processes take a moment to disappear.
			for end := time.Now().Add(time.Minute); strings.Contains(said.Stdout, "the trainer is running") &&
				time.Now().Before(end); {
				time.Sleep(50 * time.Millisecond)
				said = e2e.Finish(t, p.Command("finetune", "status", "out/r1"))
			}
			if text := said.Stdout + said.Stderr; !strings.Contains(text, c.status) ||
				strings.Contains(text, "left no exit status") {
				t.Errorf("status doesn't say %q: %s", c.status, text)
			}
			p.Release()
			again := e2e.Finish(t, p.Command("finetune", "resume", "out/r1"))
			if c.never != (again.Code == 0) {
				t.Errorf("resume: exit %d: %s", again.Code, again.Stderr)
			}
			if n := p.Jobs(t); n != c.starts {
				t.Errorf("the trainer was started %d times, want %d", n, c.starts)
			}
			if c.starts > 0 {
				return
			}
			if err := os.Remove(filepath.Join(p.Dir, "out", "r1", "job.json")); err != nil { // as status says
				t.Fatal(err)
			}
			p.NatGo(t, 0, "finetune", "resume", "out/r1")
			if n := p.Jobs(t); n != 1 {
				t.Errorf("the trainer was started %d times", n)
			}
		})
	}
}

// TestCopiedFolder: for a service, a copy of a run folder, as on another machine, is enough; for a local trainer,
// nat-go says that it can't be seen from there, and starts no second one.
func TestCopiedFolder(t *testing.T) {
	copied := func(t *testing.T, p *place) string {
		t.Helper()
		to := filepath.Join(t.TempDir(), "elsewhere")
		if err := os.CopyFS(to, os.DirFS(filepath.Join(p.Dir, "out", "r1"))); err != nil {
			t.Fatal(err)
		}
		return to
	}
	t.Run("service", func(t *testing.T) {
		t.Parallel()
		p := newRemote(t)
		p.NatGo(t, 0, p.RunArgs("--detach")...)
		to := copied(t, p)
		if err := os.RemoveAll(filepath.Join(p.Dir, "out")); err != nil {
			t.Fatal(err)
		}
		cmd := p.Command("finetune", "status", to)
		cmd.Env = withoutVariable(cmd.Env, "TEST_HF_TOKEN")
		if r := e2e.Finish(t, cmd); r.Code == 0 || !strings.Contains(r.Stderr, "TEST_HF_TOKEN") {
			t.Errorf("without its secret: exit %d: %s", r.Code, r.Stderr)
		}
		p.NatGo(t, 0, "finetune", "status", to)
		if r := p.NatGo(t, 0, "finetune", "list", "--output-dir", filepath.Dir(to)); !strings.Contains(r.Stdout,
			"running") {
			t.Error(r.Stdout)
		}
		p.Release()
		p.NatGo(t, 0, "finetune", "resume", to)
		p.NatGo(t, 0, "finetune", "wait", to)
		if n := p.Jobs(t); n != 1 {
			t.Errorf("%d jobs were made", n)
		}
	})
	t.Run("local", func(t *testing.T) {
		t.Parallel()
		p := newLocal(t)
		p.NatGo(t, 0, p.RunArgs("--detach")...)
		p.When(t, func() bool { return p.Jobs(t) > 0 })
		to := copied(t, p)
		for _, command := range []string{"status", "wait", "cancel", "resume"} {
			if r := p.NatGo(t, 3, "finetune", command, to); !strings.Contains(r.Stderr, "copy of its folder") {
				t.Errorf("%s: %s", command, r.Stderr)
			}
		}
		p.Release()
		p.NatGo(t, 0, "finetune", "wait", "out/r1")
		if n := p.Jobs(t); n != 1 {
			t.Errorf("the trainer was started %d times", n)
		}
		p.NatGo(t, 3, "finetune", "status", to) // it has ended, but the copy can't tell
		if r := p.NatGo(t, 0, "finetune", "status", copied(t, p)); !strings.Contains(r.Stdout, "completed") {
			t.Error(r.Stdout)
		}
	})
}

func withoutVariable(env []string, name string) (out []string) {
	for _, v := range env {
		if !strings.HasPrefix(v, name+"=") {
			out = append(out, v)
		}
	}
	return out
}
