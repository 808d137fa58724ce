package resume

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/e2e"

	"github.com/google/go-cmp/cmp"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/bench"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/recordlog"
)

// These tests end the program, or its builders' process, at some point during a run, and check that `finetune resume`
// completes it with the bytes of the undisturbed run, and nothing else.

// TestKilled kills the host or the plugin with SIGKILL at seeded points and resumes. NATGO_KILLS sets the number of
// points; more are added if these came too late for one of the two.
func TestKilled(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("finds the plugin's process in /proc")
	}
	points := 8
	if n, err := strconv.Atoi(os.Getenv("NATGO_KILLS")); err == nil {
		points = n
	}
	b := newBed(t, 700)
	b.Must(t, b.Run(nil, "whole"))
	want := b.Content(t, "whole")
	took := time.Hour
	for _, setup := range [][]string{{"INSTANCES=2"}, {"GOMAXPROCS=1"}, {"GOMAXPROCS=1", "INSTANCES=2"}} {
		out := "undisturbed-" + strings.Join(setup, "-")
		began := time.Now()
		b.Must(t, b.Run(setup, out))
		took = min(took, time.Since(began))
		if d := cmp.Diff(want, b.Content(t, out)); d != "" {
			t.Fatalf("%v makes another data set (-want +got):\n%s", setup, d)
		}
	}
	r := rand.New(rand.NewPCG(4, 4))
	resumed := 0
	for i := 0; i < points || (resumed == 0 || b.pluginsKilled == 0) && i < 8*points; i++ {
		env := []string{fmt.Sprintf("INSTANCES=%d", 1+i%2), fmt.Sprintf("GOMAXPROCS=%d", 1+i/2%2)}
		out := fmt.Sprintf("killed%d", i)
		after := time.Duration(r.Float64() * float64(took))
		if b.kill(t, env, out, after, i%3 == 2) {
			resumed++
			if i%4 == 0 { // and the resuming process too
				resume := b.Command(env, "finetune", "resume", filepath.Join(out, "r"))
				e2e.Start(t, resume)
				time.Sleep(time.Duration(r.Float64() * float64(took)))
				_ = resume.Process.Kill()
				_ = resume.Wait()
			}
			if r := e2e.Finish(t, b.Command(env, "finetune", "resume", filepath.Join(out, "r"))); r.Code != 0 {
				t.Fatalf("killed after %s: resume: exit %d: %s", after, r.Code, r.Stderr)
			}
		}
		if d := cmp.Diff(want, b.Content(t, out)); d != "" {
			t.Fatalf("killed after %s, then resumed, gives another data set (-want +got):\n%s", after, d)
		}
		if err := os.RemoveAll(filepath.Join(b.Dir, out)); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d runs disturbed: %d had to be resumed, %d plugin processes were killed; a whole run takes %s", points, resumed, b.pluginsKilled, took.Round(time.Millisecond))
	if resumed == 0 || b.pluginsKilled == 0 {
		t.Error("nothing was tested: all runs were done before the kill")
	}
}

