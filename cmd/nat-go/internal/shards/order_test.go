package shards

import (
	"errors"
	"io"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestOrder continues a file after fewer groups than it contains, as after a crash between the file's sync and the
// log's commit, and sorts the groups of two shards.
func TestOrder(t *testing.T) {
	p := &Parts{Dir: Folder(t.TempDir()), Plan: &Plan{Shards: make([]Shard, 2)}}
	add := func(shard int, groups int64, places ...Place) {
		t.Helper()
		f := p.Dir.Shard(Group, shard)
		if err := os.MkdirAll(f.Records(), 0o755); err != nil {
			t.Fatal(err)
		}
		o, err := OpenOrder(f, groups)
		if err != nil {
			t.Fatal(err)
		}
		defer o.Close()
		for _, at := range places {
			o.Add(at)
		}
		if err := o.Sync(); err != nil {
			t.Fatal(err)
		}
	}
	add(0, 0, Place{0, 1}, Place{0, 2}, Place{0, 5}, Place{1, 0}, Place{1, 4})
	add(0, 2, Place{1, 7})
	add(1, 0, Place{0, 3}, Place{0, 300}, Place{2, 0})
	sorted := func() (got []int, last error) {
		for shard, err := range p.sortGroups(t.TempDir()) {
			if last = err; err == nil {
				got = append(got, shard)
			}
		}
		return got, last
	}
	got, err := sorted()
	if d := cmp.Diff([]int{0, 0, 1, 1, 0, 1}, got); d != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, d)
	}
	if o, err := OpenOrder(p.Dir.Shard(Group, 0), 4); err == nil {
		o.Close()
		t.Error("continued a file that is shorter than its log")
	}
	if err := os.Truncate(orderPath(p.Dir.Shard(Group, 1)), placeWidth+3); err != nil {
		t.Fatal(err)
	}
	if _, err := sorted(); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a place that is cut off: %v", err)
	}
}
