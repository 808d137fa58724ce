package finetune

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/dataset"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage"
)

func verifyRun(t *testing.T, run runfolder.Folder) *dataset.Report {
	t.Helper()
	p, err := dataset.Find(string(run), dataset.DefaultLimits)
	if err != nil {
		p = &dataset.Place{Run: run}
	}
	m, why := run.ReadManifest()
	var written []runfolder.Written
	if why == nil {
		written = append([]runfolder.Written{}, m.Dataset...)
	}
	r, err := dataset.Verify(p, written, t.TempDir())
	if err == nil {
		err = r.VerifyRun(run, m, why)
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestEveryFileOfARunIsVerified checks that `dataset verify` detects a change to, the removal of, or an addition to any
// file of a run.
func TestEveryFileOfARunIsVerified(t *testing.T) {
	dir, sum := smallRun(t, func(r *Request, _ *stage.Env) { r.Formats = []string{"trl", "customizer"} })
	whole := runfolder.Folder(filepath.Join(dir, sum.RunDir))
	if r := verifyRun(t, whole); r.Errors > 0 {
		t.Fatalf("%+v", r.Findings)
	}
	m, err := whole.ReadManifest()
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	err = filepath.WalkDir(string(whole), func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			files = append(files, whole.Rel(path))
		}
		return err
	})
	if err != nil || len(files) < 12 {
		t.Fatal(files, err)
	}
	for _, name := range files {
		has := slices.ContainsFunc(m.Files, func(f runfolder.File) bool { return f.Path == name })
		if name == ".lock" || name == "manifest.json" {
			if has {
				t.Errorf("the manifest has %s", name)
			}
			continue
		}
		if !has {
			t.Errorf("the manifest lacks %s", name)
		}
		for what, harm := range map[string]func(string) error{
			"removed": os.Remove,
			"changed": func(path string) error {
				b, err := os.ReadFile(path)
				if err == nil && len(b) > 0 {
					b[len(b)/2] ^= 1
				} else {
					b = []byte("x")
				}
				return errors.Join(err, os.WriteFile(path, b, 0o644))
			},
			"emptied": func(path string) error { return os.WriteFile(path, []byte("\n"), 0o644) },
			"linked": func(path string) error {
				return errors.Join(os.Rename(path, path+"-away"), os.Symlink("/dev/zero", path))
			},
		} {
			copied := runfolder.Folder(filepath.Join(t.TempDir(), "r"))
			if err := os.CopyFS(string(copied), os.DirFS(string(whole))); err != nil {
				t.Fatal(err)
			}
			if what == "linked" && strings.HasPrefix(name, "dataset/") {
				continue // row files are checked as rows first
			}
			if err := harm(filepath.Join(string(copied), filepath.FromSlash(name))); err != nil {
				t.Fatal(err)
			}
			if r := verifyRun(t, copied); r.Errors == 0 {
				t.Errorf("%s %s: sound", name, what)
			} else if !strings.Contains(fmt.Sprint(r.Findings), filepath.Base(name)) {
				t.Errorf("%s %s: no finding names it: %+v", name, what, r.Findings)
			}
		}
	}
	for _, extra := range []string{
		"records/more.log", "dataset/trl/extra.jsonl", "dataset/kto/train.jsonl", "batches/index.jsonl", "notes",
	} {
		t.Run(extra, func(t *testing.T) {
			copied := runfolder.Folder(filepath.Join(t.TempDir(), "r"))
			path := filepath.Join(string(copied), filepath.FromSlash(extra))
			err := os.CopyFS(string(copied), os.DirFS(string(whole)))
			if err = errors.Join(err, os.MkdirAll(filepath.Dir(path), 0o755),
				os.WriteFile(path, nil, 0o644)); err != nil {
				t.Fatal(err)
			}
			if r := verifyRun(t, copied); r.Errors == 0 {
				t.Errorf("%s was added: sound", extra)
			}
		})
	}
}

// TestARunWithoutAManifestIsNotVerifiable also covers runs whose manifest has no hashes or reports a failure.
func TestARunWithoutAManifestIsNotVerifiable(t *testing.T) {
	dir, sum := smallRun(t, func(*Request, *stage.Env) {})
	run := runfolder.Folder(filepath.Join(dir, sum.RunDir))
	text, err := os.ReadFile(run.Manifest())
	if err != nil {
		t.Fatal(err)
	}
	for what, manifest := range map[string]string{
		"none":    "",
		"no JSON": "{",
		"no hashes": strings.Replace(string(text), "\"files\": [\n    {\n      \"path\": \"co",
			"\"was\": [\n    {\n      \"path\": \"co", 1),
		"failed": strings.Replace(string(text), `"status": "completed"`, `"status": "failed"`, 1),
	} {
		t.Run(what, func(t *testing.T) {
			if err := os.Remove(run.Manifest()); err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
			if manifest != "" {
				if err := os.WriteFile(run.Manifest(), []byte(manifest), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			r := verifyRun(t, run)
			if !slices.ContainsFunc(r.Findings, func(f dataset.Defect) bool { return f.Code == "NG5012" }) {
				t.Errorf("%s: %+v", what, r.Findings)
			}
		})
	}
}

// TestUnreadable checks that a missing program doesn't have any content to compare.
func TestUnreadable(t *testing.T) {
	dir := t.TempDir()
	if sum, err := contentSum(filepath.Join(dir, "gone")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%q, %v", sum, err)
	}
}
