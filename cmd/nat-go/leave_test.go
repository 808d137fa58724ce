package main

import (
	"bufio"
	"encoding/json"
	"errors"
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

	"github.com/nat-go/nat-go/cmd/nat-go/internal/trainers/customizer/customizertest"
)

// These tests leave jobs running: with real signals to the program itself, from copies of run folders, and by killing
// the program while it starts a local trainer.

// place is where a test's job runs: on a service on loopback, or as a local program.
type place struct {
	*project
	release   func()                     // lets the job finish
	cancelled func(t *testing.T) bool    // whether the job was asked to end
	jobs      func(t *testing.T) (n int) // jobs that were created
}

// newLocal returns a place whose trainer records that it was started, and runs until it is released.
func newLocal(t *testing.T) *place {
	t.Helper()
	if testing.Short() {
		t.Skip("-short")
	}
	input, err := filepath.Abs(filepath.Join("..", "..", "examples", "demo", "workflow_output.json"))
	if err != nil {
		t.Fatal(err)
	}
	p := &project{dir: t.TempDir(), input: input, exe: program(t)}
	release := filepath.Join(p.dir, "release")
	config := fmt.Sprintf(`
trajectory_builders: {b: {_type: dpo_traj_builder}}
trainers: {t: {_type: nemo_customizer_trainer}}
trainer_adapters:
  a:
    _type: exec_trainer_adapter
    command: [/bin/sh, -c, 'echo started >> "$1/starts"; echo "step=1 total_steps=2 loss=0.5"; while [ -d "$1" ] && [ ! -e "$1/release" ]; do sleep 0.02; done; echo "step=2"', sh, %q]
    poll_interval: 20ms
    stop_timeout: 30s
finetuning: {enabled: true, trainer: t, trajectory_builder: b, trainer_adapter: a, output_dir: out}
`, p.dir)
	if err := os.WriteFile(filepath.Join(p.dir, "finetune.yml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.WriteFile(release, nil, 0o600) })
	return &place{
		project: p,
		release: func() {
			if err := os.WriteFile(release, nil, 0o600); err != nil {
				t.Error(err)
			}
		},
		cancelled: func(t *testing.T) bool {
			return strings.Contains(p.natgo(t, 0, "finetune", "status", "out/r1").stdout, "canceled")
		},
		jobs: func(t *testing.T) int {
			b, err := os.ReadFile(filepath.Join(p.dir, "starts"))
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Error(err)
			}
			return strings.Count(string(b), "started")
		},
	}
}

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
	return &place{
		project: p, release: func() { done.Store(true) },
		cancelled: func(*testing.T) bool {
			for _, r := range s.Requests() {
				if strings.HasSuffix(r.Path, "/cancel") {
					return true
				}
			}
			return false
		},
		jobs: func(*testing.T) int { return s.JobCount() },
	}
}

// session is the running program, with its standard error read line by line.
type session struct {
	cmd   *exec.Cmd
	lines chan string
	all   strings.Builder
}

