package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/bench"
)

// These tests end the program, or its builders' process, at some point during a run, and check that `finetune resume`
// completes it with the bytes of the undisturbed run, and nothing else.

// bed is a folder with an input and a configuration to make runs with.
type bed struct {
	dir, exe string
	env      []string

	pluginsKilled int
}

// newBed returns a bed with an input of a few megabytes and a record log that is committed every 256 KiB.
func newBed(t *testing.T, examples int) *bed {
	t.Helper()
	if testing.Short() {
		t.Skip("-short")
	}
	b := &bed{dir: t.TempDir(), exe: program(t), env: append(os.Environ(), "NO_COLOR=1", commitBytesVariable+"=262144")}
	b.generate(t, "in.json", bench.Shape{Examples: examples, Turns: 2, Candidates: 6, Seed: 7})
	b.write(t, "finetune.yml", `
trajectory_builders: {b: {_type: dpo_traj_builder, max_pairs_per_turn: 9}}
sources: {runs: {_type: workflow_output, path: in.json}}
plugins: {nat-go: {instances: ${INSTANCES:-1}}}
dataset: {formats: [customizer, trl]}
finetuning: {enabled: true, trajectory_builder: b, output_dir: out}
`)
	return b
}

func (b *bed) generate(t *testing.T, name string, s bench.Shape) {
	t.Helper()
	var text bytes.Buffer
	if err := bench.Generate(&text, s); err != nil {
		t.Fatal(err)
	}
	b.write(t, name, text.String())
}

