package e2e

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
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

	PluginsKilled int // number of plugin processes that the test has killed
}

// NewBed returns a bed with an input of the given number of examples. Its runs commit the record log every 256 KiB.
func NewBed(t *testing.T, examples int) *Bed {
	b := newBed(t, 262144)
	b.Generate(t, "in.json", bench.Shape{Examples: examples, Turns: 2, Candidates: 6, Seed: 7})
	b.Write(t, "finetune.yml", `
trajectory_builders: {b: {_type: dpo_traj_builder, max_pairs_per_turn: 9}}
sources: {runs: {_type: workflow_output, path: in.json}}
plugins: {nat-go: {instances: ${INSTANCES:-1}}}
dataset: {formats: [customizer, trl]}
finetuning: {enabled: true, trajectory_builder: b, output_dir: out}
`)
	return b
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
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.WriteFile(path, []byte(text), 0o600)
	}
	if err != nil {
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

// Content returns checksums of a run folder's files by path. They don't cover content that depends on when the run was
// made.
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
