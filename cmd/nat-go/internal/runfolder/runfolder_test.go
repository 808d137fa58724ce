package runfolder

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/internal/durable"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
		t.Fatal(err)
	}
}

func listing(t *testing.T, dir string) (all []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		all = append(all, path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// complete returns a run that has finished.
func complete(t *testing.T) Folder {
	t.Helper()
	f := Folder(filepath.Join(t.TempDir(), "r"))
	l, err := f.Create("finetune run")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, path := range []string{
		f.Config(), f.Begun(), f.Decisions(), f.Dropped(), filepath.Join(f.Format("trl"), "train.jsonl"),
		filepath.Join(f.Collected(), "run0", "answers", "a.txt"), f.Progress(),
	} {
		write(t, path, path)
	}
	write(t, filepath.Join(f.Trainer(), "output.log"), "")
	write(t, f.Job(), "{}")
	if err := l.WriteManifest(&Manifest{Status: Completed, Dataset: []Written{{Format: "trl"}}}, nil); err != nil {
		t.Fatal(err)
	}
	return f
}

// TestForeignFolderIsLeftUntouched: a run id may name any folder; one that isn't ours is refused and left untouched.
func TestForeignFolderIsLeftUntouched(t *testing.T) {
	for _, files := range [][]string{
		{"notes.txt"},
		{"config.yml"},
		{"records/.tmp-precious"},
		{".tmp-precious", ".nat-go-tmp-0123456789abcdef"},
	} {
		t.Run(strings.Join(files, " "), func(t *testing.T) {
			f := Folder(t.TempDir())
			for _, name := range files {
				write(t, f.path(name), "mine")
			}
			before := listing(t, string(f))
			if _, err := f.Create("finetune run"); exit.Code(err) != exit.Usage ||
				!strings.Contains(err.Error(), "already exists") {
				t.Errorf("%v: %v", files, err)
			}
			if after := listing(t, string(f)); !slices.Equal(before, after) {
				t.Errorf("%v became %v", before, after)
			}
		})
	}
}

// TestARunThatNeverBegan: whatever a run leaves behind when it dies before it begins is removed by the next one.
func TestARunThatNeverBegan(t *testing.T) {
	f := Folder(filepath.Join(t.TempDir(), "r"))
	for range 2 {
		l, err := f.Create("finetune run")
		if err != nil {
			t.Fatal(err)
		}
		left := filepath.Join(f.Records(), ".nat-go-tmp-0123456789abcdef")
		if Has(left) {
			t.Error("what was left is still there")
		}
		write(t, f.Config(), "")
		write(t, left, "")
		l.Close()
	}
	write(t, f.Begun(), "{}")
	if _, err := f.Create("finetune run"); exit.Code(err) != exit.Usage {
		t.Error(err)
	}
}

// TestSweepKeepsWhatIsNotOurs: the trainer's folder, anything the agent's program wrote, links and unknown names are
// all kept.
func TestSweepKeepsWhatIsNotOurs(t *testing.T) {
	f := complete(t)
	const left = ".nat-go-tmp-0123456789abcdef"
	elsewhere := t.TempDir()
	write(t, filepath.Join(elsewhere, left), "")
	if err := os.Symlink(elsewhere, f.Batches()); err != nil {
		t.Fatal(err)
	}
	gone := []string{
		f.path(left), filepath.Join(f.Records(), left), filepath.Join(f.Format("trl"), left),
		f.path("teacher", "ab", left),
	}
	stay := []string{
		filepath.Join(f.Trainer(), left), filepath.Join(f.Trainer(), ".tmp-checkpoint"),
		filepath.Join(f.Collected(), "run0", left),
		filepath.Join(elsewhere, left), f.path(".tmp-mine"),
	}
	for _, path := range append(gone, stay...) {
		write(t, path, "")
	}
	l, err := f.Lock("finetune resume")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := l.Sweep(); err != nil {
		t.Fatal(err)
	}
	for _, path := range gone {
		if Has(path) {
			t.Errorf("%s is still there", path)
		}
	}
	for _, path := range stay {
		if !Has(path) {
			t.Errorf("%s is gone", path)
		}
	}
}

func TestLockSaysWhoHasIt(t *testing.T) {
	f := Folder(t.TempDir())
	l, err := f.Lock("dataset convert --format trl")
	if err != nil || l.Left != nil {
		t.Fatal(l, err)
	}
	_, err = f.Lock("finetune resume")
	var busy *Busy
	if exit.Code(err) != exit.Usage || !errors.As(err, &busy) || busy.Holder.Process != os.Getpid() ||
		!strings.Contains(err.Error(), "`nat-go dataset convert --format trl` (process ") {
		t.Errorf("%v", err)
	}
	if _, err := f.LeftBy(); !errors.As(err, &busy) {
		t.Error(err)
	}
	interrupt(t, l)
	l.Close()
	l.Close()
	if left, err := f.LeftBy(); err != nil || left == nil || left.Command != "dataset convert --format trl" {
		t.Errorf("%v, %v", left, err)
	}
	if l, err = f.Lock("finetune resume"); err != nil || l.Left == nil {
		t.Fatal(l, err)
	}
	l.Close()
	if left, _ := f.LeftBy(); left == nil || left.Command != "dataset convert --format trl" {
		t.Errorf("%v", left)
	}
	if l, err = f.Lock("dataset convert --format trl"); err != nil {
		t.Fatal(err)
	}
	l.Finished()
	l.Close()
	if left, err := f.LeftBy(); left != nil || err != nil {
		t.Errorf("%v, %v", left, err)
	}
}

// TestLockThatIsNotARegularFile: a lock that is a pipe, or a link to a device, is refused, not waited for.
func TestLockThatIsNotARegularFile(t *testing.T) {
	for name, make := range map[string]func(string) error{
		"pipe": func(p string) error { return syscall.Mkfifo(p, 0o644) },
		"link": func(p string) error { return os.Symlink("/dev/zero", p) },
	} {
		t.Run(name, func(t *testing.T) {
			f := Folder(t.TempDir())
			if err := make(f.lockFile()); err != nil {
				t.Fatal(err)
			}
			if _, err := f.Lock("x"); err == nil {
				t.Errorf("%s: no error", name)
			}
			if _, err := f.LeftBy(); err == nil {
				t.Errorf("%s: no error", name)
			}
		})
	}
}

func TestLockSoonWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := Folder(t.TempDir())
		l, err := f.Lock("a")
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if _, err := f.LockSoon(t.Context(), "b", time.Minute); !errors.As(err, new(*Busy)) ||
			time.Since(began) < time.Minute {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		if _, err := f.LockSoon(ctx, "b", time.Minute); !errors.As(err, new(*Busy)) {
			t.Error(err)
		}
		time.AfterFunc(time.Second, l.Close)
		l2, err := f.LockSoon(t.Context(), "b", time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		l2.Close()
	})
}

// TestFolderRemovedDuringTheRun: no manifest declares a run complete if its folder or files disappeared while it was
// running.
func TestFolderRemovedDuringTheRun(t *testing.T) {
	for name, harm := range map[string]func(f Folder) error{
		"the folder": func(f Folder) error { return os.RemoveAll(string(f)) },
		"moved away": func(f Folder) error { return os.Rename(string(f), string(f)+"-away") },
		"replaced": func(f Folder) error {
			return errors.Join(os.Rename(string(f), string(f)+"-away"),
				os.CopyFS(string(f), os.DirFS(string(f)+"-away")))
		},
		"the records":  func(f Folder) error { return os.RemoveAll(f.Records()) },
		"the drops":    func(f Folder) error { return os.Remove(f.Dropped()) },
		"a known file": func(f Folder) error { return os.Remove(filepath.Join(f.Format("trl"), "train.jsonl")) },
		"cut":          func(f Folder) error { return os.Truncate(filepath.Join(f.Format("trl"), "train.jsonl"), 1) },
	} {
		t.Run(name, func(t *testing.T) {
			f := complete(t)
			if err := os.Remove(f.Manifest()); err != nil {
				t.Fatal(err)
			}
			known, err := f.Sum("dataset/trl/train.jsonl")
			if err != nil {
				t.Fatal(err)
			}
			l, err := f.Lock("finetune run")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			if err := harm(f); err != nil {
				t.Fatal(err)
			}
			if err := l.WriteManifest(&Manifest{Status: Completed}, []File{known}); err == nil {
				t.Error("the run is called complete")
			}
			if Has(f.Manifest()) {
				t.Error("a manifest was written")
			}
		})
	}
}

// TestManifestIsReadWithinLimits checks that a manifest is refused if it isn't a regular file, is too large, or names
// files outside the run.
func TestManifestIsReadWithinLimits(t *testing.T) {
	text := func(text string) func(string) error {
		return func(p string) error { return os.WriteFile(p, []byte(text), 0o644) }
	}
	says := map[string]string{"bloated": "values", "a file outside": "outside", "rows outside": "outside"}
	for name, make := range map[string]func(string) error{
		"a device":  func(p string) error { return os.Symlink("/dev/zero", p) },
		"a pipe":    func(p string) error { return syscall.Mkfifo(p, 0o644) },
		"a folder":  func(p string) error { return os.Mkdir(p, 0o755) },
		"too large": func(p string) error { return errors.Join(os.WriteFile(p, nil, 0o644), os.Truncate(p, 1<<40)) },
		"bloated": func(p string) error {
			return os.WriteFile(p, append([]byte(`{"files":[{}`), append(bytes.Repeat([]byte(",{}"), 3<<20), "]}"...)...), 0o644)
		},
		"no JSON":        text("{"),
		"a file outside": text(`{"files": [{"path": "../../x"}]}`),
		"rows outside":   text(`{"dataset": [{"format": "trl", "files": [{"path": "/etc/passwd"}]}]}`),
		"a format above": text(`{"dataset": [{"format": ".."}]}`),
		"a format below": text(`{"dataset": [{"format": "a/b"}]}`),
	} {
		t.Run(name, func(t *testing.T) {
			f := Folder(t.TempDir())
			if err := make(f.Manifest()); err != nil {
				t.Fatal(err)
			}
			_, err := f.ReadManifest()
			if err == nil || errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), says[name]) {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
}

// TestAddFormats: added formats replace those that were there; everything else stays, in the same order.
func TestAddFormats(t *testing.T) {
	f := complete(t)
	text, err := os.ReadFile(f.Manifest())
	if err != nil {
		t.Fatal(err)
	}
	write(t, f.Manifest(), `{"zeta": [1.0],`+strings.TrimPrefix(string(text), "{"))
	l, err := f.LockToConvert([]string{"trl"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	add := []File{{Path: "dataset/trl/validation.jsonl", Bytes: 1, XXH3: "x"}}
	u, err := l.AddFormats([]Written{{Format: "trl", Records: 7}, {Format: "kto"}}, add)
	if err != nil {
		t.Fatal(err)
	}
	old := filepath.Join(f.Format("trl"), "train.jsonl")
	if now, _ := os.ReadFile(f.Manifest()); !strings.Contains(string(now), "train.jsonl") || !Has(old) {
		t.Error("it changed before it was committed")
	}
	if err := u.Commit(); err != nil {
		t.Fatal(err)
	}
	m, err := f.ReadManifest()
	if err != nil || len(m.Dataset) != 2 || m.Dataset[0].Records != 7 || !slices.Contains(m.Files, add[0]) {
		t.Errorf("%+v, %v", m, err)
	}
	if Has(old) || slices.ContainsFunc(m.Files, func(x File) bool { return x.Path == "dataset/trl/train.jsonl" }) {
		t.Error("what the format was before is still there")
	}
	var order struct{ Zeta []json.RawMessage }
	now, _ := os.ReadFile(f.Manifest())
	if err := json.Unmarshal(now, &order); err != nil || string(order.Zeta[0]) != "1.0" ||
		!strings.HasPrefix(string(now), "{\n  \"zeta\"") {
		t.Errorf("%.100s, %v", now, err)
	}
}

// interrupt leaves a lock as a conversion does that failed while files got their names, and cleaned up.
func interrupt(t *testing.T, l *Lock) {
	t.Helper()
	l.holder.Placing = &Placing{}
	if err := l.write(&l.holder); err != nil {
		t.Fatal(err)
	}
	l.keep = true
}

// TestKilledWhilePlacing: whatever a conversion had done of giving files their names when it was killed, the next one
// who looks at the run completes it; one that had only written temporary files left the run as it was.
func TestKilledWhilePlacing(t *testing.T) {
	const files = 3
	for done := range files + 2 {
		t.Run(fmt.Sprint(done), func(t *testing.T) {
			f := complete(t)
			l, err := f.LockToConvert([]string{"kto"})
			if err != nil {
				t.Fatal(err)
			}
			if err := os.MkdirAll(f.Format("kto"), 0o755); err != nil {
				t.Fatal(err)
			}
			var list []File
			for i := range files {
				name := filepath.Join(f.Format("kto"), fmt.Sprintf("f%d.jsonl", i))
				out, err := durable.Create(name)
				if err != nil {
					t.Fatal(err)
				}
				defer out.Abort()
				if _, err = out.WriteString("row\n"); err == nil {
					err = out.Prepare()
				}
				if err != nil {
					t.Fatal(err)
				}
				list = append(list, File{Path: f.Rel(name), Bytes: 4, XXH3: "00"}.Until(out.Temporary()))
			}
			if left, err := f.LeftBy(); !errors.As(err, new(*Busy)) {
				t.Errorf("%v, %v", left, err)
			}
			u, err := l.AddFormats([]Written{{Format: "kto"}}, list)
			if err == nil {
				err = l.Place(u, list)
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, file := range list[:min(done, files)] {
				if err := durable.Adopt(file.temp, filepath.Join(string(f), file.Path)); err != nil {
					t.Fatal(err)
				}
			}
			if done > files {
				if err := durable.Adopt(u.file.Temporary(), f.Manifest()); err != nil {
					t.Fatal(err)
				}
			}
			l.file.Close() // it dies here
			f.Recover()
			if left, err := f.LeftBy(); left != nil || err != nil {
				t.Errorf("%v, %v", left, err)
			}
			m, err := f.ReadManifest()
			if err != nil || !slices.ContainsFunc(m.Dataset, func(w Written) bool { return w.Format == "kto" }) {
				t.Errorf("%+v, %v", m, err)
			}
			for _, file := range list {
				if !Has(filepath.Join(string(f), file.Path)) || Has(file.temp) {
					t.Errorf("%s is not in place", file.Path)
				}
			}
		})
	}
	f := complete(t)
	l, err := f.LockToConvert([]string{"kto"})
	if err != nil {
		t.Fatal(err)
	}
	l.file.Close() // it dies before any file gets its name
	if left, err := f.LeftBy(); left != nil || err != nil {
		t.Errorf("%v, %v", left, err)
	}
}

// TestForgedPlacing: a lock file that names files elsewhere moves and removes none.
func TestForgedPlacing(t *testing.T) {
	for name, change := range map[string]func(*Placing){
		"a file outside":     func(p *Placing) { p.Files[0].Path = "../x" },
		"the record log":     func(p *Placing) { p.Files[0].Path = "records/x" },
		"no temporary file":  func(p *Placing) { p.Files[0].Temporary = "dataset/kto/config.yml" },
		"another's folder":   func(p *Placing) { p.Files[0].Temporary = "../.nat-go-tmp-0123456789abcdef" },
		"removed outside":    func(p *Placing) { p.Gone = []string{"dataset/../../x"} },
		"another's manifest": func(p *Placing) { p.Manifest.Path = "config.yml" },
	} {
		t.Run(name, func(t *testing.T) {
			p := &Placing{
				Files:    []pendingFile{{"dataset/kto/.nat-go-tmp-0123456789abcdef", "dataset/kto/train.jsonl"}},
				Manifest: pendingFile{".nat-go-tmp-0123456789abcdef", "manifest.json"},
			}
			if !p.isValid() {
				t.Fatal("it is refused as it was")
			}
			if change(p); p.isValid() {
				t.Error("it is taken")
			}
		})
	}
}

// TestConvertAfterOneThatWasKilled: a second conversion has to write what the killed one was writing.
func TestConvertAfterOneThatWasKilled(t *testing.T) {
	f := complete(t)
	l, err := f.LockToConvert([]string{"trl", "kto"})
	if err != nil {
		t.Fatal(err)
	}
	interrupt(t, l)
	l.Close()
	for range 2 {
		if _, err := f.LockToConvert([]string{"kto"}); exit.Code(err) != exit.Usage ||
			!strings.Contains(err.Error(), "was interrupted") {
			t.Error(err)
		}
	}
	if l, err = f.LockToConvert([]string{"kto", "openai", "trl"}); err != nil {
		t.Fatal(err)
	}
	l.Finished()
	l.Close()
	if l, err = f.LockToConvert([]string{"kto"}); err != nil {
		t.Fatal(err)
	}
	l.Close()
	if err := os.Remove(f.Manifest()); err != nil {
		t.Fatal(err)
	}
	if _, err := f.LockToConvert([]string{"kto"}); exit.Code(err) != exit.Usage ||
		!strings.Contains(err.Error(), "finetune resume") {
		t.Error(err)
	}
}

// TestTeacherAnswersShareOneEntry: the teacher's answers share one entry, and each of them counts in it.
func TestTeacherAnswersShareOneEntry(t *testing.T) {
	f := complete(t)
	answer := f.path("teacher", "ab", "cd")
	write(t, answer, "answer")
	l, err := f.Lock("x")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	sums := func() File {
		list, err := l.Sums(nil)
		if err != nil {
			t.Fatal(err)
		}
		var of []File
		for _, s := range list {
			if strings.HasPrefix(s.Path, "teacher") {
				of = append(of, s)
			}
		}
		if len(of) != 1 || of[0].Path != "teacher/" {
			t.Fatalf("%+v", of)
		}
		return of[0]
	}
	before := sums()
	write(t, answer, "Answer")
	if after := sums(); after == before || after.Bytes != before.Bytes {
		t.Errorf("%+v became %+v", before, after)
	}
	write(t, answer, "answer")
	if err := os.Rename(answer, answer+"e"); err != nil {
		t.Fatal(err)
	}
	if after := sums(); after == before {
		t.Error("the sum is the same although a file was renamed")
	}
}
