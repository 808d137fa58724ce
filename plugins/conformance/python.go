package conformance

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// skipPython skips a test that needs Python and the package index, or fails it if NATGO_REQUIRE names python.
func skipPython(t testing.TB, why string) {
	t.Helper()
	for _, r := range strings.Split(os.Getenv("NATGO_REQUIRE"), ",") {
		if strings.TrimSpace(r) == "python" {
			t.Fatalf("NATGO_REQUIRE=python: %s", why)
		}
	}
	t.Skipf("SKIPPED: cannot test the Python plugin: %s", why)
}

// Python returns a Python with the packages of a requirements file: a virtual environment that is created once and kept
// in the user's cache. Without python3 or the package index the test is skipped with a clear message, or fails if
// NATGO_REQUIRE names python.
func Python(t testing.TB, requirements string) string {
	t.Helper()
	if testing.Short() {
		t.Skip("SKIPPED: -short, so no Python plugin is tested")
	}
	python, err := exec.LookPath("python3")
	if err != nil {
		skipPython(t, "there is no python3")
	}
	text, err := os.ReadFile(requirements)
	if err != nil {
		t.Fatal(err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	sum := sha256.Sum256(append(text, runtime.GOOS+runtime.GOARCH...))
	venv := filepath.Join(cache, "nat-go", "venv", hex.EncodeToString(sum[:6]))
	ready := filepath.Join(venv, "ready")
	if _, err := os.Stat(ready); err != nil {
		if out, err := exec.Command(python, "-m", "venv", "--clear", venv).CombinedOutput(); err != nil {
			skipPython(t, "python3 can't make a virtual environment: "+string(out))
		}
		if out, err := exec.Command(filepath.Join(venv, "bin", "pip"), "install", "-q", "--disable-pip-version-check",
			"-r", requirements).CombinedOutput(); err != nil {
			skipPython(t, "pip can't install what "+requirements+" lists: "+string(out))
		}
		if err := os.WriteFile(ready, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(venv, "bin", "python")
}
