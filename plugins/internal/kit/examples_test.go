package kit

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/internal/pythontest"
	"github.com/nat-go/nat-go/plugins/internal/host"
)

func TestPythonExample(t *testing.T) {
	root, err := filepath.Abs(filepath.Join("..", "..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	python := pythontest.Builders(t, filepath.Join(root, "plugins", "python", "tests", "builders", "requirements.txt"))
	start := fmt.Sprintf("import sys; sys.dont_write_bytecode = True; sys.path[:0] = [%q, %q]; import best_of_n; best_of_n.main()",
		filepath.Join(root, "plugins", "python"), filepath.Join(root, "examples", "python-builder"))
	spec := host.Spec{Name: "best-of-n", Path: python, Args: []string{"-c", start}}
	t.Run("checks", func(t *testing.T) { passes(t, spec) })
	t.Run("records", func(t *testing.T) {
		k := &kit{opt: Options{Spec: spec}}
		if err := k.each(t.Context(), func(s *subject) error {
			rs, err := Build(t.Context(), s.Plugin, s.builder.Name, []byte(`{"min_score": 0.9}`),
				sampleGroups(1, builders.UnitExample))
			if err != nil {
				return err
			}
			if len(rs[0].Records) != 2 {
				t.Fatalf("%d records", len(rs[0].Records))
			}
			d := rs[0].Records[0].(*builders.Demonstration)
			ms := d.Messages.Messages
			if len(ms) != 2 || ms[0].Text != "What now, ex0-0, at 0?" ||
				!strings.HasPrefix(ms[1].Text, "Option 1 of ex0-0") || *d.Score != 1 || d.Turn != "turn0" {
				t.Errorf("%+v", d)
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
	})
}

// TestGoExample builds the Go example, which is a module of its own, the way an outsider would.
func TestGoExample(t *testing.T) {
	dir := filepath.Join("..", "..", "..", "examples", "go-builder")
	binary := filepath.Join(t.TempDir(), "length-dpo")
	for _, args := range [][]string{{"vet", "."}, {"build", "-o", binary, "."}, {"test", "."}} {
		cmd := exec.Command("go", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOWORK=off")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go %v: %v\n%s", args, err, out)
		}
	}
	passes(t, host.Spec{Name: "length-dpo", Path: binary})
}
