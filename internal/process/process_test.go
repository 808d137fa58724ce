package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// TestMain lets the tests use this binary as a program that is killed: it starts the script in the environment, reports
// that, and waits.
func TestMain(m *testing.M) {
	if script := os.Getenv("NATGO_TEST_PARENT"); script != "" {
		if _, err := Start(Config{Args: shell(script), Env: os.Environ()}); err != nil {
			panic(err)
		}
		select {}
	}
	if os.Getenv("NATGO_TEST_FILTERED") != "" {
		if err := withoutLandlock(); err != nil {
			panic(err)
		}
	}
	goleak.VerifyTestMain(m)
}

func shell(script string) []string { return []string{"/bin/sh", "-c", script} }

func start(t *testing.T, c Config) *Process {
	t.Helper()
	if c.Env == nil {
		c.Env = os.Environ()
	}
	p, err := Start(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Kill(errors.New("the test is over")); <-p.Done() })
	return p
}

// pids waits until a script has written this many process ids to a file.
func pids(t *testing.T, path string, n int) (all []int) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		b, _ := os.ReadFile(path)
		if words := strings.Fields(string(b)); len(words) == n {
			for _, w := range words {
				pid, err := strconv.Atoi(w)
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, pid)
			}
			return all
		}
	}
	t.Fatal("the script does not start what it should")
	return nil
}

func running(pid int) bool {
	for _, e := range list() {
		if e.pid == pid {
			return true
		}
	}
	return false
}

// outlives reports whether a process is still running after 20 seconds. On a busy machine, a killed process may take a
// while to end.
func outlives(pid int) bool {
	for end := time.Now().Add(20 * time.Second); running(pid); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			return true
		}
	}
	return false
}

// family returns a script that starts children of every kind and waits: in its own group, in another group, in another
// session, one in a session whose parent has ended, one that has cleared its environment, and one that has done all of
// that.
func family(t *testing.T) (script, file string, members int) {
	file = filepath.Join(t.TempDir(), "pids")
	note := func(prefix string) string {
		return fmt.Sprintf(`%s sh -c 'echo $$ >> %s; exec sleep 600' & `, prefix, file)
	}
	script = note("") + note("timeout 600") + note("setsid") +
		fmt.Sprintf(`(setsid sh -c 'echo $$ >> %s; exec sleep 600' &) ; `, file) + note("env -i "+path(t, "setsid")) +
		fmt.Sprintf(`(env -i %s sh -c 'echo $$ >> %s; exec sleep 600' &) ; `, path(t, "setsid"), file) + "wait"
	return script, file, 6
}

func path(t *testing.T, name string) string {
	p, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("SKIPPED: there is no %s", name)
	}
	return p
}

func onlyLinux(t *testing.T) {
	if !marksSeen {
		t.Skip("SKIPPED: this system doesn't show processes' environments")
	}
}

// TestHiddenMarks checks that a process whose environment can't be read might belong to the tree and be replacing its
// program, so that the tree is taken to be gone only after a limited number of further looks.
func TestHiddenMarks(t *testing.T) {
	onlyLinux(t)
	looks := func() (n int) {
		tree := &Tree{Mark: NewMark(), since: startTime(os.Getpid())}
		tree.gone(t.Context(), time.Minute, func([]int) { n++ })
		return n
	}
	hidden := exec.Command("sleep", "600")
	hidden.Env = []string{}
	if err := hidden.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = hidden.Process.Kill(); _ = hidden.Wait() })
	if n := looks(); n != unsureLooks {
		t.Errorf("it looked %d more times, want %d", n, unsureLooks)
	}
}

func TestAllOfItIsEnded(t *testing.T) {
	onlyLinux(t)
	for name, end := range map[string]func(*Process){
		"killed":            func(p *Process) { p.Kill(errors.New("enough")) },
		"killed in a group": func(p *Process) { p.Kill(errors.New("enough")) },
		"stopped":           func(p *Process) { p.Stop(errors.New("enough"), 5*time.Second) },
		"ends":              func(p *Process) { _ = syscall.Kill(p.PID(), syscall.SIGUSR1) },
	} {
		t.Run(name, func(t *testing.T) {
			script, file, n := family(t)
			p := start(t, Config{
				Args: shell("trap 'exit 7' USR1; " + script), Group: name == "killed in a group", Confined: true,
			})
			all := pids(t, file, n)
			end(p)
			<-p.Done()
			for i, pid := range all {
				if running(pid) {
					t.Errorf("child %d is still running", i)
					_ = syscall.Kill(pid, syscall.SIGKILL)
				}
			}
			if left := p.Left(); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
			if err := p.Err(); err == nil || name == "ends" && err.Error() != "exit status 7" ||
				name != "ends" && err.Error() != "enough" {
				t.Errorf("it ended with %v", err)
			}
		})
	}
}

