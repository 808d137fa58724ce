package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func names(t *testing.T, dir string) (names []string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

func TestAppearsOnlyWhenCommitted(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	f, err := Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("new"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Error("the file has its name before it is complete")
	}
	if err := f.Commit(); err != nil || read(t, path) != "new" {
		t.Error(err)
	}
	f.Abort()
	if got := names(t, dir); len(got) != 1 || read(t, path) != "new" {
		t.Errorf("%v", got)
	}
	g, err := Create(path)
	if err != nil {
		t.Fatal(err)
	}
	g.Abort()
	if got := names(t, dir); len(got) != 1 || read(t, path) != "new" {
		t.Errorf("%v", got)
	}
}

// TestWritersDoNotMeet checks that two writers of one path at the same time leave one of them whole.
func TestWritersDoNotMeet(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	var all sync.WaitGroup
	for _, letter := range "abcd" {
		all.Go(func() {
			for range 50 {
				if err := WriteFile(path, []byte(strings.Repeat(string(letter), 1000))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if got := read(t, path); len(got) != 1000 || strings.Trim(got, got[:1]) != "" {
		t.Errorf("%.20q...", got)
	}
}

// TestSweep checks that only files with our mark and no living writer are removed.
func TestSweep(t *testing.T) {
	dir := t.TempDir()
	mine, err := Create(filepath.Join(dir, "mine"))
	if err != nil {
		t.Fatal(err)
	}
	left := filepath.Join(dir, mark+"0123456789abcdef")
	folder := filepath.Join(dir, mark+"fedcba9876543210")
	keep := []string{".tmp-somebody", mark + "notes", mark +
		"0123456789abcdef.txt", "data", filepath.Base(mine.file.Name())}
	for _, p := range append([]string{left}, filepath.Join(dir, keep[0]), filepath.Join(dir, keep[1]),
		filepath.Join(dir, keep[2]),
		filepath.Join(dir, keep[3])) {
		if err := os.WriteFile(p, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	inner := filepath.Join(folder, mark+"0123456789abcdef")
	link := filepath.Join(dir, mark+"00000000000000aa")
	if err := errors.Join(os.Mkdir(folder, 0o755), os.WriteFile(inner, nil, 0o644),
		os.Symlink("data", link)); err != nil {
		t.Fatal(err)
	}
	if err := Sweep(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(left); err == nil {
		t.Error("what a crash left behind is still there")
	}
	for _, p := range append(keep, filepath.Base(link), filepath.Base(folder)) {
		if _, err := os.Lstat(filepath.Join(dir, p)); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(inner); err != nil {
		t.Error(err)
	}
	if err := mine.Commit(); err != nil {
		t.Error(err)
	}
	if err := Sweep(filepath.Join(dir, "not-there")); err != nil {
		t.Error(err)
	}
}

func TestCommitChanged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	old := time.Unix(1e9, 0)
	for _, c := range []struct {
		content string
		kept    bool
	}{{"a", false}, {"a", true}, {"b", false}, {"bb", false}, {"b", false}, {"", false}, {"", true}} {
		t.Run(c.content, func(t *testing.T) {
			f, err := Create(path)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.WriteString(c.content); err != nil {
				t.Fatal(err)
			}
			if err := f.CommitChanged(); err != nil || read(t, path) != c.content {
				t.Fatal(err)
			}
			info, err := os.Stat(path)
			if err != nil || info.ModTime().Equal(old) != c.kept {
				t.Errorf("%q: %v, %v", c.content, info.ModTime(), err)
			}
			if err := os.Chtimes(path, old, old); err != nil {
				t.Fatal(err)
			}
		})
	}
	if got := names(t, filepath.Dir(path)); len(got) != 1 {
		t.Error(got)
	}
}

// TestOutputLeavesWhatItIsPointedAt checks that links, pipes and devices stay what they are and receive the output.
func TestOutputLeavesWhatItIsPointedAt(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(
		os.Mkdir(in("elsewhere"), 0o755), os.WriteFile(in("elsewhere/target"), []byte("old"), 0o600),
		os.Symlink("elsewhere/target", in("link")), os.Symlink("link", in("link2")),
		os.Symlink("elsewhere/later", in("dangling")), os.Symlink("loop", in("loop")),
		syscall.Mkfifo(in("pipe"), 0o644),
	); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{
		"link2":    "elsewhere/target",
		"dangling": "elsewhere/later",
		"plain":    "plain",
	} {
		t.Run(name, func(t *testing.T) {
			if err := WriteOutput(in(name), []byte("new "+name)); err != nil || read(t, in(target)) != "new "+name {
				t.Errorf("%s: %v", name, err)
			}
			info, err := os.Lstat(in(name))
			if err != nil || name != "plain" && info.Mode()&fs.ModeSymlink == 0 {
				t.Errorf("%s is no longer a link: %v, %v", name, info.Mode(), err)
			}
		})
	}
	if info, err := os.Stat(in("elsewhere/target")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("permissions %v, %v", info.Mode(), err)
	}
	if err := WriteOutput(in("pipe"), nil); err == nil || !strings.Contains(err.Error(), "has no reader") {
		t.Errorf("a pipe without a reader: %v", err)
	}
	r, err := os.OpenFile(in("pipe"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := WriteOutput(in("pipe"), []byte("through")); err != nil {
		t.Error(err)
	}
	got := make([]byte, 7)
	if _, err := r.Read(got); err != nil || string(got) != "through" {
		t.Errorf("%q, %v", got, err)
	}
	if err := WriteOutput("/dev/null", []byte("x")); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat("/dev/null"); err != nil || info.Mode()&fs.ModeCharDevice == 0 {
		t.Fatalf("/dev/null is %v, %v", info.Mode(), err)
	}
	for _, bad := range []string{"loop", "elsewhere", "not-there/f"} {
		if err := WriteOutput(in(bad), nil); err == nil {
			t.Errorf("%s: no error", bad)
		}
	}
	if got := names(t, dir); len(got) != 7 {
		t.Errorf("%v", got)
	}
}

// TestOutputToAnOpenFile checks that a path such as /dev/stdout, which names a file that somebody has open, is written
// to, not replaced.
func TestOutputToAnOpenFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString("before\n"); err != nil {
		t.Fatal(err)
	}
	self := filepath.Join("/proc/self/fd", strconv.Itoa(int(f.Fd())))
	if _, err := os.Stat(self); err != nil {
		t.Skip("no /proc here")
	}
	if err := WriteOutput(self, []byte("after\n")); err != nil || read(t, path) != "before\nafter\n" {
		t.Errorf("%q, %v", read(t, path), err)
	}
}

// TestCommitSyncsBeforeItRenames checks that a file that can't be synced to disk never gets its name, even if all of it
// was written.
func TestCommitSyncsBeforeItRenames(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	f, err := Create(path)
	if err != nil {
		t.Fatal(err)
	}
	f.file.Close() // nothing is left to flush, so the sync is what fails
	if err := f.Commit(); err == nil {
		t.Error("Commit of a file that can't be synced gave no error")
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the file has its name without being synced: %v", err)
	}
}

func TestMove(t *testing.T) {
	from, to := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")
	if err := os.MkdirAll(filepath.Join(from, "in"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := Move(from, to); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(to, "in")); err != nil {
		t.Error(err)
	}
	if err := Move(from, to); !os.IsNotExist(err) {
		t.Errorf("moved a file that does not exist: %v", err)
	}
}

// TestPrepareSyncs checks that what can't be synced to disk fails before the name, where that is asked for.
func TestPrepareSyncs(t *testing.T) {
	f, err := Create(filepath.Join(t.TempDir(), "a"))
	if err != nil {
		t.Fatal(err)
	}
	f.file.Close() // nothing is left to flush
	if err := f.Prepare(); err == nil {
		t.Error("Prepare of a file that can't be synced gave no error")
	}
}
