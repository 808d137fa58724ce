package view

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/ttc/source"
)

// TestLineOf checks that the line of a record's place in an input is counted if the input is as the run read it, and
// that no other file that a record names is opened.
func TestLineOf(t *testing.T) {
	dir := t.TempDir()
	text := strings.Repeat("0123456\n", 50_000)
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	r := &Run{Manifest: &runfolder.Manifest{}}
	defer r.Close()
	enter := func(path string) {
		in, err := source.Identify(t.Context(), []string{path})
		if err != nil {
			t.Fatal(err)
		}
		r.Manifest.Inputs = append(r.Manifest.Inputs, in)
	}
	write := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	plain, zipped := write("a.jsonl", []byte(text)), write("b.jsonl.gz", packed.Bytes())
	short, secret := write("short.jsonl", []byte("1\n")), write("secret", []byte(text))
	enter(plain)
	enter(zipped)
	enter(short)
	changed := write("changed.jsonl", []byte(text))
	enter(changed)
	if err := os.Chtimes(changed, time.Time{}, time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	pipe := filepath.Join(dir, "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	enter(pipe)
	folder := filepath.Join(dir, "folder")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	inFolder := write("folder/c.jsonl", []byte(text))
	enter(folder)
	for _, c := range []struct {
		name, path   string
		offset, line int64
	}{
		{"the start", plain, 0, 1},
		{"further", plain, 8 * 30_000, 30_001},
		{"within a line", plain, 8*30_000 + 5, 30_001},
		{"back", plain, 8, 2},
		{"compressed", zipped, 8 * 40_000, 40_001},
		{"in a folder", inFolder, 8 * 3, 4},
		{"the end", plain, 8 * 50_000, 50_001},
		{"after the end", plain, 8*50_000 + 1, 0},
		{"before the start", plain, -1, 0},
		{"a short file", short, 1 << 40, 0},
		{"a changed file", changed, 8, 0},
		{"another file", secret, 8, 0},
		{"out of a folder", filepath.Join(folder, "..", "secret"), 8, 0},
		{"a file that isn't there", filepath.Join(dir, "nothing"), 8, 0},
		{"a pipe", pipe, 8, 0},
		{"a folder", folder, 0, 0},
		{"an object", "s3://bucket/a.jsonl", 8, 0},
		{"no file", "", 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := r.lineOf(t.Context(), c.path, c.offset); got != c.line {
				t.Errorf("got line %d, want %d", got, c.line)
			}
		})
	}
}
