package e2e

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/bench"
	"github.com/nat-go/nat-go/internal/durable"
)

// commitBytes is the environment variable that tests set to commit the record log more often than a normal run would.
const commitBytes = "NATGO_TEST_COMMIT_BYTES"

// Bed is a folder with an input and a configuration for runs.
type Bed struct {
	Dir, Exe string
	Env      []string
}

// NewBed returns a bed with an input of the given number of examples. Its runs commit the record log every 256 KiB.
func NewBed(t *testing.T, examples int) *Bed {
	b := newBed(t, 262144)
	b.Generate(t, "in.json", bench.Shape{Examples: examples, Turns: 2, Candidates: 6, Seed: 7})
	b.Write(t, "finetune.yml", config(t, "workflow.yml"))
	return b
}

//go:embed testdata/*.yml
var configs embed.FS

// config returns a configuration.
func config(t *testing.T, name string) string {
	t.Helper()
	text, err := configs.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Generate writes a workflow output of the given shape.
func (b *Bed) Generate(t *testing.T, name string, s bench.Shape) {
	t.Helper()
	var text bytes.Buffer
	if err := bench.Generate(&text, s); err != nil {
		t.Fatal(err)
	}
	b.Write(t, name, text.String())
}

// Write writes a file inside the bed's folder.
func (b *Bed) Write(t *testing.T, name, text string) {
	t.Helper()
	write(t, b.Dir, name, text)
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
}

// Command returns a command that runs the program in the folder, with additional environment variables.
func (b *Bed) Command(env []string, args ...string) *exec.Cmd {
	cmd := exec.Command(b.Exe, args...)
	cmd.Dir, cmd.Env = b.Dir, append(b.Env[:len(b.Env):len(b.Env)], env...)
	return cmd
}

// Run returns the command for a run with its own output folder, so that several runs can have the same id.
func (b *Bed) Run(env []string, out string) *exec.Cmd {
	return b.Command(env, "finetune", "run", "--config-file", "finetune.yml", "--run-id", "r", "--output-dir", out)
}

// Must runs a command that must succeed.
func (b *Bed) Must(t *testing.T, cmd *exec.Cmd) Result {
	t.Helper()
	r := Finish(t, cmd)
	if r.Code != 0 {
		t.Fatalf("%s: exit %d: %s", strings.Join(cmd.Args[1:], " "), r.Code, r.Stderr)
	}
	return r
}

// Refused runs a command that must exit with the given code. Its output must contain each string in why.
func (b *Bed) Refused(t *testing.T, cmd *exec.Cmd, code int, why ...string) {
	t.Helper()
	r := Finish(t, cmd)
	if r.Code != code {
		t.Errorf("%s: exit %d, want %d: %s", strings.Join(cmd.Args[1:], " "), r.Code, code, r.Stderr)
	}
	for _, w := range why {
		if !strings.Contains(r.Stderr+r.Stdout, w) {
			t.Errorf("%s printed %q, want it to contain %q", strings.Join(cmd.Args[1:], " "), r.Stderr, w)
		}
	}
}

// Resume returns the command that continues the run in an output folder.
func (b *Bed) Resume(out string) *exec.Cmd {
	return b.Command(nil, "finetune", "resume", filepath.Join(out, "r"))
}

// Same compares the content of a run's folder with want, the content of the undisturbed run's folder.
func (b *Bed) Same(t *testing.T, want map[string]string, out string) {
	t.Helper()
	if d := cmp.Diff(want, b.Content(t, out)); d != "" {
		t.Errorf("%s is a different data set (-want +got):\n%s", out, d)
	}
}

// withTimes lists the files that contain times or the location of the run.
var withTimes = map[string]bool{
	"job.json": true, "data_collection_progress.jsonl": true, "collection_history.json": true,
	"final_metrics.json": true, "records/begun.json": true,
}

// metricsTime matches the time at which a builder's metrics were written.
var metricsTime = regexp.MustCompile(`"timestamp":"[^"]*"`)

// hashOfTimes matches the manifest's entries for files that contain times.
var hashOfTimes = regexp.MustCompile(
	`\{\s*"path": "(?:data_collection_progress.jsonl|dpo_trajectory_builder_[^"]*|` +
		`collection_history.json|final_metrics.json|records/begun.json)",` +
		`\s*"bytes": \d+,\s*"xxh3": "[0-9a-f]+"\s*\},\s*`)

// Content returns checksums of a run folder's files by path. They don't cover content that depends on the time of the
// run.
func (b *Bed) Content(t *testing.T, out string) map[string]string {
	t.Helper()
	files := map[string]string{}
	root := filepath.Join(b.Dir, out, "r")
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		name, _ := filepath.Rel(root, path)
		if withTimes[filepath.ToSlash(name)] {
			files[name] = "has times" // the file contains times or the run's location
			return nil
		}
		manifest, metrics := name == "manifest.json", strings.HasPrefix(name, "dpo_trajectory_builder_")
		if !manifest && !metrics { // the file may be large
			files[name], err = durable.Sum(path)
			return err
		}
		text, err := os.ReadFile(path)
		if manifest { // the manifest has hashes of files that contain times
			text = hashOfTimes.ReplaceAll(text, nil)
			text = bytes.ReplaceAll(text, []byte(out+"/r "), []byte("OUT/r ")) // in suggested commands
		} else {
			text = metricsTime.ReplaceAll(text, nil)
		}
		files[name] = fmt.Sprintf("%x", sha256.Sum256(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// NewFolder returns a bed without input or configuration.
func NewFolder(t *testing.T) *Bed {
	t.Helper()
	return &Bed{Dir: t.TempDir(), Exe: Program(t), Env: append(os.Environ(), "NO_COLOR=1")}
}

// newBed is NewFolder for a test that -short skips, with the given interval between commits of the record log.
func newBed(t *testing.T, commit int) *Bed {
	t.Helper()
	if testing.Short() {
		t.Skip("-short")
	}
	b := NewFolder(t)
	b.Env = append(b.Env, fmt.Sprintf("%s=%d", commitBytes, commit))
	return b
}

// NewShardBed returns a bed with inputs that are hard to divide: ids that are repeated in different shards, lines
// without an id, lines that aren't entries, and an array and a compressed file among the files of lines.
func NewShardBed(t *testing.T, examples int) *Bed {
	b := newBed(t, 65536)
	r := rand.New(rand.NewPCG(23, uint64(examples)))
	b.Write(t, "in/a.jsonl", Scored(r, examples))
	b.Write(t, "in/b.jsonl", "\xEF\xBB\xBF"+Scored(r, examples/5))
	entries := strings.TrimSpace(strings.ReplaceAll(Scored(r, examples/5), "17\n", ""))
	b.Write(t, "in/c.json", "["+strings.ReplaceAll(entries, "\n", ",")+"]")
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, _ = w.Write([]byte(Scored(r, examples/5)))
	_ = w.Close()
	b.Write(t, "in/d.jsonl.gz", packed.String())
	b.Write(t, "in/e.jsonl", Scored(r, examples/5))
	b.Write(t, "dpo.yml", config(t, "candidates.yml"))
	return b
}

// AddTasks adds traces for tasks whose rollouts are far apart, in several files, and configurations with builders
// that work on tasks. These configurations also produce token batches if the program has the tokenizer library.
func (b *Bed) AddTasks(t *testing.T, traces int) {
	t.Helper()
	text, err := os.ReadFile("../../../../../examples/hints/traces.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	r := rand.New(rand.NewPCG(5, 5))
	var files [3]strings.Builder
	for i := range traces {
		var trace map[string]json.RawMessage
		if err := json.Unmarshal([]byte(lines[r.IntN(len(lines))]), &trace); err != nil {
			t.Fatal(err)
		}
		set := func(key string, value any) { trace[key], _ = json.Marshal(value) }
		set("id", fmt.Sprint("trace ", r.IntN(traces)))
		set("trial", i)
		set("reward", float64(r.IntN(5))/4)
		set("task_id", fmt.Sprint("task ", r.IntN(1+traces/4)))
		switch r.IntN(12) {
		case 0:
			delete(trace, "task_id")
		case 1:
			set("messages", 17) // this one is dropped
		case 2:
			set("rewards", 1) // this one is listed
		}
		line, err := json.Marshal(trace)
		if err != nil {
			t.Fatal(err)
		}
		line = bytes.ReplaceAll(line, []byte("Grace"), fmt.Append(nil, "Grace", r.IntN(traces)))
		fmt.Fprintf(&files[i*4/traces%3], "%s\n", line)
	}
	for i := range files {
		b.Write(t, fmt.Sprintf("in/traces%d.jsonl", i), files[i].String())
	}
	collator := ""
	if WithTokenizers() {
		tokenizer, err := filepath.Abs("../../../../../examples/hints/tokenizer")
		if err != nil {
			t.Fatal(err)
		}
		collator = fmt.Sprintf("collator: {tokenizer: %q, policy: booker-1, max_length: 4096, batch_tokens: 8192}",
			tokenizer)
	}
	tasks := "\n" + config(t, "tasks.yml")
	b.Write(t, "tasks.yml", collator+tasks)
	b.Write(t, "steps.yml", strings.Replace(collator, "{", "{format: composer, composer: {files: step}, ", 1)+tasks)
}

// Scored returns scored answers as lines.
func Scored(r *rand.Rand, examples int) string {
	var text strings.Builder
	for e := range examples {
		line := map[string]any{}
		if e%7 != 0 {
			line["id"] = fmt.Sprint("e", r.IntN(examples))
		}
		for turn := range 1 + r.IntN(3) {
			for range 1 + r.IntN(5) {
				line["turn_id"] = fmt.Sprint("t", turn)
				line["prompt"] = fmt.Sprintf("prompt %d of %d", turn, r.IntN(1+examples/2))
				line["output"] = strings.Repeat("so ", r.IntN(20)) + fmt.Sprint("answer ", r.IntN(6))
				line["score"] = float64(r.IntN(5)) / 4
				if r.IntN(50) == 0 {
					line["score"] = "none"
				}
				one, err := json.Marshal(line)
				if err != nil {
					panic(err)
				}
				fmt.Fprintf(&text, "%s\n", one)
			}
		}
		if r.IntN(9) == 0 {
			text.WriteString("17\n")
		}
	}
	return text.String()
}

// Planned returns the command that plans a sharded run.
func (b *Bed) Planned(out, file string, how ...string) *exec.Cmd {
	args := []string{"shard", "plan", "--config-file", file, "--run-id", "r", "--output-dir", out}
	return b.Command(nil, append(args, how...)...)
}

// Shard returns the command that runs a stage of a shard.
func (b *Bed) Shard(out, stage string, index int) *exec.Cmd {
	dir := filepath.Join(out, "r.shards")
	return b.Command(nil, "shard", "run", dir, "--stage", stage, "--index", strconv.Itoa(index))
}

// Merged returns the command that merges the shards.
func (b *Bed) Merged(out string) *exec.Cmd {
	return b.Command(nil, "shard", "merge", filepath.Join(out, "r.shards"))
}
