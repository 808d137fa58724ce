package tokenizer

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// runLib runs lib.sh with a cache of its own and returns its last line.
func runLib(t *testing.T, cache string, env ...string) (last, stderr string, err error) {
	t.Helper()
	cmd := exec.Command("sh", "lib.sh")
	cmd.Env = append(os.Environ(), append(env, "XDG_CACHE_HOME="+cache)...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return lines[len(lines)-1], errs.String(), err
}

// TestLibScript checks that the script agrees with go.mod, finds what is cached, and says what is wrong with a library
// that it was given.
func TestLibScript(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no sh")
	}
	cache := t.TempDir()
	dir := filepath.Join(cache, "nat-go", "libtokenizers", "v1.27.0", runtime.GOOS+"-"+runtime.GOARCH)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "libtokenizers.a"), []byte("cached"), 0o644); err != nil {
		t.Fatal(err)
	}
	if last, stderr, err := runLib(t, cache, "NATGO_TOKENIZERS_LIB="); err != nil || last != dir {
		t.Errorf("got %q, %v: %s", last, err, stderr)
	}
	_, stderr, err := runLib(t, cache, "NATGO_TOKENIZERS_LIB="+dir)
	if exit, ok := err.(*exec.ExitError); !ok || exit.ExitCode() != 3 ||
		!strings.Contains(stderr, "does not link with tokenizers_version_") {
		t.Errorf("a file that is not a library: %v, %s", err, stderr)
	}
}
