package batch

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/nat-go/nat-go/internal/property"
)

// TestCutKeepsBudget checks that a padded batch of several rows stays within the budget if its rows have several
// sequences each, which are all padded to the longest one of the batch.
func TestCutKeepsBudget(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		equal := rapid.Bool().Draw(t, "equal")
		budget := rapid.IntRange(1, 2000).Draw(t, "budget")
		type row struct{ one, width, sequences int }
		var all []row
		var rows []entry
		for range rapid.IntRange(1, 40).Draw(t, "rows") {
			r := row{rapid.IntRange(1, 60).Draw(t, "one"), rapid.IntRange(1, 60).Draw(t, "width"), rapid.IntRange(1, 9).Draw(t, "n")}
			all = append(all, r)
			rows = append(rows, entry{
				Width: [maxSides]uint32{uint32(r.one), uint32(r.width)}, Sequences: [maxSides]uint32{1, uint32(r.sequences)},
			})
		}
		at := 0
		cells := func(rows []row) int {
			one, width, n := 0, 0, 0
			for _, r := range rows {
				one, width, n = max(one, r.one), max(width, r.width), n+r.sequences
			}
			if equal {
				one = max(one, width)
				width = one
			}
			return one*len(rows) + width*n
		}
		for _, b := range cut(rows, budget, equal) {
			n := cells(all[at : at+len(b)])
			if n > budget && len(b) > 1 {
				t.Fatalf("%d rows have %d cells; the budget is %d", len(b), n, budget)
			}
			if end := at + len(b) + 1; end <= len(all) && cells(all[at:end]) <= budget {
				t.Fatalf("a batch of %d rows has room for another", len(b))
			}
			at += len(b)
		}
		if at != len(all) {
			t.Fatalf("%d of %d rows are in batches", at, len(all))
		}
	})
}
