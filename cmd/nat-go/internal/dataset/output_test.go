package dataset

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
)

// TestOutputs checks that files that get their names have their whole content, and that aborted ones leave nothing.
func TestOutputs(t *testing.T) {
	dir := t.TempDir()
	want := map[string]string{}
	kept, left := outputs{dir: dir}, outputs{dir: dir}
	for i := range 200 {
		outs := &kept
		if i%5 == 3 {
			outs = &left
		}
		o, err := outs.create(runfolder.RowFile{Path: fmt.Sprintf("%d/%d", i%2, i)})
		if err != nil {
			t.Fatal(err)
		}
		text := fmt.Sprint("content ", i)
		_, _ = o.Write([]byte(text))
		if i%5 == 4 {
			continue
		}
		if outs.finish(o); o.Bytes != int64(len(text)) {
			t.Errorf("%d bytes of %q", o.Bytes, text)
		}
		if outs == &kept {
			want[o.final] = text
		}
	}
	if err := kept.place(nil, nil); err != nil {
		t.Fatal(err)
	}
	kept.abort()
	left.abort()
	for _, o := range kept.finished {
		if o.buf != nil || o.free != nil {
			t.Fatalf("%s still holds its blocks", o.final)
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