// TestSurvivor checks that what a program that may outlive us has started is left alone, unless it is killed.
func TestSurvivor(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pids")
	p := start(t, Config{Args: shell(`sleep 600 & echo $! >> ` + file), Survives: true})
	child := pids(t, file, 1)[0]
	if err := p.Err(); err != nil {
		t.Error(err)
	}
	if !running(child) {
		t.Error("the process that it left running was ended")
	}
	if left := (&Tree{Mark: p.Mark()}).Stop(t.Context(), 5*time.Second); len(left) > 0 || running(child) {
		if marksSeen {
			t.Errorf("left: %v", left)
		}
		_ = syscall.Kill(child, syscall.SIGKILL)
	}
}

// TestParentKilled checks that after a kill -9 the next process finds the processes that the kernel has not ended, and
// nothing else.
func TestParentKilled(t *testing.T) {
	onlyLinux(t)
	dir := t.TempDir()
	bystander := start(t, Config{Args: []string{"sleep", "600"}})
	parent := exec.Command(os.Args[0])
	file := filepath.Join(dir, "pids")
	mark := NewMark()
	parent.Env = append(os.Environ(), markVariable+"="+mark, fmt.Sprintf(`NATGO_TEST_PARENT=echo $$ >> %s; setsid sh -c 'echo $$ >> %s; exec sleep 600' & wait`, file, file))
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	all := pids(t, file, 2)
	_ = parent.Process.Kill()
	_ = parent.Wait()
	if outlives(all[0]) {
		t.Error("the program outlives its parent")
	}
	tree := Tree{Mark: mark} // parents' marks are inherited
	if members := tree.Members(); len(members) != 1 || members[0] != all[1] {
		t.Errorf("found %v, want %v", members, all[1:])
	}
	if left := tree.Kill(); len(left) > 0 || outlives(all[1]) {
		t.Errorf("left: %v", left)
	}
	if !running(bystander.PID()) {
		t.Error("an unrelated process was killed")
	}
}

// TestSessionOfAStranger checks that a session whose first process is not known to be ours is not killed, because
// process ids are reused.
func TestSessionOfAStranger(t *testing.T) {
	onlyLinux(t)
	stranger := start(t, Config{Args: []string{"sleep", "600"}})
	if m := (&Tree{Session: stranger.PID(), Mark: NewMark()}).Members(); len(m) > 0 {
		t.Errorf("%v are taken for ours", m)
	}
}

func TestOutputIsDrained(t *testing.T) {
	var first [5]byte
	p := start(t, Config{Args: shell(`head -c 10000000 /dev/zero | tr '\0' x; echo to stderr >&2; exit 3`), Stdout: func(r io.Reader) {
		_, _ = io.ReadFull(r, first[:]) // and no more
	}})
	if err := p.Err(); err == nil || Ended(err) != "ended (exit status 3)" || string(first[:]) != "xxxxx" {
		t.Errorf("%v, %q", err, first)
	}
	var out, errs []byte
	p = start(t, Config{
		Args: shell(`read line; echo "$line"; echo to stderr >&2`), Input: true,
		Stdout: func(r io.Reader) { out, _ = io.ReadAll(r) }, Stderr: func(r io.Reader) { errs, _ = io.ReadAll(r) },
	})
	fmt.Fprintln(p.Stdin, "hello")
	if err := p.Err(); err != nil || string(out) != "hello\n" || string(errs) != "to stderr\n" {
		t.Errorf("%v, %q, %q", err, out, errs)
	}
}

