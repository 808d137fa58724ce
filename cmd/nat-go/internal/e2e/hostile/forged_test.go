//go:build linux

package hostile

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/e2e"
)

// TestForgedRunFolder replaces each file of a run with a pipe without a writer and with a device that never ends, and
// checks that every command that reads the run ends, within bounds.
func TestForgedRunFolder(t *testing.T) {
	b := e2e.NewBed(t, 5)
	b.Must(t, b.Command(nil, "finetune", "run", "--config-file", "finetune.yml", "--run-id", "r", "--dry-run"))
	b.Must(t, b.Command(nil, "finetune", "run", "--config-file", "finetune.yml", "--run-id", "s", "--dry-run"))
	run := filepath.Join(b.Dir, "out", "r")
	commands := [][]string{
		{"dataset", "verify", "out/r"},
		{"dataset", "stats", "out/r"},
		{"dataset", "show", "out/r"},
		{"dataset", "convert", "out/r", "--format", "openai"},
		{"dataset", "merge", "out/s", "out/r", "--run-id", "m"},
		{"view", "out/r", "--export", "page.html"},
	}
	var names []string
	err := filepath.WalkDir(run, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && !strings.HasPrefix(d.Name(), ".") {
			names = append(names, path)
		}
		return err
	})
	if err != nil || len(names) < 8 {
		t.Fatalf("%d files, %v", len(names), err)
	}
	kept := filepath.Join(b.Dir, "kept")
	for _, name := range names {
		for _, forge := range []func() error{
			func() error { return syscall.Mkfifo(name, 0o600) }, func() error { return os.Symlink("/dev/zero", name) },
		} {
			if err := os.Rename(name, kept); err != nil {
				t.Fatal(err)
			}
			if err := forge(); err != nil {
				t.Fatal(err)
			}
			for _, args := range commands {
				cmd := b.Command(nil, args...)
				hung := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
				r := e2e.Finish(t, cmd)
				if !hung.Stop() {
					t.Errorf("%v hangs reading %s", args, name)
				}
				if r.Code < 0 || r.Code > 3 || strings.Contains(r.Stderr, "goroutine ") {
					t.Errorf("%v with %s: exit %d: %s", args, name, r.Code, r.Stderr)
				}
				if err := os.RemoveAll(filepath.Join(b.Dir, "out", "m")); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Rename(kept, name); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestForgedShardFolder does the same for each file of a plan and of its shards, one of which has only just begun.
func TestForgedShardFolder(t *testing.T) {
	b := e2e.NewShardBed(t, 10)
	b.Must(t, b.Planned("out", "dpo.yml", "--shards", "2"))
	b.Must(t, b.Shard("out", "build", 0))
	dir := filepath.Join(b.Dir, "out", "r.shards")
	unfinished := filepath.Join(dir, "build", "00000", "shard.json")
	var names []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && !strings.HasPrefix(d.Name(), ".") {
			names = append(names, path)
		}
		return err
	})
	if err != nil || len(names) < 5 {
		t.Fatalf("%d files, %v", len(names), err)
	}
	if err := os.Remove(unfinished); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		whole, err := os.ReadFile(name)
		if err != nil && name != unfinished {
			continue // from an earlier attempt: it is made again
		}
		if err := os.RemoveAll(name); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Mkfifo(name, 0o600); err != nil {
			t.Fatal(err)
		}
		for _, cmd := range []*exec.Cmd{
			b.Command(nil, "shard", "status", dir), b.Shard("out", "build", 0), b.Merged("out"),
			b.Command(nil, "shard", "script", "ray", dir, "--out", filepath.Join(b.Dir, "script")),
		} {
			hung := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
			r := e2e.Finish(t, cmd)
			if !hung.Stop() {
				t.Errorf("%v hangs reading %s", cmd.Args[1:], name)
			}
			if r.Code < 0 || r.Code > 4 || strings.Contains(r.Stderr, "goroutine ") {
				t.Errorf("%v with %s: exit %d: %s", cmd.Args[1:], name, r.Code, r.Stderr)
			}
		}
		if err := os.RemoveAll(name); err != nil {
			t.Fatal(err)
		}
		if name == unfinished {
			continue
		}
		if err := os.WriteFile(name, whole, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
