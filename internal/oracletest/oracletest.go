package oracletest

import (
	"os"
	"path/filepath"
	"testing"
)

// variable is the environment variable that names the folder of the oracle data. If it is not set, shared/conformance
// next to the checkout is tried.
const variable = "NATGO_CONFORMANCE"

// Path returns a file or folder of the oracle data. If it is missing, the test is skipped.
func Path(t testing.TB, elem ...string) string {
	t.Helper()
	path := filepath.Join(append([]string{root(t)}, elem...)...)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("SKIPPED: no oracle data at %s (set %s)", path, variable)
	}
	return path
}

// Glob returns the files and folders of the oracle data that match a pattern. If none match, the test is skipped.
func Glob(t testing.TB, elem ...string) []string {
	t.Helper()
	pattern := filepath.Join(append([]string{root(t)}, elem...)...)
	paths, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	if len(paths) == 0 {
		t.Skipf("SKIPPED: no oracle data at %s (set %s)", pattern, variable)
	}
	return paths
}

func root(t testing.TB) string {
	t.Helper()
	if dir := os.Getenv(variable); dir != "" {
		return dir
	}
	return filepath.Join(filepath.Dir(module(t)), "shared", "conformance")
}

// start is the folder of the test's package, in which a test binary starts. A test may change its working directory
// before it requests data.
var start, startErr = os.Getwd()

// module returns the folder of the go.mod above the test's package.
func module(t testing.TB) string {
	t.Helper()
	dir, err := start, startErr
	for ; err == nil && dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
	}
	t.Fatalf("no go.mod above the working folder (%v)", err)
	return ""
}
