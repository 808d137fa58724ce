package conformance

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/plugins/host"
)

func TestPythonExample(t *testing.T) {
	dir := filepath.Join("..", "..", "examples", "python-builder")
	main, err := filepath.Abs(filepath.Join(dir, "main.py"))
	if err != nil {
		t.Fatal(err)
	}
	spec := host.Spec{Name: "best-of-n", Path: Python(t, filepath.Join(dir, "requirements.txt")), Args: []string{main}}
	t.Run("conformance", func(t *testing.T) { Test(t, Options{Spec: spec}) })
	t.Run("records", func(t *testing.T) {
		k := &kit{opt: Options{Spec: spec}}
		if err := k.each(t.Context(), nil, func(p *host.Plugin, b host.BuilderInfo) error {
			rs, err := Build(t.Context(), p, b.Name, []byte(`{"min_score": 0.9}`), sampleGroups(1, builders.UnitExample))
			if err != nil {
				return err
			}
			if len(rs[0].Records) != 2 {
				t.Fatalf("%d records", len(rs[0].Records))
			}
			d := rs[0].Records[0].(*builders.Demonstration)
			ms := d.Messages.Messages
			if len(ms) != 2 || ms[0].Text != "What now, ex0-0, at 0?" || !strings.HasPrefix(ms[1].Text, "Option 1 of ex0-0") || *d.Score != 1 || d.Turn != "turn0" {
				t.Errorf("%+v", d)
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
	})
}

// The Go example is a module of its own and is built as a stranger builds it.
func TestGoExample(t *testing.T) {
	dir := filepath.Join("..", "..", "examples", "go-builder")
	binary := filepath.Join(t.TempDir(), "length-dpo")
	for _, args := range [][]string{{"vet", "."}, {"build", "-o", binary, "."}, {"test", "."}} {
		cmd := exec.Command("go", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOWORK=off")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go %v: %v\n%s", args, err, out)
		}
	}
	Test(t, Options{Spec: host.Spec{Name: "length-dpo", Path: binary}})
}