func (p *place) start(t *testing.T, args ...string) *session {
	t.Helper()
	s := &session{cmd: p.command(args...), lines: make(chan string, 10000)}
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

// submitted waits until the run folder shows that there is a job.
func (p *place) submitted(t *testing.T) {
	t.Helper()
	p.when(t, func() bool { return p.journal().Phase == "training" })
}

// when waits for something; go test enforces the limit.
func (p *place) when(t *testing.T, is func() bool) {
	t.Helper()
	for !is() {
		time.Sleep(time.Millisecond)
	}
}

type journal struct {
	Phase string          `json:"phase"`
	Job   json.RawMessage `json:"job"`
}

func (p *place) journal() (j journal) {
	if b, err := os.ReadFile(filepath.Join(p.dir, "out", "r1", "job.json")); err == nil {
		_ = json.Unmarshal(b, &j)
	}
	return j
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
					args := p.runArgs()
					if command != "run" {
						p.natgo(t, 0, p.runArgs("--detach")...)
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
	p.submitted(t)
	if args[1] != "run" { // signals are handled once it has asked for the status
		p.when(t, func() bool { return len(p.asked(t)) > 0 })
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
	if code != want || strings.Contains(text, canary) {
		t.Fatalf("exit %d, want %d:\n%s", code, want, text)
	}
	if len(signals) == 2 {
		if !strings.Contains(text, "is being cancelled") || !p.cancelled(t) {
			t.Errorf("the job was not cancelled:\n%s", text)
		}
		return
	}
	if !strings.Contains(text, "finetune wait out/r1") || !strings.Contains(text, "finetune cancel out/r1") ||
		p.cancelled(t) {
		t.Errorf("the job was cancelled, or how to come back is missing:\n%s", text)
	}
	p.release()
	p.natgo(t, 0, "finetune", "wait", "out/r1")
	if n := p.jobs(t); n != 1 {
		t.Errorf("%d jobs were made", n)
	}
}

// asked returns a sign that a command has begun to wait: it wrote the journal, or the service was asked.
func (p *place) asked(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(p.dir, "out", "r1", "job.json"))
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
			_, err := os.Stat(filepath.Join(append([]string{p.dir, "out", "r1"}, name...)...))
			return err == nil
		}
	}
	for name, at := range map[string]func(p *place) bool{
		"data set complete": exists("manifest.json"),
		"intent":            func(p *place) bool { return p.journal().Phase != "" }, // it lasts only a moment
		"folder":            exists("trainer"),
		"submission":        exists("trainer", "submission.json"),
		"process group":     exists("trainer", "pid"),
		"program": func(p *place) bool {
			_, err := os.Stat(filepath.Join(p.dir, "starts"))
			return err == nil
		},
		"reference": func(p *place) bool { return p.journal().Job != nil },
		"polling":   func(p *place) bool { return strings.Contains(string(p.journal().Job), "host") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newLocal(t)
			s := p.start(t, p.runArgs()...)
			p.when(t, func() bool { return at(p) })
			if err := s.cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			if code := s.end(); code != -1 {
				t.Fatalf("the program was not killed: exit %d\n%s", code, s.all.String())
			}
			p.release()
			p.natgo(t, 0, "finetune", "resume", "out/r1")
			if n := p.jobs(t); n != 1 {
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
			config := filepath.Join(p.dir, "finetune.yml")
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
			t.Setenv("KILLED", filepath.Join(p.dir, "killed"))
			if c.starts > 0 {
				p.release() // the trainer ends when it is started
			}
			s := p.start(t, p.runArgs()...)
			if code := s.end(); code != -1 {
				t.Fatalf("the program was not killed: exit %d\n%s", code, s.all.String())
			}
			said := finish(t, p.command("finetune", "status", "out/r1"))
			// Killed processes take a moment to disappear.
			for end := time.Now().Add(time.Minute); strings.Contains(said.stdout, "the trainer is running") &&
				time.Now().Before(end); {
				time.Sleep(50 * time.Millisecond)
				said = finish(t, p.command("finetune", "status", "out/r1"))
			}
			if text := said.stdout + said.stderr; !strings.Contains(text, c.status) ||
				strings.Contains(text, "left no exit status") {
				t.Errorf("status doesn't say %q: %s", c.status, text)
			}
			p.release()
			again := finish(t, p.command("finetune", "resume", "out/r1"))
			if c.never != (again.code == 0) {
				t.Errorf("resume: exit %d: %s", again.code, again.stderr)
			}
			if n := p.jobs(t); n != c.starts {
				t.Errorf("the trainer was started %d times, want %d", n, c.starts)
			}
			if c.starts > 0 {
				return
			}
			if err := os.Remove(filepath.Join(p.dir, "out", "r1", "job.json")); err != nil { // as status says
				t.Fatal(err)
			}
			p.natgo(t, 0, "finetune", "resume", "out/r1")
			if n := p.jobs(t); n != 1 {
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
		if err := os.CopyFS(to, os.DirFS(filepath.Join(p.dir, "out", "r1"))); err != nil {
			t.Fatal(err)
		}
		return to
	}
	t.Run("service", func(t *testing.T) {
		t.Parallel()
		p := newRemote(t)
		p.natgo(t, 0, p.runArgs("--detach")...)
		to := copied(t, p)
		if err := os.RemoveAll(filepath.Join(p.dir, "out")); err != nil {
			t.Fatal(err)
		}
		cmd := p.command("finetune", "status", to)
		cmd.Env = withoutVariable(cmd.Env, "TEST_HF_TOKEN")
		if r := finish(t, cmd); r.code == 0 || !strings.Contains(r.stderr, "TEST_HF_TOKEN") {
			t.Errorf("without its secret: exit %d: %s", r.code, r.stderr)
		}
		p.natgo(t, 0, "finetune", "status", to)
		if r := p.natgo(t, 0, "finetune", "list", "--output-dir", filepath.Dir(to)); !strings.Contains(r.stdout,
			"running") {
			t.Error(r.stdout)
		}
		p.release()
		p.natgo(t, 0, "finetune", "resume", to)
		p.natgo(t, 0, "finetune", "wait", to)
		if n := p.jobs(t); n != 1 {
			t.Errorf("%d jobs were made", n)
		}
	})
	t.Run("local", func(t *testing.T) {
		t.Parallel()
		p := newLocal(t)
		p.natgo(t, 0, p.runArgs("--detach")...)
		p.when(t, func() bool { return p.jobs(t) > 0 })
		to := copied(t, p)
		for _, command := range []string{"status", "wait", "cancel", "resume"} {
			if r := p.natgo(t, 3, "finetune", command, to); !strings.Contains(r.stderr, "copy of the folder") {
				t.Errorf("%s: %s", command, r.stderr)
			}
		}
		p.release()
		p.natgo(t, 0, "finetune", "wait", "out/r1")
		if n := p.jobs(t); n != 1 {
			t.Errorf("the trainer was started %d times", n)
		}
		p.natgo(t, 3, "finetune", "status", to) // it has ended, but the copy can't tell
		if r := p.natgo(t, 0, "finetune", "status", copied(t, p)); !strings.Contains(r.stdout, "completed") {
			t.Error(r.stdout)
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
