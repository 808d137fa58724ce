//go:build tokenizers

package learn_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/nat-go/nat-go/internal/pythontest"
)

// TestLearn runs test_learn.py: the experiment with few steps and scripted rollouts, and the page's figures.
func TestLearn(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("SKIPPED: training takes a minute; run without -short")
	}
	python, work := pythontest.TRL(t), t.TempDir()
	natGo := filepath.Join(work, "nat-go")
	if out, err := exec.Command("go", "build", "-tags", "tokenizers,grpcnotrace,validator_novalidatefn", "-o", natGo,
		"../../cmd/nat-go").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	cmd := exec.Command(python, "-m", "unittest", "-v", "test_learn")
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "OMP_NUM_THREADS=1", "HF_HUB_OFFLINE=1",
		"HF_HOME="+work, pythontest.Package(t, "../.."), "NATGO_TEST_PROGRAM="+natGo)
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Fatal(err)
	}
}