func (b *bed) write(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join(b.dir, name)
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.WriteFile(path, []byte(text), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (b *bed) command(env []string, args ...string) *exec.Cmd {
	cmd := exec.Command(b.exe, args...)
	cmd.Dir, cmd.Env = b.dir, append(b.env[:len(b.env):len(b.env)], env...)
	return cmd
}

// run starts a run in its own output folder, so that runs can have the same id.
func (b *bed) run(env []string, out string) *exec.Cmd {
	return b.command(env, "finetune", "run", "--config-file", "finetune.yml", "--run-id", "r", "--output-dir", out)
}

// must runs a command that must succeed.
func (b *bed) must(t *testing.T, cmd *exec.Cmd) result {
	t.Helper()
	r := finish(t, cmd)
	if r.code != 0 {
		t.Fatalf("%s: exit %d: %s", strings.Join(cmd.Args[1:], " "), r.code, r.stderr)
	}
	return r
}

// refused runs a command that must end with the given code and say why.
func (b *bed) refused(t *testing.T, cmd *exec.Cmd, code int, why ...string) {
	t.Helper()
	r := finish(t, cmd)
	if r.code != code {
		t.Errorf("%s: exit %d, want %d: %s", strings.Join(cmd.Args[1:], " "), r.code, code, r.stderr)
	}
	for _, w := range why {
		if !strings.Contains(r.stderr+r.stdout, w) {
			t.Errorf("%s says %q, want %q in it", strings.Join(cmd.Args[1:], " "), r.stderr, w)
		}
	}
}

func (b *bed) resume(out string) *exec.Cmd {
	return b.command(nil, "finetune", "resume", filepath.Join(out, "r"))
}

// same compares a run folder with that of the undisturbed run.
func (b *bed) same(t *testing.T, want map[string]string, out string) {
	t.Helper()
	if d := cmp.Diff(want, b.content(t, out)); d != "" {
		t.Errorf("%s is another data set (-want +got):\n%s", out, d)
	}
}

// unfinish removes the end of a completed run, leaving what a kill just before it would have left.
func (b *bed) unfinish(t *testing.T, out string) {
	t.Helper()
	for _, name := range []string{"manifest.json", "job.json", "dataset", "dropped.jsonl"} {
		if err := os.RemoveAll(filepath.Join(b.dir, out, "r", name)); err != nil {
			t.Fatal(err)
		}
	}
}

// withTimes lists the files that contain times, or where the run was made.
var withTimes = map[string]bool{
	"job.json": true, "data_collection_progress.jsonl": true, "collection_history.json": true,
	"final_metrics.json": true, "records/begun.json": true,
}

// metricsTime matches the time at which a builder's metrics were written.
var metricsTime = regexp.MustCompile(`"timestamp":"[^"]*"`)

// hashOfTimes matches the manifest's entries for them. The last of them is written when a job has ended, by whichever
// process is waiting.
var hashOfTimes = regexp.MustCompile(
	`\{\s*"path": "(?:data_collection_progress.jsonl|dpo_trajectory_builder_[^"]*|` +
		`collection_history.json|final_metrics.json|records/begun.json)",` +
		`\s*"bytes": \d+,\s*"xxh3": "[0-9a-f]+"\s*\},\s*`)

// content returns the parts of a run folder that don't depend on when it was made, as path -> sum.
func (b *bed) content(t *testing.T, out string) map[string]string {
	t.Helper()
	files := map[string]string{}
	root := filepath.Join(b.dir, out, "r")
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		name, _ := filepath.Rel(root, path)
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		sum := sha256.New()
		if name != "manifest.json" && !strings.HasPrefix(name, "dpo_trajectory_builder_") { // it may be large
			if _, err := io.Copy(sum, f); err != nil {
				return err
			}
		}
		text, err := io.ReadAll(f)
		if err != nil {
			return err
		}
		if name == "manifest.json" { // contains the hashes of files with times
			text = hashOfTimes.ReplaceAll(text, nil)
			text = bytes.ReplaceAll(text, []byte(out+"/r "), []byte("OUT/r ")) // commands that it suggests
		}
		if strings.HasPrefix(name, "dpo_trajectory_builder_") {
			text = metricsTime.ReplaceAll(text, nil)
		}
		sum.Write(text)
		files[name] = hex.EncodeToString(sum.Sum(nil))
		if withTimes[filepath.ToSlash(name)] {
			files[name] = "has times" // or the output folder
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

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
	b.must(t, b.run(nil, "whole"))
	want := b.content(t, "whole")
	took := time.Hour
	for _, setup := range [][]string{{"INSTANCES=2"}, {"GOMAXPROCS=1"}, {"GOMAXPROCS=1", "INSTANCES=2"}} {
		out := "undisturbed-" + strings.Join(setup, "-")
		began := time.Now()
		b.must(t, b.run(setup, out))
		took = min(took, time.Since(began))
		if d := cmp.Diff(want, b.content(t, out)); d != "" {
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
				resume := b.command(env, "finetune", "resume", filepath.Join(out, "r"))
				start(t, resume)
				time.Sleep(time.Duration(r.Float64() * float64(took)))
				_ = resume.Process.Kill()
				_ = resume.Wait()
			}
			if r := finish(t, b.command(env, "finetune", "resume", filepath.Join(out, "r"))); r.code != 0 {
				t.Fatalf("killed after %s: resume: exit %d: %s", after, r.code, r.stderr)
			}
		}
		if d := cmp.Diff(want, b.content(t, out)); d != "" {
			t.Fatalf("killed after %s, then resumed, gives another data set (-want +got):\n%s", after, d)
		}
		if err := os.RemoveAll(filepath.Join(b.dir, out)); err != nil {
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
	cmd := b.run(env, out)
	var text bytes.Buffer
	cmd.Stderr = &text
	start(t, cmd)
	time.Sleep(after)
	if plugin {
		for _, pid := range children(t, cmd.Process.Pid) {
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
	if _, err := os.Stat(filepath.Join(b.dir, out, "r", "records", "begun.json")); err == nil {
		return true
	}
	if r := finish(t, b.run(env, out)); r.code != 0 {
		t.Fatalf("killed after %s, before it had begun, and run again: exit %d: %s", after, r.code, r.stderr)
	}
	return false
}

func start(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
}

// children returns the processes started by any thread of a process.
func children(t *testing.T, pid int) (out []int) {
	t.Helper()
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range lists {
		text, _ := os.ReadFile(list) // it may have gone
		for _, f := range strings.Fields(string(text)) {
			if n, err := strconv.Atoi(f); err == nil {
				out = append(out, n)
			}
		}
	}
	return out
}

func TestResumeRefusesAChangedInput(t *testing.T) {
	b := newBed(t, 20)
	b.must(t, b.run(nil, "whole"))
	want := b.content(t, "whole")
	b.unfinish(t, "whole")
	in := filepath.Join(b.dir, "in.json")
	info, err := os.Stat(in)
	if err != nil {
		t.Fatal(err)
	}
	b.generate(t, "in.json", bench.Shape{Examples: 21, Turns: 2, Candidates: 6, Seed: 7})
	b.refused(t, b.resume("whole"), 1, "the input in.json changed since the run began")
	if err := os.Remove(in); err != nil {
		t.Fatal(err)
	}
	b.refused(t, b.resume("whole"), 3, "in.json", "no such file")
	b.generate(t, "in.json", bench.Shape{Examples: 20, Turns: 2, Candidates: 6, Seed: 7})
	if err := os.Chtimes(in, info.ModTime(), info.ModTime()); err != nil {
		t.Fatal(err)
	}
	b.must(t, b.resume("whole"))
	b.same(t, want, "whole")
}

// TestResumeReadsTheInputAgain changes the part of an input that was already read, keeping its size and time: the
// rolling hash reveals it.
func TestResumeReadsTheInputAgain(t *testing.T) {
	b := newBed(t, 700)
	out := b.interrupted(t, syscall.SIGKILL)
	in := filepath.Join(b.dir, "in.json")
	info, err := os.Stat(in)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(in)
	if err != nil {
		t.Fatal(err)
	}
	text = bytes.Replace(text, []byte("shipping"), []byte("SHIPPING"), 1)
	b.write(t, "in.json", string(text))
	if err := os.Chtimes(in, info.ModTime(), info.ModTime()); err != nil {
		t.Fatal(err)
	}
	b.refused(t, b.resume(out), 1, "the input changed since the run began")
}

// interrupted starts runs until one of them is stopped by a signal after its first commit.
func (b *bed) interrupted(t *testing.T, s syscall.Signal) string {
	t.Helper()
	for i := range 20 {
		out := fmt.Sprintf("interrupted%d", i)
		cmd := b.run(nil, out)
		start(t, cmd)
		folder := filepath.Join(b.dir, out, "r")
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
	b.must(t, b.run(nil, "whole"))
	path := filepath.Join("whole", "r", "records", "begun.json")
	text, err := os.ReadFile(filepath.Join(b.dir, path))
	if err != nil {
		t.Fatal(err)
	}
	for old, changed := range map[string]string{`"record_log_version": 2`: `"record_log_version": 99`, `"nat_go": "`: `"nat_go": "v0.0.1-`} {
		t.Run(old, func(t *testing.T) {
			b.unfinish(t, "whole")
			b.write(t, path, strings.Replace(string(text), old, changed, 1))
			b.refused(t, b.resume("whole"), 3, "the run was begun by nat-go", "never made by two versions")
		})
	}
	b.write(t, path, string(text))
	b.must(t, b.resume("whole"))
}

func TestResumeOfACompleteRun(t *testing.T) {
	b := newBed(t, 5)
	b.must(t,
		b.command(nil, "finetune", "run", "--config-file", "finetune.yml", "--run-id", "r", "--output-dir", "dry",
			"--dry-run"))
	want := b.content(t, "dry")
	if err := os.Remove(filepath.Join(b.dir, "in.json")); err != nil { // it is no longer needed
		t.Fatal(err)
	}
	r := b.must(t, b.resume("dry"))
	if !strings.Contains(r.stdout, "the data set was complete already") {
		t.Errorf("it says %q", r.stdout)
	}
	got := b.content(t, "dry")
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
	b.must(t,
		b.command(nil, "finetune", "run", "--config-file", "finetune.yml", "--run-id", "r", "--output-dir", "dry",
			"--dry-run"))
	if err := os.Rename(filepath.Join(b.dir, "dry", "r"), filepath.Join(b.dir, "elsewhere")); err != nil {
		t.Fatal(err)
	}
	r := b.must(t, b.command(nil, "finetune", "resume", "elsewhere"))
	if !strings.Contains(r.stdout, "run r  completed") || !strings.Contains(r.stdout, "elsewhere/dataset") {
		t.Errorf("it says %q", r.stdout)
	}
}

// TestInterrupted interrupts runs with SIGINT and SIGTERM.
func TestInterrupted(t *testing.T) {
	b := newBed(t, 700)
	b.must(t, b.run(nil, "whole"))
	want := b.content(t, "whole")
	for s, code := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143} {
		caught := false
		for i := 0; i < 20 && !caught; i++ {
			out := fmt.Sprintf("%d-%d", s, i)
			cmd := b.run(nil, out)
			var text bytes.Buffer
			cmd.Stdout, cmd.Stderr = &text, &text
			start(t, cmd)
			for !exists(b.dir, out, "r", "records", "records.log") {
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
			for name := range b.content(t, out) {
				if strings.HasPrefix(filepath.Base(name), ".nat-go-") {
					t.Errorf("%v leaves %s", s, name)
				}
			}
			b.must(t, b.resume(out))
			b.same(t, want, out)
		}
		if !caught {
			t.Errorf("%v: every run ended before the signal came", s)
		}
	}
}

func exists(path ...string) bool {
	_, err := os.Stat(filepath.Join(path...))
	return err == nil
}

// TestOneRunAtATime starts two runs with the same id at once, and resumes one that is still running.
func TestOneRunAtATime(t *testing.T) {
	b := newBed(t, 300)
	b.must(t, b.run(nil, "whole"))
	want := b.content(t, "whole")
	results := make(chan result, 2)
	for range 2 {
		go func() { results <- finish(t, b.run(nil, "both")) }()
	}
	for !exists(b.dir, "both", "r", "records", "begun.json") {
		time.Sleep(time.Millisecond)
	}
	if r := finish(t, b.resume("both")); r.code != 0 &&
		(r.code != 2 || !strings.Contains(r.stderr, "is working on the run")) {
		t.Errorf("resume of a running run: exit %d: %s", r.code, r.stderr)
	}
	one, other := <-results, <-results
	if one.code != 0 {
		one, other = other, one
	}
	if one.code != 0 || other.code != 2 || !strings.Contains(other.stderr, "choose another --run-id") {
		t.Errorf("exits %d and %d: %s%s", one.code, other.code, one.stderr, other.stderr)
	}
	b.same(t, want, "both")
}

// TestFullDisk runs on a disk that is too small: this is reported before the run if it is certain, and otherwise the
// run is resumed with more space.
func TestFullDisk(t *testing.T) {
	b := newBed(t, 700)
	b.must(t, b.run(nil, "whole"))
	want := b.content(t, "whole")
	disk := func(options string) {
		t.Helper()
		if out, err := exec.Command("mount", "-t", "tmpfs", "-o", options, "tmpfs", filepath.Join(b.dir, "disk")).
			CombinedOutput(); err != nil {
			t.Skipf("SKIPPED: a full disk can't be tested without the right to mount one: %s", out)
		}
	}
	if err := os.Mkdir(filepath.Join(b.dir, "disk"), 0o755); err != nil {
		t.Fatal(err)
	}
	disk("size=1m")
	t.Cleanup(func() { _ = exec.Command("umount", filepath.Join(b.dir, "disk")).Run() })
	b.refused(t, b.run(nil, "disk"), 3, "the disk of disk has 1.0 MiB free", "--output-dir")
	if exists(b.dir, "disk", "r") {
		t.Error("a run folder was made")
	}
	for _, size := range []string{"26m", "32m", "40m"} {
		t.Run(size, func(t *testing.T) { // it fills up while writing the log or the rows
			disk("remount,size=" + size)
			run := b.run(nil, "disk")
			if exists(b.dir, "disk", "r") {
				run = b.resume("disk")
			}
			b.refused(t, run, 3, "no space left on device", "make room on the disk", "finetune resume")
			for name := range b.content(t, "disk") {
				if strings.HasPrefix(filepath.Base(name), ".nat-go-") {
					t.Errorf("a full disk leaves %s", name)
				}
			}
		})
	}
	disk("remount,size=200m")
	b.must(t, b.resume("disk"))
	b.same(t, want, "disk")
	disk("remount,ro")
	b.refused(t,
		b.command(nil, "finetune", "run", "--config-file", "finetune.yml", "--run-id", "other", "--output-dir", "disk"),
		3, "can't make the run folder", "read-only file system")
}

// TestFinalMetricsOfAResumedRun: a run whose data set was complete reports the same collection runs as one made in a
// single pass.
func TestFinalMetricsOfAResumedRun(t *testing.T) {
	p := newLocal(t)
	p.release()
	p.natgo(t, 0, p.runArgs()...)
	p.natgo(t, 0, append(p.runArgs("--dry-run"), "--run-id", "r2")...)
	p.natgo(t, 0, "finetune", "resume", "out/r2")
	var got [2]struct {
		Runs    int            `json:"num_collection_runs"`
		Summary map[string]any `json:"collection_summary"`
	}
	for i, id := range []string{"r1", "r2"} {
		text, err := os.ReadFile(filepath.Join(p.dir, "out", id, "final_metrics.json"))
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
