package builtin_test

import (
	"path/filepath"
	"testing"

	"github.com/nat-go/nat-go/builders/finding"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/builtin"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/config"
)

// TestConfigsAreSound checks every configuration that we ship, as a run would before it starts.
func TestConfigsAreSound(t *testing.T) {
	var files []string
	for _, pattern := range []string{"../../../../configs/*.yml", "../../../../examples/*/finetune.yml"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	if len(files) < 9 {
		t.Fatalf("only %d configurations found", len(files))
	}
	for _, file := range files {
		c, found := config.Load(file, config.Options{
			Types:  builtin.Types(),
			Run:    true,
			Getenv: func(string) (string, bool) { return "", false },
		})
		if c == nil || finding.Failed(found) {
			t.Errorf("%s: %+v", file, found)
		}
	}
}
