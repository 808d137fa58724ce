package builtin_test

import (
	"os"
	"regexp"
	"testing"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/builtin"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/config"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/explain"
)

// TestGeneratedPages: the pages of settings and codes are the ones that `make gen` writes, and every setting has a
// description.
func TestGeneratedPages(t *testing.T) {
	codes, err := explain.Find("")
	if err != nil {
		t.Fatal(err)
	}
	settings := config.Page(builtin.Types())
	for path, want := range map[string]string{
		"../../../../configs/README.md":    string(settings),
		"../../../../ttc/ledger/README.md": explain.Page(codes),
	} {
		t.Run(path, func(t *testing.T) {
			if got, err := os.ReadFile(path); err != nil || string(got) != want {
				t.Errorf("%s is not what `make gen` writes (%v)", path, err)
			}
		})
	}
	rows := regexp.MustCompile("(?m)^\\| `([^`]+)` \\| ([^|]|\\\\\\|)* \\| ([^|]|\\\\\\|)* \\|( *)\\|$").FindAllSubmatch(settings, -1)
	for _, row := range rows {
		t.Errorf("the setting %s has no meaning: give its field a doc", row[1])
	}
}
