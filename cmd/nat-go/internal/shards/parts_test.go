package shards

import (
	"io"
	"os"
	"strings"
	"testing"
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
