package host

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"
)

// TestStartNoProgram checks that files that the system can't run are reported in plain words.
func TestStartNoProgram(t *testing.T) {
	for text, want := range map[string]string{
		"no program":               "it was built for another platform, or is a script",
		"":                         "it was built for another platform, or is a script",
		"\x7fELF\x02\x01\x01":      "it was built for another platform, or is a script",
		"#!/no/such/interpreter\n": "the interpreter that it names",
	} {
		t.Run(text, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "plugin")
			if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
				t.Fatal(err)
			}
			p, err := Start(t.Context(), Spec{Name: "test", Path: path}, zerolog.Nop())
			if err == nil {
				p.Close()
			}
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%q: %v", text, err)
			}
		})
	}
}
