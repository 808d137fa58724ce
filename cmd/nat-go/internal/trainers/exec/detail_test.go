package exec

import (
	"os"
	"path/filepath"
	"testing"
)

// What an error repeats of a program's output has no value of a granted variable, and no control characters.
func TestDetail(t *testing.T) {
	t.Setenv("NATGO_TEST_TOKEN", "canary123")
	t.Setenv("NATGO_TEST_WORKERS", "4")
	path := filepath.Join(t.TempDir(), outputFile)
	if err := os.WriteFile(path, []byte("first\n\x1b[31mtoken canary123\x00 of 4\r\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	c := &Config{Env: []string{"NATGO_TEST_TOKEN", "NATGO_TEST_WORKERS"}}
	if got, want := c.withoutGranted(lastLines(path, 1)), "[31mtoken ${NATGO_TEST_TOKEN} of 4"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
