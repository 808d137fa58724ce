//go:build tokenizers

package python_test

import (
	"os"
	"os/exec"
	"testing"

	"github.com/nat-go/nat-go/internal/pythontest"
)

// TestTRLTrees runs tests/trl/test_tree.py: trees beside TRL's own, which 1.9 doesn't have, and gradients beside those
// of single rows.
func TestTRLTrees(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: training takes a minute; run without -short")
	}
	cmd := exec.Command(pythontest.TRL(t), "-m", "unittest", "-v", "tests/trl/test_tree.py")
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "PYTHONPATH=.", "OMP_NUM_THREADS=1", "HF_HUB_OFFLINE=1",
		"TRL_EXPERIMENTAL_SILENCE=1", "HF_HOME="+t.TempDir())
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Fatal(err)
	}
}
