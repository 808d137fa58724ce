package inspect

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestNear(t *testing.T) {
	root := t.TempDir()
	t.Setenv("HF_HOME", filepath.Join(root, "hf [1]"))
	for _, name := range []string{
		"work/qwen/tokenizer.json", "work/deep/er/tokenizer.json", "work/empty/x.json", "own/tokenizer.json",
		"hf [1]/hub/models--acme--booker-1/snapshots/aa/tokenizer.json",
		"hf [1]/hub/models--acme--booker-1/snapshots/bb/tokenizer.json",
		"hf [1]/hub/models--acme--other/snapshots/cc/tokenizer.json",
	} {
		path := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("{}"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	work, own := filepath.Join(root, "work"), filepath.Join(root, "own")
	cached := filepath.Join(root, "hf [1]", "hub", "models--acme--booker-1", "snapshots", "bb")
	for _, c := range []struct {
		name           string
		folders, names []string
		want           []string
	}{
		{"nothing", nil, nil, nil},
		{"folders, and one level below", []string{work, own}, nil, []string{filepath.Join(work, "qwen"), own}},
		{"a folder twice", []string{own, own}, nil, []string{own}},
		{"a model by its name", nil, []string{"booker-1"}, []string{cached}},
		{"a model with its owner", nil, []string{"acme/booker-1", "booker-1"}, []string{cached}},
		{"no such model", nil, []string{"acme/booker", "*", "b[1"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			if d := cmp.Diff(c.want, near(c.folders, c.names)); d != "" {
				t.Error(d)
			}
		})
	}
	if got := cachedTokenizer("acme/booker-1"); got != cached {
		t.Error(got)
	}
	if got := cachedTokenizer("acme/*"); got != "" {
		t.Error(got)
	}
}
