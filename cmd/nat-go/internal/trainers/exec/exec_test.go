package exec

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/nat-go/nat-go/builders/schema"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/trainers"
	"github.com/nat-go/nat-go/internal/process"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func config(t *testing.T, c Config) *Config {
	t.Helper()
	full := schema.New[Config]()
	full.Command, full.Env, full.Set, full.WorkDir = c.Command, c.Env, c.Set, c.WorkDir
	full.StopTimeout = 300 * time.Millisecond
	return &full
}

func sh(script string, args ...string) []string {
	return append([]string{"/bin/sh", "-c", script}, args...)
}

func data(t *testing.T) trainers.DataSet {
	return trainers.DataSet{RunID: "r1", RunDir: t.TempDir(), Batches: "batches", Formats: map[string]trainers.Format{
		"trl": {
			Dir:   "dataset/trl",
			Files: []trainers.File{{Path: "dataset/trl/dpo.jsonl", Kind: "preference", Split: trainers.Train}},
		},
	}}
}

// end waits for the job to end.
func end(t *testing.T, a *Adapter, ref trainers.JobRef) trainers.JobStatus {
	t.Helper()
	for { // a busy machine may take any time: go test has a limit
		st, err := a.Status(context.Background(), ref)
		if err != nil {
			t.Fatal(err)
		}
		if st.State.Terminal() {
			return st
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func submit(t *testing.T, a *Adapter, d trainers.DataSet) trainers.JobRef {
	t.Helper()
	if err := a.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	ref, err := a.Submit(t.Context(), d, "key-1")
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

func TestRuns(t *testing.T) {
	t.Setenv("GRANTED", "yes")
	t.Setenv("CANARY", "secret-of-the-host")
	d := data(t)
	a := New(config(t, Config{
		Command: sh(`echo "$@"; env; echo '{"step": 5, "total_steps": 20, "loss": 0.693, "epoch": 0.25}'`, "sh", "{train_file}", "{batches}", "{run_id}", "{not_ours}", "{}"),
		Env:     []string{"GRANTED"}, Set: map[string]string{"WHERE": "{run_dir}/x"},
	}), trainers.Env{})
	ref := submit(t, a, d)
	st := end(t, a, ref)
	if st.State != trainers.Completed || st.Step != 5 || st.Steps != 20 || *st.Loss != 0.693 || *st.Progress != 25 {
		t.Errorf("%+v", st)
	}
	out := read(t, filepath.Join(d.RunDir, "trainer", "output.log"))
	for _, want := range []string{d.RunDir + "/dataset/trl/dpo.jsonl " + d.RunDir +
		"/batches r1 {not_ours} {}", "GRANTED=yes", "WHERE=" + d.RunDir + "/x"} {
		if !strings.Contains(out, want) {
			t.Errorf("output lacks %q:\n%s", want, out)
		}
	}
	if strings.Contains(out, "secret-of-the-host") {
		t.Error("the program got a variable it was not granted")
	}
	text, next, err := a.Tail(t.Context(), ref, 0)
	if err != nil || string(text) != out || next != int64(len(out)) {
		t.Errorf("tail: %d bytes of %d, %v", next, len(out), err)
	}
	if err := a.Cancel(t.Context(), ref); err != nil {
		t.Errorf("cancel of an ended job: %v", err)
	}
	if st := end(t, a, ref); st.State != trainers.Completed {
		t.Errorf("after that: %+v", st)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestExitStatus(t *testing.T) {
	for _, c := range []struct {
		script string
		state  trainers.State
		want   string
	}{
		{"exit 0", trainers.Completed, "exit status 0"},
		{"echo out of memory >&2; exit 3", trainers.Failed, "exit status 3"},
		{"kill -9 $$", trainers.Failed, "signal killed"},
	} {
		t.Run(c.script, func(t *testing.T) {
			a := New(config(t, Config{Command: sh(c.script)}), trainers.Env{})
			st := end(t, a, submit(t, a, data(t)))
			if st.State != c.state || !strings.Contains(st.Message, c.want) {
				t.Errorf("%s: %+v", c.script, st)
			}
			if strings.Contains(c.script, "memory") && st.Detail != "out of memory" {
				t.Errorf("detail %q", st.Detail)
			}
		})
	}
}

// TestStatusFromAnotherProcess: status and cancellation need only the folder, even after it was moved.
func TestStatusFromAnotherProcess(t *testing.T) {
	d := data(t)
	conf := config(t, Config{Command: sh("echo step=3; sleep 60 & sleep 60")})
	ref := submit(t, New(conf, trainers.Env{}), d)
	moved := filepath.Join(t.TempDir(), "moved")
	if err := os.Rename(d.RunDir, moved); err != nil {
		t.Fatal(err)
	}
	a := New(conf, trainers.Env{RunDir: moved})
	if st, err := a.Status(t.Context(), ref); err != nil || st.State != trainers.Running {
		t.Fatalf("%+v, %v", st, err)
	}
	if err := a.Cancel(t.Context(), ref); err != nil {
		t.Fatal(err)
	}
	if st := end(t, a, ref); st.State != trainers.Canceled {
		t.Errorf("%+v", st)
	}
	if alive(a.dir()) {
		t.Error("a process of the group is still running")
	}
}

// TestFolderMovesWhileTheProgramRuns: its exit status is recorded all the same.
func TestFolderMovesWhileTheProgramRuns(t *testing.T) {
	d := data(t)
	release := filepath.Join(t.TempDir(), "release")
	conf := config(t, Config{Command: sh(`until [ -e "$1" ]; do sleep 0.01; done; echo step=7`, "sh", release)})
	ref := submit(t, New(conf, trainers.Env{}), d)
	// Otherwise its folder could disappear before it begins.
	for began := errors.New("not yet"); began != nil; time.Sleep(time.Millisecond) {
		_, began = os.Stat(filepath.Join(d.RunDir, "trainer", beganFile))
	}
	moved := New(conf, trainers.Env{RunDir: filepath.Join(t.TempDir(), "moved")})
	if err := os.Rename(d.RunDir, moved.env.RunDir); err != nil {
		t.Fatal(err)
	}
	write(t, release, "")
	if st := end(t, moved, ref); st.State != trainers.Completed || st.Step != 7 {
		t.Errorf("%+v", st)
	}
}

// TestUnseenIsNotDead: from a copy of the folder, here or on another machine, a running program can't be seen; we say
// so, draw no conclusion from it, and start nothing a second time.
func TestUnseenIsNotDead(t *testing.T) {
	d := data(t)
	conf := config(t, Config{Command: sh("sleep 60")})
	a := New(conf, trainers.Env{})
	ref := submit(t, a, d)
	defer func() {
		if err := a.Cancel(context.Background(), ref); err != nil {
			t.Error(err)
		}
	}()
	if _, err := recordedGroup(t.Context(), a.dir()); err != nil {
		t.Fatal(err)
	}
	for what, want := range map[string]string{"copy": "copy of its folder", "elsewhere": "a program on far-away"} {
		t.Run(what, func(t *testing.T) {
			c := d
			c.RunDir = t.TempDir()
			if err := os.CopyFS(c.RunDir, os.DirFS(d.RunDir)); err != nil {
				t.Fatal(err)
			}
			born := filepath.Join(c.RunDir, "trainer", bornFile)
			if what == "elsewhere" {
				write(t, born, `{"key": "key-1", "host": "far-away", "lock": 1}`)
			}
			b := New(conf, trainers.Env{RunDir: c.RunDir})
			if _, err := b.Status(t.Context(), ref); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: status: %v", what, err)
			}
			if err := b.Cancel(t.Context(), ref); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: cancel: %v", what, err)
			}
			// As if the folder had been copied before it was there.
			if err := os.Remove(filepath.Join(c.RunDir, "trainer", pidFile)); err != nil {
				t.Fatal(err)
			}
			if _, found, err := b.Find(t.Context(), c, "key-1"); found || err == nil ||
				!strings.Contains(err.Error(), want) {
				t.Errorf("%s: find: %v, %v", what, found, err)
			}
		})
	}
}

// TestNameChanged: a container that was restarted under another name, on a system that kept running, still sees its
// program.
func TestNameChanged(t *testing.T) {
	if process.Boot() == "" {
		t.Skip("SKIPPED: the start of the system is not known here")
	}
	a := New(config(t, Config{Command: sh("sleep 60")}), trainers.Env{})
	d := data(t)
	ref := submit(t, a, d)
	for end := time.Now().Add(20 * time.Second); missing(filepath.Join(a.dir(), beganFile)) &&
		time.Now().Before(end); time.Sleep(time.Millisecond) {
	}
	b, err := readBorn(a.dir())
	if err != nil {
		t.Fatal(err)
	}
	b.Host = "the-name-before"
	text, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(a.dir(), bornFile), string(text))
	if _, found, err := a.Find(t.Context(), d, "key-1"); !found || err != nil {
		t.Errorf("find: %v, %v", found, err)
	}
	(&process.Tree{Mark: b.Mark}).Kill()
	if st, err := a.Status(t.Context(), ref); err != nil || st.State != trainers.Failed {
		t.Errorf("status: %v, %v", st.State, err)
	}
}

// TestSlowShell: on a busy machine the shell may take any amount of time to record its process group. Submit doesn't
// wait for it; Find does.
func TestSlowShell(t *testing.T) {
	bin, release := t.TempDir(), filepath.Join(t.TempDir(), "release")
	write(t, filepath.Join(bin, "mv"),
		"#!/bin/sh\nuntil [ -e "+release+" ]; do sleep 0.01; done\nexec /bin/mv \"$@\"\n")
	if err := os.Chmod(filepath.Join(bin, "mv"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	d := data(t)
	a := New(config(t, Config{Command: sh("echo step=1")}), trainers.Env{})
	ref := submit(t, a, d)
	hurried, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, found, err := a.Find(hurried, d, "key-1"); found || err == nil {
		t.Errorf("found %v, %v, before the shell recorded its process group", found, err)
	}
	if st, err := a.Status(t.Context(), ref); err != nil || st.State != trainers.Running {
		t.Errorf("%+v, %v", st, err)
	}
	write(t, release, "")
	got, found, err := a.Find(t.Context(), d, "key-1")
	if err != nil || !found || !cmp.Equal(got, ref) {
		t.Errorf("got %+v, %v, %v, want %+v", got, found, err, ref)
	}
	if st := end(t, a, ref); st.State != trainers.Completed {
		t.Errorf("%+v", st)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestDeafProgramIsKilled(t *testing.T) {
	d := data(t)
	a := New(config(t, Config{Command: sh(`trap "" TERM; echo ready; while :; do sleep 1; done`)}), trainers.Env{})
	ref := submit(t, a, d)
	for !strings.Contains(read(t, filepath.Join(d.RunDir, "trainer", "output.log")), "ready") {
		time.Sleep(5 * time.Millisecond)
	}
	if err := a.Cancel(t.Context(), ref); err != nil {
		t.Fatal(err)
	}
	if st := end(t, a, ref); st.State != trainers.Canceled || alive(a.dir()) {
		t.Errorf("%+v", st)
	}
}

// TestCancelReachesOtherGroupsAndSessions: launchers such as timeout and torchrun put what they start into process
// groups and sessions of their own; cancelling ends those, too.
func TestCancelReachesOtherGroupsAndSessions(t *testing.T) {
	pids := filepath.Join(t.TempDir(), "pids")
	a := New(config(t, Config{Command: sh(`timeout 600 sh -c 'echo $$ >> "$0"; sleep 600' "$1" & setsid sh -c 'echo $$ >> "$0"; sleep 600' "$1" & wait`, "sh", pids), StopTimeout: time.Second}), trainers.Env{})
	ref := submit(t, a, data(t))
	var started []string
	for end := time.Now().Add(20 * time.Second); len(started) < 2; time.Sleep(5 * time.Millisecond) {
		b, _ := os.ReadFile(pids)
		if started = strings.Fields(string(b)); time.Now().After(end) {
			t.Fatal("the program does not start")
		}
	}
	if err := a.Cancel(t.Context(), ref); err != nil {
		t.Error(err)
	}
	for _, pid := range started {
		if stat, err := os.ReadFile("/proc/" + pid + "/stat"); err == nil && !strings.Contains(string(stat), ") Z ") {
			t.Errorf("process %s is still running: %s", pid, stat)
		}
	}
}

// TestKilledBeforeTheProgramBegan kills everything, as a power cut would, after the shell has started but before the
// program has. The job doesn't exist then, and the next submission makes one.
func TestKilledBeforeTheProgramBegan(t *testing.T) {
	bin := t.TempDir() // the shell's mv ends everything once the process is recorded
	write(t, filepath.Join(bin, "mv"), "#!/bin/sh\n/bin/mv \"$@\"\nkill -9 $PPID\nsleep 60\n")
	if err := os.Chmod(filepath.Join(bin, "mv"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	a := New(config(t, Config{Command: sh("exit 0"), StopTimeout: time.Second}), trainers.Env{})
	d := data(t)
	if _, err := a.Submit(t.Context(), d, "k"); err != nil {
		t.Fatal(err)
	}
	mv := &process.Tree{}
	if b, err := readBorn(a.dir()); err == nil {
		mv.Mark = b.Mark
	}
	for end := time.Now().
		Add(20 * time.Second); missing(filepath.Join(a.dir(), pidFile)); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the shell records nothing")
		}
	}
	pid, _ := readInt(filepath.Join(a.dir(), pidFile))
	for end := time.Now().Add(20 * time.Second); slices.Contains(mv.Members(), pid) &&
		time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
	}
	mv.Kill()
	if !waitReleased(t.Context(), a.dir(), 20*time.Second) { // a killed process takes a moment to end
		t.Fatal("something is still running")
	}
	if _, found, err := a.Find(t.Context(), d, "k"); found || err != nil {
		t.Errorf("a job that never was is found: %v", err)
	}
	if !a.NeverBegan(trainers.JobRef{}) {
		t.Error("the job is said to have begun")
	}
}

func TestFind(t *testing.T) {
	d := data(t)
	conf := config(t, Config{Command: sh("sleep 60")})
	first := New(conf, trainers.Env{})
	if _, found, err := first.Find(t.Context(), d, "key-1"); found || err != nil {
		t.Fatalf("found %v, %v", found, err)
	}
	want := submit(t, first, d)
	second := New(conf, trainers.Env{})
	got, found, err := second.Find(t.Context(), d, "key-1")
	if err != nil || !found || !cmp.Equal(got, want) {
		t.Errorf("%+v, %v, %v", got, found, err)
	}
	if _, found, err := second.Find(t.Context(), d, "key-2"); found || err != nil {
		t.Errorf("found another's: %v, %v", found, err)
	}
	if _, err := second.Submit(t.Context(), d, "key-2"); err == nil || !strings.Contains(err.Error(), "still running") {
		t.Errorf("a second trainer was started: %v", err)
	}
	if err := second.Cancel(t.Context(), got); err != nil {
		t.Error(err)
	}
}

func TestMistakesAreReported(t *testing.T) {
	for _, c := range []struct {
		conf Config
		want string
	}{
		{Config{Command: sh("true", "{validation_file}")}, "the run has no validation file"},
		{Config{Command: sh("true"), Env: []string{"NATGO_NOT_SET_X"}}, "NATGO_NOT_SET_X not set"},
		{Config{Command: []string{"no-such-program-anywhere"}}, "install the program"},
	} {
		t.Run(c.want, func(t *testing.T) {
			a := New(config(t, c.conf), trainers.Env{})
			err := a.Check(t.Context())
			if err == nil {
				_, err = a.Submit(t.Context(), data(t), "k")
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("err = %v, want %q", err, c.want)
			}
		})
	}
}

func TestProgress(t *testing.T) {
	for _, c := range []struct {
		text string
		want map[string]float64
	}{
		{"{'loss': 0.6931, 'grad_norm': 1.2, 'learning_rate': 5e-05, 'epoch': 0.33}", map[string]float64{"loss": 0.6931, "epoch": 0.33}},
		{"{'loss': '0.6931', 'epoch': '1'}", map[string]float64{"loss": 0.6931, "epoch": 1}},
		{`{"step": 3, "max_steps": 9, "eval_loss": 1.5}`, map[string]float64{"step": 3, "steps": 9, "val_loss": 1.5}},
		{"step=12 total_steps=40 loss=0.5", map[string]float64{"step": 12, "steps": 40, "loss": 0.5}},
		{"INFO step: 12, loss: 5e-1, progress: 30%", map[string]float64{"step": 12, "loss": 0.5, "progress": 30}},
		{" 35%|███▌      | 12/34 [00:10<00:20,  1.1it/s]", map[string]float64{"step": 12, "steps": 34}},
		{` 17%|█▋        | 1/6 [00:01<00:05,  1.1s/it]{"step": 1, "loss": 0.693}`, map[string]float64{"step": 1, "steps": 6, "loss": 0.693}},
		{"loss=nan", map[string]float64{}},
		{"a line of prose about 3 steps", map[string]float64{}},
		{`{"loss": "low"}`, map[string]float64{}},
	} {
		t.Run(c.text, func(t *testing.T) {
			got := map[string]float64{}
			parseLine(c.text, got)
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("%s: %s", c.text, d)
			}
		})
	}
}

func FuzzProgress(f *testing.F) {
	f.Add("{'loss': 1, 'a': [")
	f.Add("1/0 [")
	f.Fuzz(func(t *testing.T, line string) { parseLine(line, map[string]float64{}) })
}
