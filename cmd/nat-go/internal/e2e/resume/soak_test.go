package resume

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/e2e"

	"github.com/google/go-cmp/cmp"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/bench"
)

const (
	soakAtLeast = 6 * time.Second
	soakHung    = 5 * time.Minute // nothing asked to end may take this long
	soakMemory  = 512 << 20       // peak memory of any one process, in bytes
)

// TestSoak disturbs runs at random, with two builders in one process, a third-party plugin and a trainer, and checks
// what becomes of each run: the bytes of the undisturbed run, or a refusal that says why and a later resume that
// produces them. Nothing hangs, grows or is left running. NATGO_SOAK is how long it runs, NATGO_SOAK_SEED repeats a
// particular soak.
func TestSoak(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("finds processes in /proc")
	}
	last := soakAtLeast
	if d, err := time.ParseDuration(os.Getenv("NATGO_SOAK")); err == nil {
		last = d
	}
	seed := uint64(time.Now().UnixNano())
	if n, err := strconv.ParseUint(os.Getenv("NATGO_SOAK_SEED"), 10, 64); err == nil {
		seed = n
	}
	t.Logf("NATGO_SOAK_SEED=%d repeats this", seed)
	s := newSoak(t, rand.New(rand.NewPCG(seed, 0)))
	counts := map[string]int{}
	for until, i := time.Now().Add(last), 0; time.Now().Before(until) && !t.Failed(); i++ {
		f := s.faults[s.rand.IntN(len(s.faults))]
		counts[f.name]++
		s.round(i, f)
	}
	if s.served != nil {
		t.Logf("misdeeds of servers: %v", s.served.did)
	}
	t.Logf("faults: %v", counts)
}

// soak is a folder for disturbed runs.
type soak struct {
	*bed
	t      *testing.T
	rand   *rand.Rand
	want   map[string]string // the files of the undisturbed run
	took   time.Duration     // how long the undisturbed run takes
	faults []fault
	served *served // runs that use servers
}

// fault disturbs a run that has been started, in the way its name says. The run may end well or badly.
type fault struct {
	name    string
	env     []string // of the run
	wrap    []string // the command that starts the run
	disturb func(s *soak, cmd *exec.Cmd)
	round   func() // used instead, if another kind of run is disturbed
}

func newSoak(t *testing.T, r *rand.Rand) *soak {
	b := newBed(t, 1)
	b.Exe = programsOf(t, b.Exe)
	s := &soak{bed: b, t: t, rand: r, faults: []fault{
		{name: "kill", disturb: func(s *soak, cmd *exec.Cmd) { s.pause(1); _ = cmd.Process.Kill() }},
		{
			name:    "terminate",
			disturb: func(s *soak, cmd *exec.Cmd) { s.pause(1); _ = cmd.Process.Signal(syscall.SIGTERM) },
		},
		{name: "interrupt twice", disturb: func(s *soak, cmd *exec.Cmd) {
			s.pause(1)
			_ = cmd.Process.Signal(os.Interrupt)
			s.pause(0.1)
			_ = cmd.Process.Signal(os.Interrupt)
		}},
		{name: "kill plugins", disturb: func(s *soak, cmd *exec.Cmd) {
			for range 1 + s.rand.IntN(3) {
				s.pause(0.5)
				s.signalPlugins(cmd, syscall.SIGKILL)
			}
		}},
		{name: "stop plugins", disturb: func(s *soak, cmd *exec.Cmd) {
			s.pause(0.5)
			s.signalPlugins(cmd, syscall.SIGSTOP)
			s.pause(0.5)
			s.signalPlugins(cmd, syscall.SIGCONT)
		}},
		{name: "stop the run", disturb: func(s *soak, cmd *exec.Cmd) {
			s.pause(0.7)
			_ = cmd.Process.Signal(syscall.SIGSTOP)
			s.pause(0.5)
			_ = cmd.Process.Signal(syscall.SIGCONT)
		}},
		{name: "two commands at once", disturb: func(s *soak, cmd *exec.Cmd) {
			s.pause(0.8)
			other := s.Command(nil, "finetune", "resume", filepath.Join("soak", "r"))
			s.ended("a second command", s.finish(other))
		}},
	}}
	if shiftClock != nil {
		s.faults = append(s.faults, fault{name: "clock set", disturb: func(s *soak, cmd *exec.Cmd) {
			for range 1 + s.rand.IntN(3) {
				s.pause(0.4)
				shiftClock(s.t, cmd.Process.Pid, time.Duration((s.rand.Float64()-0.5)*float64(48*time.Hour)))
			}
		}})
	}
	if exec.Command("unshare", "-rm", "true").Run() == nil {
		small := `mount -t tmpfs -o size=` // too small for the records, or for the rows
		for _, size := range []string{"100k", "400k", "900k"} {
			s.faults = append(s.faults, fault{
				name:    "full disk " + size,
				disturb: func(*soak, *exec.Cmd) {},
				wrap: []string{
					"unshare", "-rm", "sh", "-c", small + size + ` soak soak && "$@"; code=$?; umount soak; exit $code`, "sh",
				},
			})
		}
	}
	if _, err := exec.LookPath("strace"); err == nil {
		for _, call := range []string{"fsync", "rename,renameat,renameat2", "openat", "write", "unlinkat"} {
			s.faults = append(s.faults, fault{
				name:    "kill at " + call,
				wrap:    []string{"strace"},
				disturb: func(*soak, *exec.Cmd) {},
			})
		}
	}
	s.configure()
	began := time.Now()
	s.Must(t, s.Run(nil, "soak"))
	s.took = time.Since(began)
	s.want = s.dataSet("soak")
	s.served = newServed(t, s)
	for _, how := range append(slices.Clone(misdeeds), "anything") {
		s.faults = append(s.faults, fault{name: "servers: " + how, round: func() {
			s.served.round(how, s.rand.IntN(2) == 0 && e2e.WithTokenizers())
		}})
	}
	return s
}

