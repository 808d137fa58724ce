package shards

import (
	"errors"
	"io"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
)

// TestOrder continues the file with fewer groups than it holds, as after a crash between its sync and the log's commit.
func TestOrder(t *testing.T) {
	f := runfolder.Folder(t.TempDir())
	if err := os.Mkdir(f.Records(), 0o755); err != nil {
		t.Fatal(err)
	}
	add := func(groups int64, places ...Place) {
		t.Helper()
		o, err := OpenOrder(f, groups)
		if err != nil {
			t.Fatal(err)
		}
		defer o.Close()
		for _, p := range places {
			o.Add(p)
		}
		if err := o.Sync(); err != nil {
			t.Fatal(err)
		}
	}
	add(0, Place{0, 1}, Place{0, 2}, Place{0, 5}, Place{1, 0}, Place{1, 4})
	add(2, Place{1, 7})
	in, err := OpenPlaces(f)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	var got []Place
	for {
		p, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, p)
	}
	if d := cmp.Diff([]Place{{0, 1}, {0, 2}, {1, 7}}, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if o, err := OpenOrder(f, 4); err == nil {
		o.Close()
		t.Error("continued a file that is shorter than its log")
	}
}