// kill starts a run and kills it, or its plugin, after a while. It reports whether the run has to be resumed: a run
// that lost its plugin continues, and one that was killed before it had begun is run again here.
func (b *bed) kill(t *testing.T, env []string, out string, after time.Duration, plugin bool) bool {
	t.Helper()
	cmd := b.Run(env, out)
	var text bytes.Buffer
	cmd.Stderr = &text
	e2e.Start(t, cmd)
	time.Sleep(after)
	if plugin {
		for _, pid := range bench.Children(cmd.Process.Pid) {
			b.pluginsKilled++
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		if err := cmd.Wait(); err == nil {
			return false
		}
		// This happens only if none of the plugin's processes ever came up.
		if !strings.Contains(text.String(), "did not start") {
			t.Fatalf("the run failed when its plugin was killed after %s: %s", after, text.String())
		}
		return true
	}
	_ = cmd.Process.Kill()
	if cmd.Wait() == nil {
		return false // it was done
	}
	if _, err := os.Stat(filepath.Join(b.Dir, out, "r", "records", "begun.json")); err == nil {
		return true
	}
	if r := e2e.Finish(t, b.Run(env, out)); r.Code != 0 {
		t.Fatalf("killed after %s, before it had begun, and run again: exit %d: %s", after, r.Code, r.Stderr)
	}
	return false
}

func TestResumeRefusesAChangedInput(t *testing.T) {
	b := newBed(t, 20)
	b.Must(t, b.Run(nil, "whole"))
	want := b.Content(t, "whole")
	unfinish(t, b, "whole")
	in := filepath.Join(b.Dir, "in.json")
	info, err := os.Stat(in)
	if err != nil {
		t.Fatal(err)
	}
	b.Generate(t, "in.json", bench.Shape{Examples: 21, Turns: 2, Candidates: 6, Seed: 7})
	b.Refused(t, b.Resume("whole"), 1, "input in.json changed since the run began")
	if err := os.Remove(in); err != nil {
		t.Fatal(err)
	}
	b.Refused(t, b.Resume("whole"), 3, "in.json", "no such file")
	b.Generate(t, "in.json", bench.Shape{Examples: 20, Turns: 2, Candidates: 6, Seed: 7})
	if err := os.Chtimes(in, info.ModTime(), info.ModTime()); err != nil {
		t.Fatal(err)
	}
	b.Must(t, b.Resume("whole"))
	b.Same(t, want, "whole")
}

// TestResumeReadsTheInputAgain changes the part of an input that was already read, keeping its size and time: the
// rolling hash reveals it.
func TestResumeReadsTheInputAgain(t *testing.T) {
	b := newBed(t, 700)
	out := b.interrupted(t, syscall.SIGKILL)
	in := filepath.Join(b.Dir, "in.json")
	info, err := os.Stat(in)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(in)
	if err != nil {
		t.Fatal(err)
	}
	text = bytes.Replace(text, []byte("shipping"), []byte("SHIPPING"), 1)
	b.Write(t, "in.json", string(text))
	if err := os.Chtimes(in, info.ModTime(), info.ModTime()); err != nil {
		t.Fatal(err)
	}
	b.Refused(t, b.Resume(out), 1, "the input changed since the run began")
}

// interrupted starts runs until one of them is stopped by a signal after its first commit.
func (b *bed) interrupted(t *testing.T, s syscall.Signal) string {
	t.Helper()
	for i := range 20 {
		out := fmt.Sprintf("interrupted%d", i)
		cmd := b.Run(nil, out)
		e2e.Start(t, cmd)
		folder := filepath.Join(b.Dir, out, "r")
		for until := time.Now().Add(20 * time.Second); time.Now().Before(until); time.Sleep(time.Millisecond) {
			if _, err := os.Stat(filepath.Join(folder, "records", "commit.json")); err == nil {
				break
			}
		}
		_ = cmd.Process.Signal(s)
		_ = cmd.Wait()
		if _, err := os.Stat(filepath.Join(folder, "manifest.json")); err != nil {
			return out
		}
	}
	t.Fatal("all runs were done before the signal came")
	return ""
}

func TestResumeRefusesAnotherVersion(t *testing.T) {
	b := newBed(t, 5)
	b.Must(t, b.Run(nil, "whole"))
	path := filepath.Join("whole", "r", "records", "begun.json")
	text, err := os.ReadFile(filepath.Join(b.Dir, path))
	if err != nil {
		t.Fatal(err)
	}
	log := fmt.Sprintf(`"record_log_version": %d`, recordlog.Version)
	for old, changed := range map[string]string{log: `"record_log_version": 99`, `"nat_go": "`: `"nat_go": "v0.0.1-`} {
		t.Run(old, func(t *testing.T) {
			unfinish(t, b, "whole")
			b.Write(t, path, strings.Replace(string(text), old, changed, 1))
			b.Refused(t, b.Resume("whole"), 3, "run was started by nat-go", "never made by two versions")
		})
	}
	b.Write(t, path, string(text))
	b.Must(t, b.Resume("whole"))
}

func TestResumeOfACompleteRun(t *testing.T) {
	b := newBed(t, 5)
	b.Must(t,
		b.Command(nil, "finetune", "run", "--config-file", "finetune.yml", "--run-id", "r", "--output-dir", "dry",
			"--dry-run"))
	want := b.Content(t, "dry")
	if err := os.Remove(filepath.Join(b.Dir, "in.json")); err != nil { // it is no longer needed
		t.Fatal(err)
	}
	r := b.Must(t, b.Resume("dry"))
	if !strings.Contains(r.Stdout, "the data set was already complete") {
		t.Errorf("it says %q", r.Stdout)
	}
	got := b.Content(t, "dry")
	if _, ok := got["job.json"]; !ok {
		t.Error("the data set of the dry run was not submitted")
	}
	for name, sum := range want {
		if got[name] != sum {
			t.Errorf("%s was written again", name)
		}
	}
}

// TestResumeOfARenamedFolder checks that a run keeps its name, which is how services know its job.
func TestResumeOfARenamedFolder(t *testing.T) {
	b := newBed(t, 5)
	b.Must(t,
		b.Command(nil, "finetune", "run", "--config-file", "finetune.yml", "--run-id", "r", "--output-dir", "dry",
			"--dry-run"))
	if err := os.Rename(filepath.Join(b.Dir, "dry", "r"), filepath.Join(b.Dir, "elsewhere")); err != nil {
		t.Fatal(err)
	}
	r := b.Must(t, b.Command(nil, "finetune", "resume", "elsewhere"))
	if !strings.Contains(r.Stdout, "run r  completed") || !strings.Contains(r.Stdout, "elsewhere/dataset") {
		t.Errorf("it says %q", r.Stdout)
	}
}

// TestInterrupted interrupts runs with SIGINT and SIGTERM.
func TestInterrupted(t *testing.T) {
	b := newBed(t, 700)
	b.Must(t, b.Run(nil, "whole"))
	want := b.Content(t, "whole")
	for s, code := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143} {
		caught := false
		for i := 0; i < 20 && !caught; i++ {
			out := fmt.Sprintf("%d-%d", s, i)
			cmd := b.Run(nil, out)
			var text bytes.Buffer
			cmd.Stdout, cmd.Stderr = &text, &text
			e2e.Start(t, cmd)
			for !exists(b.Dir, out, "r", "records", "records.log") {
				time.Sleep(time.Millisecond)
			}
			_ = cmd.Process.Signal(s)
			_ = cmd.Wait()
			if cmd.ProcessState.ExitCode() == 0 {
				continue // it was done
			}
			caught = true
			if got := cmd.ProcessState.ExitCode(); got != code ||
				!strings.Contains(text.String(), "interrupted; nothing was submitted") ||
				!strings.Contains(text.String(), "finetune resume") {
				t.Errorf("%v: exit %d, want %d: %s", s, got, code, text.String())
			}
			for name := range b.Content(t, out) {
				if strings.HasPrefix(filepath.Base(name), ".nat-go-") {
					t.Errorf("%v leaves %s", s, name)
				}
			}
			b.Must(t, b.Resume(out))
			b.Same(t, want, out)
		}
		if !caught {
			t.Errorf("%v: every run ended before the signal came", s)
		}
	}
}