// TestOutlivesNothing: a process in its own session, without an environment, its parent gone, ends with the program
// that started it, even if that ends at once.
func TestOutlivesNothing(t *testing.T) {
	onlyLinux(t)
	file := filepath.Join(t.TempDir(), "pids")
	script := fmt.Sprintf(`(env -i %s sh -c 'echo $$ >> %s; exec sleep 600' &)
		while [ ! -s %[2]s ]; do sleep 0.01; done`, path(t, "setsid"), file)
	for range 20 {
		p := start(t, Config{
			Args: shell(script), Confined: true, Stdout: func(r io.Reader) { _, _ = io.Copy(io.Discard, r) },
		})
		<-p.Done()
		if pid := pids(t, file, 1)[0]; running(pid) {
			t.Error("it outlives the program")
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
}

// TestBrands: a brand tells which of the two marks, and nothing else has it.
func TestBrands(t *testing.T) {
	onlyLinux(t)
	p := start(t, Config{Args: []string{"sleep", "600"}, With: "outer", Mark: "inner"})
	for mark, want := range map[string]bool{"outer": true, "inner": true, "other": false} {
		if branded(p.PID(), mark) != want {
			t.Errorf("branded with %s: %v", mark, !want)
		}
	}
	if branded(os.Getpid(), "inner") {
		t.Error("this program is branded")
	}
}

func TestSignals(t *testing.T) {
	p := start(t, Config{Args: shell("kill -9 $$")})
	if s, ok := Signal(p.Err()); !ok || s != syscall.SIGKILL || !strings.Contains(Ended(p.Err()), "signal 9") {
		t.Errorf("%v", p.Err())
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	p = start(t, Config{Args: shell("trap '' TERM; while :; do sleep 600; done")})
	cause := errors.New("interrupted")
	cancel(cause)
	if err := p.Run(ctx, 50*time.Millisecond); !errors.Is(err, cause) {
		t.Errorf("%v", err)
	}
	if _, err := Start(Config{Args: []string{"/nothing/there"}}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

func TestEnvironment(t *testing.T) {
	t.Setenv("NATGO_TEST_SECRET", "canary")
	var env []byte
	p := start(t, Config{
		Args:   []string{"env"},
		Env:    []string{"PATH=" + os.Getenv("PATH"), markVariable + "=forged"},
		With:   "outer",
		Mark:   "inner",
		Stdout: func(r io.Reader) { env, _ = io.ReadAll(r) },
	})
	if err := p.Err(); err != nil {
		t.Fatal(err)
	}
	if got := string(env); strings.Contains(got, "canary") || strings.Contains(got, "forged") ||
		!strings.Contains(got, markVariable+"=outer inner\n") {
		t.Error(got)
	}
}

// TestConfinedProgramSeesNoOthers: a confined program, and what it starts, can't read the environment or the memory of
// the one that started it, and can't end it; it still sees its own, and can rename files between folders.
func TestConfinedProgramSeesNoOthers(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("SKIPPED: there is no /proc")
	}
	script := `p=$PPID; cat /proc/$p/environ >environ 2>&1; cat /proc/$p/maps >memory 2>&1
sh -c "cat /proc/$p/environ" >inner 2>&1
mkdir a b; echo x >a/f; mv a/f b/f; cat /proc/$$/environ >own; kill -0 $p 2>&1; echo fine`
	run := func(confined bool) string {
		dir := t.TempDir()
		var out strings.Builder
		p, err := Start(Config{
			Args: []string{"sh", "-c", script}, Path: "/bin/sh", Dir: dir, Env: []string{"OWN=1", "PATH=" +
				os.Getenv("PATH")},
			Confined: confined, Stdout: func(r io.Reader) { _, _ = io.Copy(&out, r) },
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Err(); err != nil {
			t.Errorf("confined %v: %v: %s", confined, err, out.String())
		}
		found := ""
		for _, name := range []string{"environ", "inner", "memory"} {
			b, _ := os.ReadFile(filepath.Join(dir, name))
			found += string(b)
		}
		own, _ := os.ReadFile(filepath.Join(dir, "own"))
		if _, err := os.Stat(filepath.Join(dir, "b", "f")); err != nil || !strings.Contains(string(own), "OWN=1") ||
			!strings.HasSuffix(strings.TrimSpace(out.String()), "fine") {
			t.Errorf("confined %v: %v, %q, %s", confined, err, own, out.String())
		}
		return found
	}
	const library = "[stack]" // of this test's memory
	if !strings.Contains(run(false), library) {
		t.Skip("SKIPPED: the environment of other processes can't be read here at all")
	}
	if found := run(true); strings.Contains(found, library) || strings.Contains(found, "PATH=") {
		t.Errorf("it read %q", found)
	}
	// Only in a process of its own: one that starts a program as another user can't be dumped from then on.
	if filtered, alone := os.LookupEnv("NATGO_TEST_FILTERED"); alone && (filtered != "") != undumped() {
		t.Errorf("filtered %q, but not to be dumped %v", filtered, undumped())
	}
}
