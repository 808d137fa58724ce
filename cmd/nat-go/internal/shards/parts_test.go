package shards

import (
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/collator/batch"
)

// countedGroups yields a fixed number of groups.
type countedGroups struct{ left, closed int }

func (g *countedGroups) Next() error {
	if g.left == 0 {
		return io.EOF
	}
	g.left--
	return nil
}

func (g *countedGroups) Close() error { g.closed++; return nil }

// TestOrderOfOtherLogs checks that logs with more or fewer groups than their order files list cause an error, and are
// closed.
func TestOrderOfOtherLogs(t *testing.T) {
	p := &Parts{Dir: Folder(t.TempDir()), Plan: &Plan{Shards: make([]Shard, 2)}}
	for i := range p.Plan.Shards {
		f := p.Dir.Shard(Group, i)
		if err := os.MkdirAll(f.Records(), 0o755); err != nil {
			t.Fatal(err)
		}
		o, err := OpenOrder(f, 0)
		if err != nil {
			t.Fatal(err)
		}
		o.Add(Place{Row: int64(i)})
		o.Add(Place{Row: int64(i) + 2})
		if err := o.Sync(); err != nil {
			t.Fatal(err)
		}
		o.Close()
	}
	for _, n := range []int{1, 2, 3} {
		all := []*countedGroups{{left: 2}, {left: n}}
		err := p.Walk(t.Context(), Group, t.TempDir(), func(i int) (Groups, error) { return all[i], nil })
		if refused := err != nil && strings.HasPrefix(err.Error(), "order.bin does not match its log"); refused != (n != 2) {
			t.Errorf("%d groups: %v", n, err)
		}
		if all[0].closed != 1 || all[1].closed != 1 {
			t.Errorf("%d groups: closed %d and %d times", n, all[0].closed, all[1].closed)
		}
	}
}

// TestForgedRowEntries checks that an entry of a row that isn't in the shard's file is damage.
func TestForgedRowEntries(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "rows"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString("a row"); err != nil {
		t.Fatal(err)
	}
	p := &Parts{Plan: &Plan{Shards: make([]Shard, 1)}, rows: map[int]*os.File{0: f}}
	for offset, bytes := range map[int64]uint32{0: 1 << 31, 6: 1, -1: 2, math.MaxInt64: 5} {
		row := new(batch.Encoded)
		row.Offset, row.Bytes = offset, bytes
		if _, err := p.ReadRow(row); err == nil || !strings.Contains(err.Error(), "outside the file") {
			t.Errorf("%d bytes at %d: %v", bytes, offset, err)
		}
	}
}
