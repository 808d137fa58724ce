package collator

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/nat-go/nat-go/collator/batch"
	"github.com/nat-go/nat-go/internal/property"
)

// TestSharing compares the counts of groups, some of whose records are dropped, with sets of prefixes.
func TestSharing(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		sum := newSummary(nil)
		var want sharing
		for range rapid.IntRange(1, 3).Draw(t, "groups") {
			outcomes := make([]outcome, rapid.IntRange(1, 5).Draw(t, "records"))
			for i := range outcomes {
				for range rapid.IntRange(1, 4).Draw(t, "rows") {
					ids := rapid.SliceOfN(rapid.Int32Range(0, 1), 1, 6).Draw(t, "ids")
					outcomes[i].Rows = append(outcomes[i].Rows, batch.Row{Sides: []batch.Side{{IDs: ids}}})
				}
				outcomes[i].count()
			}
			share(outcomes)
			group := map[string]bool{}
			for i := range outcomes {
				dropped := rapid.Bool().Draw(t, "dropped")
				sum.book(&subject{}, dropped, &outcomes[i].counts)
				if dropped {
					continue
				}
				record := map[string]bool{}
				for _, r := range outcomes[i].Rows {
					countPrefixes(&want.Alone, map[string]bool{}, r.Sides[0].IDs)
					countPrefixes(&want.Record, record, r.Sides[0].IDs)
					countPrefixes(&want.Group, group, r.Sides[0].IDs)
				}
			}
			sum.endGroup()
		}
		if got := sum.stats.Forward; got != want {
			t.Fatalf("got %+v, want %+v", got, want)
		}
	})
}

// countPrefixes adds the prefixes of ids that aren't in the set.
func countPrefixes(f *forwarded, set map[string]bool, ids []int32) {
	for n := 1; n <= len(ids); n++ {
		if key := fmt.Sprint(ids[:n]); !set[key] {
			set[key] = true
			f.Tokens++
			f.Pairs += int64(n)
		}
	}
}
