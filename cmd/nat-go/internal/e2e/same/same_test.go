package same

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/e2e"
)

var update = flag.Bool("update", false, "write testdata/same.txt anew")

// formats are those that the data set of every job is converted to.
var formats = []string{"trl", "messages", "kto", "openai", "nemo_rl", "verl", "customizer", "atropos", "trl.parquet"}

func TestMain(m *testing.M) { e2e.Main(m) }

// TestJobsHaveInputs: a job that names a file which isn't there would record the error for ever.
func TestJobsHaveInputs(t *testing.T) {
	a, err := txtar.ParseFile(filepath.Join("testdata", "inputs.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{}
	for _, f := range a.Files {
		there[f.Name] = true
	}
	root := filepath.Join("..", "..", "..", "..", "..")
	for _, f := range a.Files {
		for _, j := range jobs(string(f.Data), root) {
			if f.Name == "jobs" && !there[j.args[0]] && !exists(j.args[0]) {
				t.Errorf("%s: no input %s", j.name, j.args[0])
			}
		}
		if f.Name == "jobs" {
			return
		}
	}
	t.Error("no jobs")
}

// TestSame does every job and compares the hashes of all that it leaves with testdata/same.txt. It also does each job
// again in every other way - killed and resumed, in three shards, and planned - and expects the same data set.
func TestSame(t *testing.T) {
	if testing.Short() {
		t.Skip("-short")
	}
	b := newBench(t)
	var got strings.Builder
	for _, j := range b.jobs {
		t.Run(j.name, func(t *testing.T) {
			lines := b.do(t, j)
			for _, l := range lines {
				fmt.Fprintf(&got, "%s %s\n", j.name, l)
			}
		})
	}
	if b.resumed == 0 {
		t.Error("every job was killed too early or too late: none was resumed")
	}
	t.Logf("%d jobs, %d of them killed under way and resumed", len(b.jobs), b.resumed)
	t.Run("merge", func(t *testing.T) {
		for _, l := range b.merge(t, "answers", "answers-all") {
			fmt.Fprintf(&got, "merge %s\n", l)
		}
	})
	t.Run("collate", func(t *testing.T) {
		fmt.Fprintf(&got, "collate %s\n", b.collate(t))
	})
	name := filepath.Join("testdata", "same.txt")
	if *update {
		if err := os.WriteFile(name, []byte(got.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got.String(), "\n")); diff != "" {
		t.Errorf("the outputs differ from testdata/same.txt (-want +got); if this is intended, "+
			"write it with -update and name each difference in the change:\n%s", diff)
	}
}

type job struct {
	name string
	args []string
}

// bench is a folder with the inputs, in which the program runs.
type bench struct {
	program, root, dir string
	jobs               []job
	resumed            int // jobs that were killed after they had begun and before they were done
}

func newBench(t *testing.T) *bench {
	t.Helper()
	a, err := txtar.ParseFile(filepath.Join("testdata", "inputs.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs(filepath.Join("..", "..", "..", "..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{program: e2e.Program(t), root: root, dir: t.TempDir()}
	for _, f := range a.Files {
		if f.Name == "jobs" {
			b.jobs = jobs(string(f.Data), root)
			continue
		}
		if err := os.WriteFile(filepath.Join(b.dir, f.Name), f.Data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

func jobs(text, root string) (all []job) {
	for line := range strings.Lines(strings.ReplaceAll(text, "ROOT", root)) {
		name, args, _ := strings.Cut(strings.TrimSpace(line), ": ")
		all = append(all, job{name, strings.Fields(args)})
	}
	return all
}

// do runs a job in every way and returns what is to be recorded of it.
func (b *bench) do(t *testing.T, j job) (lines []string) {
	t.Helper()
	ran := b.run(t, append([]string{"run", "--output-dir", "run", "--run-id", j.name, "--json"}, j.args...)...)
	lines = append(lines, "run "+ran.summary())
	folder := filepath.Join(b.dir, "run", j.name)
	lines = append(lines, b.hashes(t, folder, outputs...)...)
	planned := b.run(t, append([]string{"run", "--plan", "--run-id", j.name, "--json"}, j.args...)...)
	lines = append(lines, "plan "+planned.summary())
	if !exists(filepath.Join(folder, "manifest.json")) {
		return lines
	}
	want := b.hashes(t, folder, outputs...)
	b.resume(t, j, want)
	b.shards(t, j, want)
	verified := b.run(t, "dataset", "verify", "--json", filepath.Join("run", j.name))
	lines = append(lines, "verify "+verified.summary())
	for _, f := range formats {
		to := filepath.Join(b.dir, "converted", j.name, f)
		converted := b.run(t, "dataset", "convert", filepath.Join("run", j.name), "--format", f, "--output", to,
			"--json")
		lines = append(lines, fmt.Sprintf("convert %s exit %d", f, converted.code))
		if converted.code == 0 {
			lines = append(lines, b.hashes(t, to, ".")...)
		}
	}
	return lines
}

// resume kills the job at a time that differs from job to job, continues it and expects the same files.
func (b *bench) resume(t *testing.T, j job, want []string) {
	t.Helper()
	out := filepath.Join(b.dir, "killed")
	cmd := b.command(append([]string{"run", "--output-dir", out, "--run-id", j.name, "--json"}, j.args...)...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Duration(30+10*len(j.name)) * time.Millisecond) // wait: any moment will do
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	folder := filepath.Join(out, j.name)
	if !exists(filepath.Join(folder, "records", "begun.json")) {
		return // killed before there was anything to continue
	}
	if !exists(filepath.Join(folder, "manifest.json")) {
		b.resumed++
	}
	b.run(t, "finetune", "resume", folder, "--json")
	if diff := cmp.Diff(want, b.hashes(t, folder, outputs...)); diff != "" {
		t.Errorf("killed and resumed (-run +resumed):\n%s", diff)
	}
}

// shards builds the job in three shards, merges them and expects the same files.
func (b *bench) shards(t *testing.T, j job, want []string) {
	t.Helper()
	plan := filepath.Join(b.dir, "plans", j.name)
	out := filepath.Join(b.dir, "merged")
	args := append([]string{
		"shard", "plan", "--output-dir", out, "--plan-dir", plan, "--run-id", j.name, "--shards",
		"3",
	}, j.args...)
	if b.run(t, args...).code != 0 {
		return // compat, or an input that can't be divided
	}
	for _, stage := range stages(t, plan) {
		for i := range 3 {
			b.run(t, "shard", "run", plan, "--index", strconv.Itoa(i), "--stage", stage)
		}
	}
	b.run(t, "shard", "merge", plan, "--json")
	if diff := cmp.Diff(want, b.hashes(t, filepath.Join(out, j.name), outputs...)); diff != "" {
		t.Errorf("in three shards (-run +merged):\n%s", diff)
	}
}

// stages returns the stages that each shard of a plan runs.
func stages(t *testing.T, plan string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(plan, "plan.json"))
	if err != nil {
		t.Fatal(err)
	}
	var read struct{ Tasks bool }
	if err := json.Unmarshal(text, &read); err != nil {
		t.Fatal(err)
	}
	if read.Tasks {
		return []string{"build", "group"}
	}
	return []string{"build"}
}

func (b *bench) merge(t *testing.T, runs ...string) []string {
	t.Helper()
	args := []string{"dataset", "merge", "--run-id", "joined", "--to", filepath.Join(b.dir, "joined"), "--json"}
	for _, r := range runs {
		args = append(args, filepath.Join("run", r))
	}
	merged := b.run(t, args...)
	lines := []string{"run " + merged.summary()}
	if exists(filepath.Join(b.dir, "joined")) {
		lines = append(lines, b.hashes(t, filepath.Join(b.dir, "joined"), outputs...)...)
	}
	return lines
}

// collate asks nat-go collate for the batches of the example's traces.
func (b *bench) collate(t *testing.T) string {
	t.Helper()
	traces, err := os.ReadFile(filepath.Join(b.root, "examples", "hints", "traces.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	settings := fmt.Sprintf(`{"tokenizer": %q, "channels": ["sft"]}`, filepath.Join(b.root, "examples", "hints", "tokenizer"))
	list := strings.Join(strings.Split(strings.TrimSpace(string(traces)), "\n"), ",")
	cmd := b.command("collate")
	cmd.Stdin = io.MultiReader(frame(settings), frame(`{"id": 1, "traces": [`+list+`]}`))
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return sum(out)
}

func frame(text string) io.Reader {
	return bytes.NewReader(append(binary.LittleEndian.AppendUint32(nil, uint32(len(text))), text...))
}

// command runs the program with portable kernels, whose sums are the same on every machine.
func (b *bench) command(args ...string) *exec.Cmd {
	cmd := exec.Command(b.program, args...)
	cmd.Dir = b.dir
	cmd.Env = append(os.Environ(), "NATGO_KERNELS=purego", "NO_COLOR=1")
	return cmd
}

// result is the end of a command: its exit status and the JSON object it printed.
type result struct {
	code   int
	stdout []byte
}

func (b *bench) run(t *testing.T, args ...string) result {
	t.Helper()
	cmd := b.command(args...)
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return result{code: cmd.ProcessState.ExitCode(), stdout: out}
}

// summary returns the exit status and what the JSON says in codes and numbers, without texts for people.
func (r result) summary() string {
	var v any
	if json.Unmarshal(r.stdout, &v) != nil {
		return fmt.Sprintf("exit %d", r.code)
	}
	text, err := json.Marshal(codes(v))
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("exit %d %s", r.code, text)
}

// texts are members whose values are written for people or say where the run happened to be.
var texts = []string{
	"chosen", "detail", "dir", "error", "file", "fix", "job", "message", "path", "run_dir", "dataset_dir", "snippet",
	"warnings", "took", "seconds", "nat_go",
}

func codes(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, x := range v {
			if !slices.Contains(texts, k) {
				out[k] = codes(x)
			}
		}
		return out
	case []any:
		for i := range v {
			v[i] = codes(v[i])
		}
	}
	return v
}

// outputs are what a run leaves that must not depend on when, where and in how many pieces it ran.
var outputs = []string{"dataset", "batches", "dropped.jsonl", "contamination.jsonl"}

// hashes returns a line for each file at and below the paths of folder; of drops, without their texts.
func (b *bench) hashes(t *testing.T, folder string, paths ...string) (lines []string) {
	t.Helper()
	for _, p := range paths {
		err := filepath.WalkDir(filepath.Join(folder, p), func(path string, d fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err != nil || d.IsDir() {
				return err
			}
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			if d.Name() == "dropped.jsonl" {
				data = b.withoutTexts(data)
			}
			name, err := filepath.Rel(folder, path)
			lines = append(lines, filepath.ToSlash(name)+" "+sum(data))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return lines
}

func (b *bench) withoutTexts(lines []byte) (out []byte) {
	for line := range bytes.Lines(lines) {
		var v any
		if json.Unmarshal(line, &v) != nil {
			return lines
		}
		text, err := json.Marshal(codes(v))
		if err != nil {
			return lines
		}
		out = append(append(out, text...), '\n')
	}
	return out
}

func sum(data []byte) string {
	h := sha256.Sum256(data)
	return hex.EncodeToString(h[:6])
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
