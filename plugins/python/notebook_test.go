//go:build tokenizers

package python_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/internal/pythontest"
)

// TestNotebook runs the example notebook from its first cell to its last, with nbmake, in an environment as pip leaves
// it: the program beside the interpreter, and the package in the place it is imported from.
func TestNotebook(t *testing.T) {
	python := pythontest.TRL(t)
	if err := exec.Command(python, "-c", "import nbmake, ipykernel, pytest, grpc, xxhash").Run(); err != nil {
		if pythontest.Required("notebook") {
			t.Fatalf("NATGO_REQUIRE names notebook, and %s lacks nbmake, ipykernel, pytest, grpcio or xxhash", python)
		}
		t.Skipf("SKIPPED: %s lacks nbmake, ipykernel, pytest, grpcio or xxhash, so the notebook was not run", python)
	}
	work := t.TempDir()
	say := func(dir, program string, args ...string) string {
		t.Helper()
		cmd := exec.Command(program, args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "OMP_NUM_THREADS=1", "HF_HUB_OFFLINE=1",
			"NO_COLOR=1",
			"HF_HOME="+filepath.Join(work, "hf"), "IPYTHONDIR="+filepath.Join(work, "ipython"), "TMPDIR="+work,
			"XDG_CONFIG_HOME="+filepath.Join(work, "config"), "XDG_CACHE_HOME="+filepath.Join(work, "cache"),
			"PATH="+filepath.Join(work, "env", "bin")+":"+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %q: %v\n%s", program, args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	const site = "import sysconfig; print(sysconfig.get_path('purelib'))"
	packages := say("", python, "-c", site)
	say("", python, "-m", "venv", "--without-pip", filepath.Join(work, "env"))
	own := filepath.Join(work, "env", "bin", "python")
	source, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	path := []byte(packages + "\n" + source + "\n")
	if err := os.WriteFile(filepath.Join(say("", own, "-c", site), "more.pth"), path, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(program(t), filepath.Join(work, "env", "bin", "nat-go")); err != nil {
		t.Fatal(err)
	}
	examples := filepath.Join(work, "examples")
	if err := os.CopyFS(examples, os.DirFS("../../examples")); err != nil {
		t.Fatal(err)
	}
	t.Log(say(filepath.Join(examples, "notebook"), own, "-m", "pytest", "-q", "-p", "no:cacheprovider",
		"--nbmake", "--nbmake-timeout=900", "natgo.ipynb"))
}