// programsOf copies the program and the third party's builder, so that whatever runs one of the copies is of this soak.
// It returns the program's copy.
func programsOf(t *testing.T, exe string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{filepath.Base(exe), "nat-go-builder-acme"} {
		program, err := os.ReadFile(filepath.Join(filepath.Dir(exe), name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), program, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, filepath.Base(exe))
}

// configure has two builders of ours in one process, a third party's builder, and a trainer that starts a process of
// its own.
func (s *soak) configure() {
	acme := filepath.Join(filepath.Dir(s.Exe), "nat-go-builder-acme")
	s.Generate(s.t, "in.json", bench.Shape{Examples: 100, Turns: 2, Candidates: 6, Seed: 7})
	collator := ""
	if e2e.WithTokenizers() {
		tokenizer, err := filepath.Abs("../../../../../examples/hints/tokenizer")
		if err != nil {
			s.t.Fatal(err)
		}
		collator = "collator: {tokenizer: " + tokenizer + ", max_length: 4096}"
	}
	python, plugin, builder := "", "", ""
	if pythonWith(s.t, "grpc, google.protobuf") {
		python, builder = "best: {_type: bon/best_of_n, min_score: 0.2}", ", best"
		plugin = fmt.Sprintf("bon: {path: %q, start_timeout: 2m}", s.pythonBuilder())
	}
	s.Write(s.t, "finetune.yml", fmt.Sprintf(`
trajectory_builders:
  all: {_type: dpo_traj_builder, strategy: exhaustive}
  next: {_type: dpo_traj_builder, strategy: adjacent}
  theirs: {_type: acme/curriculum}
  %s
sources: {runs: {_type: workflow_output, path: in.json}}
plugins:
  acme: {path: %q}
  %s
dataset: {formats: [customizer, trl, kto]}
%s
trainers: {t: {_type: nemo_customizer_trainer}}
trainer_adapters:
  train:
    _type: exec_trainer_adapter
    poll_interval: 20ms
    command: [/bin/sh, -c, 'sleep 300 & echo "step=1 total_steps=1 loss=0.5"; kill $!']
finetuning:
  {enabled: true, trajectory_builder: [all, next, theirs%s], trainer: t, trainer_adapter: train, output_dir: out}
`, python, acme, plugin, collator, builder))
}

// pythonBuilder is a program that serves the Python example from the checkout instead of from an installed package.
func (s *soak) pythonBuilder() string {
	root, err := filepath.Abs("../../../../../")
	if err != nil {
		s.t.Fatal(err)
	}
	program := filepath.Join(filepath.Dir(s.Exe), "python-builder")
	text := fmt.Sprintf("#!/usr/bin/env python3\nimport sys; sys.dont_write_bytecode = True; sys.path[:0] = [%q, %q]\n"+
		"import best_of_n; best_of_n.main()\n",
		filepath.Join(root, "plugins", "python"), filepath.Join(root, "examples", "python-builder"))
	if err := os.WriteFile(program, []byte(text), 0o700); err != nil {
		s.t.Fatal(err)
	}
	return program
}

// pythonWith reports whether python3 has the modules; if NATGO_REQUIRE names python, it must.
func pythonWith(t *testing.T, modules string) bool {
	t.Helper()
	out, err := exec.Command("python3", "-c", "import "+modules).CombinedOutput()
	if err == nil {
		return true
	}
	if slices.Contains(strings.Split(os.Getenv("NATGO_REQUIRE"), ","), "python") {
		t.Fatalf("python3 with %s is required (NATGO_REQUIRE): %v\n%s", modules, err, out)
	}
	t.Logf("no python3 with %s: no plugin in Python takes part", modules)
	return false
}

// dataSet returns the parts of the run folder that depend neither on when it was made nor on the trainer's process.
func (s *soak) dataSet(out string) map[string]string {
	files := s.Content(s.t, out)
	maps.DeleteFunc(files, func(name, _ string) bool {
		return strings.HasPrefix(name, "trainer/") && name != "trainer/output.log"
	})
	return files
}

// round makes a run, disturbs it, and completes it.
func (s *soak) round(i int, f fault) {
	s.t.Helper()
	defer func() {
		if s.t.Failed() {
			s.t.Logf("round %d: %s", i, f.name)
		}
	}()
	if f.round != nil {
		f.round()
		s.alone()
		return
	}
	if err := os.RemoveAll(filepath.Join(s.Dir, "soak")); err != nil {
		s.t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(s.Dir, "soak"), 0o755); err != nil {
		s.t.Fatal(err)
	}
	cmd := s.Run(slices.Concat(f.env, []string{fmt.Sprintf("GOMAXPROCS=%d", 1+s.rand.IntN(2))}), "soak")
	s.wrapped(cmd, f)
	r := s.disturbed(cmd, f)
	s.ended("the run", r)
	for range 4 {
		if r.Code == 0 {
			break
		}
		next := s.Resume("soak")
		if _, err := os.Stat(filepath.Join(s.Dir, "soak", "r", "records", "begun.json")); err != nil {
			next = s.Run(nil, "soak") // it ended before it began
			_ = os.RemoveAll(filepath.Join(s.Dir, "soak", "r"))
		}
		r = s.finish(next)
		s.ended("the resumed run", r)
	}
	if r.Code != 0 {
		s.t.Errorf("can't be brought to its end: exit %d: %s", r.Code, r.Stderr)
		return
	}
	if d := cmp.Diff(s.want, s.dataSet("soak")); d != "" {
		s.t.Errorf("another data set (-want +got):\n%s", d)
	}
	s.alone()
}

// wrapped makes the fault's program start the run.
func (s *soak) wrapped(cmd *exec.Cmd, f fault) {
	if len(f.wrap) == 0 {
		return
	}
	wrap := f.wrap
	if wrap[0] == "strace" {
		calls := strings.TrimPrefix(f.name, "kill at ")
		inject := fmt.Sprintf("inject=%s:signal=KILL:when=%d", calls, 1+s.rand.IntN(60))
		wrap = []string{"strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=" + calls, "-e", inject}
	}
	path, err := exec.LookPath(wrap[0])
	if err != nil {
		s.t.Fatal(err)
	}
	cmd.Path, cmd.Args = path, append(slices.Clone(wrap), cmd.Args...)
	cmd.Args[len(wrap)] = s.Exe
}

// disturbed starts the command, disturbs it and waits for its end.
func (s *soak) disturbed(cmd *exec.Cmd, f fault) e2e.Result {
	s.t.Helper()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, &errs, 10*time.Second
	e2e.Start(s.t, cmd)
	f.disturb(s, cmd)
	return s.wait(cmd, &out, &errs)
}

func (s *soak) finish(cmd *exec.Cmd) e2e.Result {
	s.t.Helper()
	return s.disturbed(cmd, fault{disturb: func(*soak, *exec.Cmd) {}})
}

func (s *soak) wait(cmd *exec.Cmd, out, errs *bytes.Buffer) e2e.Result {
	s.t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), soakHung)
	defer stop()
	hung := context.AfterFunc(ctx, func() {
		s.t.Errorf("%s hangs:\n%s", strings.Join(cmd.Args, " "), errs)
		_ = cmd.Process.Signal(syscall.SIGQUIT)
		time.Sleep(time.Second)
		_ = cmd.Process.Kill()
	})
	err := cmd.Wait()
	hung()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) && !errors.Is(err, exec.ErrWaitDelay) {
		s.t.Fatal(err)
	}
	var self syscall.Rusage // a child's peak is at least its parent's when it was started
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &self)
	if use, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok &&
		use.Maxrss<<10 > max(soakMemory, self.Maxrss<<10) {
		s.t.Errorf("%s took %d MiB", strings.Join(cmd.Args, " "), use.Maxrss>>10)
	}
	return e2e.Result{Code: cmd.ProcessState.ExitCode(), Stdout: out.String(), Stderr: errs.String()}
}