// TestOneRunAtATime starts two runs with the same id at once, and resumes one that is still running.
func TestOneRunAtATime(t *testing.T) {
	b := newBed(t, 300)
	b.Must(t, b.Run(nil, "whole"))
	want := b.Content(t, "whole")
	results := make(chan e2e.Result, 2)
	for range 2 {
		go func() { results <- e2e.Finish(t, b.Run(nil, "both")) }()
	}
	for !exists(b.Dir, "both", "r", "records", "begun.json") {
		time.Sleep(time.Millisecond)
	}
	if r := e2e.Finish(t, b.Resume("both")); r.Code != 0 &&
		(r.Code != 2 || !strings.Contains(r.Stderr, "is working on the run")) {
		t.Errorf("resume of a running run: exit %d: %s", r.Code, r.Stderr)
	}
	one, other := <-results, <-results
	if one.Code != 0 {
		one, other = other, one
	}
	if one.Code != 0 || other.Code != 2 || !strings.Contains(other.Stderr, "choose another --run-id") {
		t.Errorf("exits %d and %d: %s%s", one.Code, other.Code, one.Stderr, other.Stderr)
	}
	b.Same(t, want, "both")
}

// TestFullDisk runs on a disk that is too small: this is reported before the run if it is certain, and otherwise the
// run is resumed with more space.
func TestFullDisk(t *testing.T) {
	b := newBed(t, 700)
	b.Must(t, b.Run(nil, "whole"))
	want := b.Content(t, "whole")
	disk := func(options string) {
		t.Helper()
		if out, err := exec.Command("mount", "-t", "tmpfs", "-o", options, "tmpfs", filepath.Join(b.Dir, "disk")).
			CombinedOutput(); err != nil {
			t.Skipf("SKIPPED: a full disk can't be tested without the right to mount one: %s", out)
		}
	}
	if err := os.Mkdir(filepath.Join(b.Dir, "disk"), 0o755); err != nil {
		t.Fatal(err)
	}
	disk("size=1m")
	t.Cleanup(func() { _ = exec.Command("umount", filepath.Join(b.Dir, "disk")).Run() })
	b.Refused(t, b.Run(nil, "disk"), 3, "disk of disk has 1.0 MiB free", "--output-dir")
	if exists(b.Dir, "disk", "r") {
		t.Error("a run folder was made")
	}
	for _, size := range []string{"26m", "32m", "40m"} {
		t.Run(size, func(t *testing.T) { // it fills up while writing the log or the rows
			disk("remount,size=" + size)
			run := b.Run(nil, "disk")
			if exists(b.Dir, "disk", "r") {
				run = b.Resume("disk")
			}
			b.Refused(t, run, 3, "no space left on device", "make room on the disk", "finetune resume")
			for name := range b.Content(t, "disk") {
				if strings.HasPrefix(filepath.Base(name), ".nat-go-") {
					t.Errorf("a full disk leaves %s", name)
				}
			}
		})
	}
	disk("remount,size=200m")
	b.Must(t, b.Resume("disk"))
	b.Same(t, want, "disk")
	disk("remount,ro")
	b.Refused(t,
		b.Command(nil, "finetune", "run", "--config-file", "finetune.yml", "--run-id", "other", "--output-dir", "disk"),
		3, "cannot create the run folder", "read-only file system")
}

