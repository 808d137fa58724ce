//go:build tokenizers

package trainer_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/nat-go/nat-go/internal/pythontest"
)

// TestTRL runs test_trl.py with TRL: 20 steps on the batches of a run of examples/hints-composite and of toy.py's,
// comparing each term with a float64 calculation.
func TestTRL(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: training takes a minute; run without -short")
	}
	python := pythontest.TRL(t)
	_, work, natGo := program(t)
	config := filepath.Join(work, "finetune.yml")
	write(t, config, read(t, "../hints-composite/finetune.yml"))
	natGo("finetune", "run", "--config_file", config, "--run-id", "trl", "--trainer_adapter", "files",
		"-o", "sources.runs.path=traces.jsonl", "-o", "collator.tokenizer=tokenizer")
	cmd := exec.Command(python, "-m", "unittest", "test_trl")
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "OMP_NUM_THREADS=1", pythontest.Package(t, "../.."),
		"NATGO_RUN="+filepath.Join(work, "out", "trl"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}