// ended checks how a command ended: by a signal, or with a documented code and a message, never with a stack trace.
func (s *soak) ended(what string, r e2e.Result) {
	s.t.Helper()
	if strings.Contains(r.Stderr, "goroutine ") || strings.Contains(r.Stderr, "panic:") {
		s.t.Errorf("%s shows a stack:\n%s", what, r.Stderr)
	}
	switch r.Code {
	case 0, -1, 128 + int(syscall.SIGKILL), 128 + int(syscall.SIGINT), 128 + int(syscall.SIGTERM):
	case 1, 2, 3:
		if strings.TrimSpace(r.Stderr) == "" {
			s.t.Errorf("%s ends with code %d and doesn't say why", what, r.Code)
		}
	default:
		s.t.Errorf("%s ends with code %d: %s", what, r.Code, r.Stderr)
	}
}

// alone looks for processes and temporary files that the soak left behind.
func (s *soak) alone() {
	s.t.Helper()
	var left []string
	for range 100 { // the kernel may take a while
		if left = s.processes(); len(left) == 0 {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	if len(left) > 0 {
		s.t.Errorf("still running: %q", left)
	}
	err := filepath.WalkDir(filepath.Join(s.Dir, "soak"), func(path string, _ os.DirEntry, err error) error {
		if err == nil && strings.Contains(filepath.Base(path), "tmp-") {
			s.t.Errorf("left behind: %s", path)
		}
		return err
	})
	if err != nil {
		s.t.Error(err)
	}
}

// processes returns those that run one of this soak's programs or are in its folder.
func (s *soak) processes() (out []string) {
	pids, _ := filepath.Glob("/proc/[0-9]*")
	for _, p := range pids {
		if dir, err := os.Readlink(filepath.Join(p, "cwd")); err != nil || !strings.HasPrefix(dir, s.Dir) {
			if exe, err := os.Readlink(filepath.Join(p, "exe")); err != nil ||
				!strings.HasPrefix(exe, filepath.Dir(s.Exe)) {
				continue
			}
		}
		line, _ := os.ReadFile(filepath.Join(p, "cmdline"))
		if state, _ := os.ReadFile(filepath.Join(p, "stat")); len(line) > 0 && !bytes.Contains(state, []byte(") Z ")) {
			out = append(out, strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	return out
}

// pause waits up to a share of the time a run takes.
func (s *soak) pause(share float64) {
	time.Sleep(time.Duration(s.rand.Float64() * share * float64(s.took)))
}

// signalPlugins signals the plugins' processes only: ending the trainer would end the job, as it should.
func (s *soak) signalPlugins(cmd *exec.Cmd, signal syscall.Signal) {
	for _, pid := range bench.Children(cmd.Process.Pid) {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)) // it may have gone
		if bytes.Contains(line, []byte("plugin-serve")) || bytes.Contains(line, []byte("nat-go-builder-acme")) ||
			bytes.Contains(line, []byte("python-builder")) {
			_ = syscall.Kill(pid, signal)
		}
	}
}