// TestFinalMetricsOfAResumedRun: a run whose data set was complete reports the same collection runs as one made in a
// single pass.
func TestFinalMetricsOfAResumedRun(t *testing.T) {
	p := e2e.NewLocal(t)
	p.Release()
	p.NatGo(t, 0, p.RunArgs()...)
	p.NatGo(t, 0, append(p.RunArgs("--dry-run"), "--run-id", "r2")...)
	p.NatGo(t, 0, "finetune", "resume", "out/r2")
	var got [2]struct {
		Runs    int            `json:"num_collection_runs"`
		Summary map[string]any `json:"collection_summary"`
	}
	for i, id := range []string{"r1", "r2"} {
		text, err := os.ReadFile(filepath.Join(p.Dir, "out", id, "final_metrics.json"))
		if err == nil {
			err = json.Unmarshal(text, &got[i])
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if d := cmp.Diff(got[0], got[1]); d != "" || got[0].Runs == 0 {
		t.Errorf("resumed, it is another (-in one go +resumed):\n%s", d)
	}
}

// unfinish removes the end of a completed run, leaving what a kill just before it would have left.
func unfinish(t *testing.T, b *bed, out string) {
	t.Helper()
	for _, name := range []string{"manifest.json", "job.json", "dataset", "dropped.jsonl"} {
		if err := os.RemoveAll(filepath.Join(b.Dir, out, "r", name)); err != nil {
			t.Fatal(err)
		}
	}
}
