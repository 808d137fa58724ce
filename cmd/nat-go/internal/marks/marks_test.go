package marks

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var a, b = strings.Repeat("a", 32), strings.Repeat("b", 32)

// TestTwoAtOnce: two views of a run are open, and neither takes away what the other has marked.
func TestTwoAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.marks.jsonl")
	one, err := Read(path)
	if !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	other, _ := Read(path)
	for _, err := range []error{
		one.Put(Mark{Record: a, Mark: Reject}), other.Put(Mark{Record: b, Mark: Approve, Note: "<good>"}),
		one.Put(Mark{Record: a}),
		one.Put(Mark{Record: a, Note: "later"}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	now, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	want := []Mark{{Record: b, Mark: Approve, Note: "<good>"}, {Record: a, Note: "later"}}
	if diff := cmp.Diff(want, now.All()); diff != "" {
		t.Error(diff)
	}
	if err := errors.Join(one.Put(Mark{Record: a}), other.Put(Mark{Record: b})); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("all marks were taken back, and the file is still there: %v", err)
	}
}

func TestFilesThatAreNoMarks(t *testing.T) {
	for name, text := range map[string]string{
		"not JSON":      "x",
		"no record":     `{"mark":"reject"}`,
		"no hash":       `{"record":"` + strings.Repeat("z", 32) + `","mark":"reject"}`,
		"another mark":  `{"record":"` + a + `","mark":"maybe"}`,
		"torn":          `{"record":"` + a + `","mark":"reject"}` + "\n" + `{"record":"`,
		"a list":        `[]`,
		"a long note":   `{"record":"` + a + `","mark":"","note":"` + strings.Repeat("x", maxNote+1) + `"}`,
		"NUL":           "\x00",
		"a wrong type":  `{"record":1}`,
		"invalid UTF-8": `{"record":"` + "\xff" + `"}`,
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "m.jsonl")
			if err := os.WriteFile(path, []byte(text+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := Read(path); err == nil || !strings.Contains(err.Error(), path+":") {
				t.Errorf("%v", err)
			}
		})
	}
}

// TestLinkedMarks: marks that runs share are written through the link.
func TestLinkedMarks(t *testing.T) {
	dir := t.TempDir()
	link, shared := filepath.Join(dir, "r.marks.jsonl"), filepath.Join(dir, "shared.jsonl")
	if err := os.Symlink("shared.jsonl", link); err != nil {
		t.Fatal(err)
	}
	f, err := Read(link)
	if !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	if err := f.Put(Mark{Record: a, Mark: Reject}); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&fs.ModeSymlink == 0 {
		t.Errorf("the link is gone: %v, %v", info, err)
	}
	if now, err := Read(shared); err != nil || len(now.All()) != 1 {
		t.Errorf("%v", err)
	}
}

func TestLaterMarkHolds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.jsonl")
	text := `{"record":"` + a + `","mark":"reject"}` + "\n\n" + `{"record":"` + a + `","mark":"approve"}` + "\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	if m, ok := f.Get([16]byte{
		0xaa, 0xaa, 0xaa, 0xaa, 0xaa, 0xaa, 0xaa, 0xaa, 0xaa, 0xaa, 0xaa, 0xaa, 0xaa, 0xaa, 0xaa, 0xaa,
	}); !ok ||
		m.Mark != Approve {
		t.Errorf("%+v", m)
	}
}
