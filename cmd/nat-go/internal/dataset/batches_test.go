package dataset

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
)

// TestTokenizerOf: a run's config.yml keeps variables as references, so the tokenizer is found through their current
// values.
func TestTokenizerOf(t *testing.T) {
	run := t.TempDir()
	tokenizer := t.TempDir()
	for written, want := range map[string]string{
		"${NATGO_TEST_MODEL}":                   "",
		"${NATGO_TEST_NONE:-" + tokenizer + "}": "",
		tokenizer:                               "",
		"${NATGO_TEST_NONE}":                    "variable that is not set, ${NATGO_TEST_NONE}",
		"''":                                    "does not specify a tokenizer",
		"/no/such":                              "is not at /no/such",
	} {
		t.Run(written, func(t *testing.T) {
			t.Setenv("NATGO_TEST_MODEL", tokenizer)
			if err := os.WriteFile(filepath.Join(run, "config.yml"),
				[]byte("collator: {tokenizer: "+quote(written)+"}\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			got, err := TokenizerOf(runfolder.Folder(run))
			if want == "" && (err != nil || got != tokenizer) ||
				want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
				t.Errorf("%s: %q, %v", written, got, err)
			}
		})
	}
}

func quote(s string) string {
	if s == "''" {
		return s
	}
	return "'" + s + "'"
}
