package e2e

import (
	"debug/buildinfo"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
)

// variable is the environment variable that names the folder with the programs under test: nat-go, from the package
// program, and nat-go-builder-acme, from testdata/acme.
const variable = "NATGO_E2E"

const packages = "github.com/nat-go/nat-go/cmd/nat-go/internal/e2e/"

// Main runs a package's tests, and removes the programs that were built for them.
func Main(m *testing.M) {
	code := m.Run()
	if made != "" {
		_ = os.RemoveAll(made)
	}
	os.Exit(code)
}

// Program returns the path to nat-go. nat-go-builder-acme is next to it.
func Program(t testing.TB) string {
	t.Helper()
	dir, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "nat-go")
}

// WithTokenizers reports whether the program includes the tokenizer library. It returns false if the program is
// missing, which Program reports.
func WithTokenizers() bool {
	dir, err := programs()
	if err != nil {
		return false
	}
	info, err := buildinfo.ReadFile(filepath.Join(dir, "nat-go"))
	return err == nil && slices.Contains(tags(info), "tokenizers")
}

func tags(info *debug.BuildInfo) []string {
	for _, s := range info.Settings {
		if s.Key == "-tags" {
			return strings.Split(s.Value, ",")
		}
	}
	return nil
}

// made is the folder with the programs that function programs built.
var made string

var programs = sync.OnceValues(func() (string, error) {
	if dir := os.Getenv(variable); dir != "" {
		// Because of Stat, go test records that the test depends on the program, so a cached result is valid only while
		// the program is unchanged.
		_, err := os.Stat(filepath.Join(dir, "nat-go"))
		return dir, err
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "", errors.New("the test's build information is missing")
	}
	dir, err := os.MkdirTemp("", "nat-go-e2e-")
	if err != nil {
		return "", err
	}
	made = dir
	return dir, build(dir, tags(info))
})

// build builds the programs into a folder.
func build(dir string, tags []string) error {
	for pkg, name := range map[string]string{"program": "nat-go", "testdata/acme": "nat-go-builder-acme"} {
		cmd := exec.Command("go", "build", "-tags", strings.Join(tags, ","), "-o", filepath.Join(dir, name),
			packages+pkg)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, out)
		}
	}
	return nil
}
