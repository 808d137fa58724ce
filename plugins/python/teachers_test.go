package python_test

import (
	"bytes"
	"os"
	"os/exec"
	"testing"

	"github.com/nat-go/nat-go/internal/pythontest"
)

// TestTeachers: axolotl's and Tinker's own code reads stored teachers at the positions that they are about.
func TestTeachers(t *testing.T) {
	python := os.Getenv("NATGO_TEACHERS_PYTHON")
	if python == "" {
		if pythontest.Required("teachers") {
			t.Fatal("NATGO_REQUIRE names teachers, and NATGO_TEACHERS_PYTHON names no Python")
		}
		t.Skip("SKIPPED: NATGO_TEACHERS_PYTHON names no Python with axolotl 0.19 and tinker, so stored teachers were not " +
			"tried on them; .ci/verify-full sets one up")
	}
	cmd := exec.Command(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/test_teachers.py")
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "PYTHONPATH=.", "HF_HOME="+t.TempDir(), "HF_HUB_OFFLINE=1")
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil || bytes.Contains(out, []byte("skipped")) {
		t.Fatal("failed, or skipped what it must not: ", err)
	}
}
