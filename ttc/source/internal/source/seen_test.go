package source

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/nat-go/nat-go/internal/property"
)

// TestSeen compares with a map, with hashes that begin and go on alike, and with 0.
func TestSeen(t *testing.T) {
	property.Check(t, func(rt *rapid.T) {
		var s seen
		want := map[uint64]uint64{}
		for i := range rapid.IntRange(0, 2000).Draw(rt, "entries") {
			id := rapid.Uint64().Draw(rt, "id")
			switch rapid.IntRange(0, 3).Draw(rt, "kind") {
			case 0:
				id %= 300
			case 1:
				id = id%300 | 0xffff<<48
			case 2:
				id = ^uint64(0) - id%300
			}
			first, known := s.put(id, uint64(i))
			had, ok := want[max(id, 1)]
			if known != ok || known && first != had {
				rt.Fatalf("%d is known: %v, with %d; want %v, %d", id, known, first, ok, had)
			}
			if !ok {
				want[max(id, 1)] = uint64(i)
			}
		}
	})
}
