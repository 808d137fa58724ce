package dataset

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestOutputs checks that files that get their names have their whole content, and that aborted ones leave nothing.
func TestOutputs(t *testing.T) {
	dir := t.TempDir()
	want := map[string]string{}
	var files []*output
	for i := range 200 {
		path := filepath.Join(dir, fmt.Sprint(i%2), fmt.Sprint(i))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		o, err := newOutput(path)
		if err != nil {
			t.Fatal(err)
		}
		text := fmt.Sprint("content ", i)
		_, _ = o.Write([]byte(text))
		if i%5 == 4 {
			o.abort()
			continue
		}
		if got := o.finishFile("x"); got.Bytes != int64(len(text)) {
			t.Errorf("%d bytes of %q", got.Bytes, text)
		}
		if i%5 == 3 {
			o.abort()
			continue
		}
		files, want[path] = append(files, o), text
	}
	if err := placeFiles(files, nil, nil, nil); err != nil {
		t.Fatal(err)
	}
	for _, o := range files {
		if o.buf != nil || o.free != nil {
			t.Fatalf("%s still holds its blocks", o.path)
		}
	}
	got := map[string]string{}
	paths, err := filepath.Glob(filepath.Join(dir, "*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		got[path] = string(text)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestSyncedWaits: a file whose blocks are still being written is waited for, and its error is returned.
func TestSyncedWaits(t *testing.T) {
	o := &output{done: make(chan struct{})}
	got := make(chan error)
	go func() { got <- awaitSync([]*output{o}) }()
	select {
	case err := <-got:
		t.Fatalf("synced returned %v before the file was written", err)
	case <-time.After(20 * time.Millisecond):
	}
	o.err = errors.New("disk on fire")
	close(o.done)
	if err := <-got; !errors.Is(err, o.err) {
		t.Errorf("synced returned %v, want %v", err, o.err)
	}
}
