package marks

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var a, b = strings.Repeat("a", 32), strings.Repeat("b", 32)

// writerEnv makes this test's program a process that writes marks, for the tests that need several: "PATH FIRST COUNT".
const writerEnv = "NATGO_TEST_MARKS_WRITER"

func TestMain(m *testing.M) {
	var path string
	var first, count int
	if n, _ := fmt.Sscan(os.Getenv(writerEnv), &path, &first, &count); n == 3 {
		f, err := Read(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			panic(err)
		}
		for i := range count {
			if err := f.Put(Mark{Record: fmt.Sprintf("%032x", first+i), Mark: Reject}); err != nil {
				panic(err)
			}
		}
		return
	}
	os.Exit(m.Run())
}

// writer starts a process that writes marks.
func writer(t *testing.T, path string, first, count int) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %d %d", writerEnv, path, first, count))
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd
}

// TestConcurrentProcesses checks that processes marking at the same moment lose no mark, whether they write through a
// link or not.
func TestConcurrentProcesses(t *testing.T) {
	const processes, each = 4, 40
	dir := t.TempDir()
	shared, link := filepath.Join(dir, "shared.jsonl"), filepath.Join(dir, "links", "r.marks.jsonl")
	if err := errors.Join(os.Mkdir(filepath.Dir(link), 0o700), os.Symlink("../shared.jsonl", link)); err != nil {
		t.Fatal(err)
	}
	var writers []*exec.Cmd
	for i := range processes {
		writers = append(writers, writer(t, []string{shared, link}[i%2], i*each, each))
	}
	for _, w := range writers {
		if err := w.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	f, err := Read(shared)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(f.All()); n != processes*each {
		t.Errorf("%d of %d marks are left", n, processes*each)
	}
}

// TestKilled checks that whenever a process that writes marks is killed, the file that it leaves behind is valid and
// has all marks except those not yet saved.
func TestKilled(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.jsonl")
	draw, before := rand.New(rand.NewPCG(1, 2)), 0
	for i := range 20 {
		w := writer(t, path, i*10_000, 10_000)
		if i%4 != 0 { // otherwise it may be killed before its first mark
			for n := before; n == before; time.Sleep(time.Millisecond) {
				f, err := Read(path)
				if err != nil && !errors.Is(err, fs.ErrNotExist) {
					t.Fatal(err)
				}
				n = len(f.All())
			}
		}
		time.Sleep(time.Duration(draw.IntN(int(20 * time.Millisecond))))
		if err := w.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = w.Wait()
		f, err := Read(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		if n := len(f.All()); n < before {
			t.Fatalf("%d of %d marks are left", n, before)
		} else {
			before = n
		}
	}
}

// TestTwoViews checks that with two views of a run open, neither removes what the other has marked.
func TestTwoViews(t *testing.T) {
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

func TestInvalidFiles(t *testing.T) {
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

// TestLinkedMarks checks that marks shared by several runs are written through the link.
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
