//go:build tokenizers

package rows

import (
	"bufio"
	"bytes"
	"encoding/json"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/e2e"

	"github.com/nat-go/nat-go/internal/pythontest"
)

// recipe runs a recipe from examples in a copy, as its README says, and returns the folder and the JSON objects that
// its trainer printed.
func recipe(t *testing.T, name string, env ...string) (run string, printed []map[string]any) {
	t.Helper()
	if testing.Short() {
		t.Skip("-short")
	}
	work := t.TempDir()
	if err := os.CopyFS(work, os.DirFS(filepath.Join("..", "..", "..", "..", "..", "examples"))); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(e2e.Program(t), "finetune", "run", "--config-file", "finetune.yml", "--run-id", "r", "--json")
	cmd.Dir = filepath.Join(work, name)
	cmd.Env = append(append(os.Environ(), "NO_COLOR=1", "OMP_NUM_THREADS=1"), env...)
	r := e2e.Finish(t, cmd)
	var sum struct {
		Status string `json:"status"`
	}
	if err := json.Unmarshal([]byte(r.Stdout), &sum); r.Code != 0 || err != nil || sum.Status != "completed" {
		t.Fatalf("exit %d, %v: %s\n%s", r.Code, err, r.Stdout, r.Stderr)
	}
	run = filepath.Join(cmd.Dir, "out", "r")
	text, err := os.ReadFile(filepath.Join(run, "trainer", "output.log"))
	if err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(bytes.NewReader(bytes.ReplaceAll(text, []byte("\r"), []byte("\n")))); lines.Scan(); {
		var x map[string]any
		if json.Unmarshal(lines.Bytes(), &x) == nil {
			printed = append(printed, x)
		}
	}
	if len(printed) == 0 {
		t.Fatalf("the trainer printed no progress:\n%s", text)
	}
	if !strings.Contains(r.Stderr, `"step": 1`) {
		t.Errorf("what the trainer prints is not shown:\n%s", r.Stderr)
	}
	return run, printed
}

// near checks that a printed value is about what the README says.
func near(t *testing.T, x map[string]any, key string, want, by float64) {
	t.Helper()
	if v, ok := x[key].(float64); !ok || math.Abs(v-want) > by {
		t.Errorf("%s is %v, want %v: %v", key, x[key], want, x)
	}
}

func TestRecipeDPO(t *testing.T) {
	py := pythontest.TRL(t)
	run, printed := recipe(t, "trl-dpo", "MODEL="+pythontest.TinyModel(t, "../../../../../"), "PYTHON="+py, "STEPS=2")
	near(t, printed[0], "step", 1, 0)
	near(t, printed[0], "loss", math.Ln2, 1e-4)
	if _, err := os.Stat(filepath.Join(run, "model", "adapter_model.safetensors")); err != nil {
		t.Error(err)
	}
}

func TestRecipeTokenRows(t *testing.T) {
	py := pythontest.TRL(t)
	run, printed := recipe(t, "trl-sft", "MODEL="+pythontest.TinyModel(t, "../../../../../"), "PYTHON="+py, "STEPS=2")
	near(t, printed[0], "first_loss", printed[0]["expected"].(float64), 1e-4)
	near(t, printed[0], "first_loss", math.Log(259), 0.2) // a random model with 259 tokens
	near(t, printed[1], "loss", printed[0]["first_loss"].(float64), 1e-3)
	if _, err := os.Stat(filepath.Join(run, "dataset", "sft_parquet", "train.parquet")); err != nil {
		t.Error(err)
	}
}

// TestBatchesReachTheTrainerOfAResumedRun: the data set of a dry run is submitted later, including its token batches.
func TestBatchesReachTheTrainerOfAResumedRun(t *testing.T) {
	work := t.TempDir()
	if err := os.CopyFS(work, os.DirFS(filepath.Join("..", "..", "..", "..", "..", "examples"))); err != nil {
		t.Fatal(err)
	}
	fake := filepath.Join(work, "python")
	if err := os.WriteFile(fake, []byte("#!/bin/sh\necho \"$@\"\nls \"$3\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	p := &e2e.Project{Dir: filepath.Join(work, "hints-composite"), Exe: e2e.Program(t)}
	t.Setenv("PYTHON", fake)
	p.NatGo(t, 0, "finetune", "run", "--config-file", "finetune.yml", "--run-id", "r", "--dry-run")
	p.NatGo(t, 0, "finetune", "resume", "out/r")
	text, err := os.ReadFile(filepath.Join(p.Dir, "out", "r", "trainer", "output.log"))
	if err != nil || !strings.Contains(string(text), "index.jsonl") {
		t.Errorf("%s, %v", text, err)
	}
}

func TestRecipeComposite(t *testing.T) {
	py := ""
	for _, p := range []string{os.Getenv("NATGO_TRAINER_PYTHON"), "python3", "/usr/bin/python3"} {
		if p != "" && exec.Command(p, "-c", "import torch, safetensors.torch").Run() == nil {
			py = p
			break
		}
	}
	if py == "" {
		t.Skip("SKIPPED: no Python with torch and safetensors, so the composite recipe was not run; NATGO_TRAINER_PYTHON names one")
	}
	_, printed := recipe(t, "hints-composite", "PYTHON="+withPackage(t, py), "STEPS=2")
	near(t, printed[0], "loss/trace_replay_dpo", math.Ln2, 1e-5)
	if jsd, ok := printed[0]["loss/sdpo_kl"].(float64); !ok || jsd <= 0 {
		t.Errorf("loss/sdpo_kl: %v", printed[0])
	}
}

func TestRecipeHints(t *testing.T) {
	run, printed := recipe(t, "hints-trl", "PYTHON="+withPackage(t, pythontest.TRL(t)), "STEPS=12")
	first, ok := printed[0]["loss"].(float64)
	if last, found := printed[len(printed)-1]["loss"].(float64); !ok || !found || first <= 0 || last >= first/2 {
		t.Errorf("the loss should be above 0 and fall: %v", printed)
	}
	if _, err := os.Stat(filepath.Join(run, "model", "model.safetensors")); err != nil {
		t.Error(err)
	}
}

// withPackage is a Python that finds the package of this checkout: what a trainer inherits doesn't include PYTHONPATH.
func withPackage(t *testing.T, python string) string {
	t.Helper()
	with := filepath.Join(t.TempDir(), "python")
	path := pythontest.Package(t, filepath.Join("..", "..", "..", "..", ".."))
	if err := os.WriteFile(with, []byte("#!/bin/sh\nexport "+path+"\nexec "+python+" \"$@\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return with
}
