package shards

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
)

// TestFrames truncates the file at every byte, as a killed process might leave it, and continues it. It also damages
// the file.
func TestFrames(t *testing.T) {
	f := runfolder.Folder(t.TempDir())
	if err := os.Mkdir(f.Records(), 0o755); err != nil {
		t.Fatal(err)
	}
	all := []string{"first", "", "third frame"}
	path := headsPath(f)
	add := func() {
		t.Helper()
		n := 0
		w, err := continueFrames(path, func([]byte) bool { n++; return true })
		if err != nil {
			t.Fatal(err)
		}
		for _, frame := range all[n:] {
			if err := w.addFrame([]byte(frame)); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	add()
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	done := &Done{Folder: f, Files: []runfolder.File{{Path: f.Rel(path), Bytes: int64(len(whole))}}}
	read := func() (got []string, _ error) {
		r, err := readFrames(done, path)
		if err != nil {
			return nil, err
		}
		defer r.Close()
		for {
			b, err := r.Next()
			if errors.Is(err, io.EOF) {
				return got, nil
			}
			if err != nil {
				return nil, err
			}
			got = append(got, string(b))
		}
	}
	for cut := range whole {
		if err := os.WriteFile(path, whole[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := read(); err == nil {
			t.Errorf("the first %d bytes were accepted as the whole file", cut)
		}
		add()
		got, err := read()
		if d := cmp.Diff(all, got); d != "" || err != nil {
			t.Errorf("continued after %d bytes: %v (-want +got):\n%s", cut, err, d)
		}
	}
	for at := range whole {
		damaged := []byte(string(whole))
		damaged[at] ^= 0x81
		if err := os.WriteFile(path, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := read(); err == nil || !strings.Contains(fmt.Sprint(err), "is damaged") {
			t.Errorf("damage at byte %d: %q (%v)", at, got, err)
		}
	}
}
