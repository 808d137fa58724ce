package natcompat

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/nat-go/nat-go/builders/dpo"
	"github.com/nat-go/nat-go/builders/schema"
	"github.com/nat-go/nat-go/internal/property"
)

// show prints pairs by their candidates' names.
func show(r ranking) (s []string) {
	for p := range r.pairs {
		s = append(s, fmt.Sprintf("%s>%s %v", p.chosen.response, p.rejected.response, p.diff))
	}
	return s
}

func candidates(scores []float64) (cs []candidate) {
	for i, score := range scores {
		cs = append(cs, candidate{score: score, response: fmt.Sprint(i), example: &item{}})
	}
	return cs
}

// TestPairsOneByOneAreTheSortedOnes checks that ranking pairs one by one gives the same pairs as sorting all of them.
func TestPairsOneByOneAreTheSortedOnes(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		score := rapid.OneOf(rapid.Map(rapid.IntRange(0, 6), func(n int) float64 { return float64(n) / 3 }),
			rapid.Float64(),
			rapid.SampledFrom([]float64{0.1, 0.2, 0.30000000000000004, 1e308, -1e308}))
		scores := rapid.SliceOfN(score, 2, 30).Draw(t, "scores")
		if rapid.Bool().Draw(t, "infinite") {
			scores = append(scores, math.Inf(1), math.Inf(-1))
		}
		least := rapid.SampledFrom([]float64{0, 0.1, 1, 1e300}).Draw(t, "least")
		sorted := byScore(candidates(scores))
		if !ordered(sorted) {
			t.Skip("some differences are NaN")
		}
		var lazy, eager ranking
		lazy.widest(sorted, least)
		if err := eager.sorted(sorted, least); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(show(eager), show(lazy)); d != "" || lazy.skipped != eager.skipped {
			t.Errorf("skipped %d one by one, %d sorted; -sorted +one by one:\n%s", lazy.skipped, eager.skipped, d)
		}
	})
}

// TestPairsOfManyCandidatesAreNotKept checks that a turn of 20,000 candidates, which has 200 million pairs, is ranked
// with a heap of one entry per candidate.
func TestPairsOfManyCandidatesAreNotKept(t *testing.T) {
	scores := make([]float64, 20_000)
	for i := range scores {
		scores[i] = float64(i * i % 9973)
	}
	cfg := schema.New[dpo.Config]()
	most := 1000
	cfg.MaxPairsPerTurn = &most
	b := &Builder{cfg: cfg}
	turn := candidates(scores)
	result := testing.Benchmark(func(tb *testing.B) {
		tb.ReportAllocs()
		for range tb.N {
			r, err := b.rank(turn)
			if err != nil {
				t.Fatal(err)
			}
			if n := len(show(r)); n != most {
				t.Fatalf("%d pairs", n)
			}
		}
	})
	if got := result.AllocedBytesPerOp(); got > 16<<20 {
		t.Errorf("allocated %d bytes for %d candidates", got, len(turn))
	}
}

// TestManyCandidatesWithoutAnOrder checks scores with NaN differences: their order depends on all comparisons, so all
// pairs are sorted, and a turn with too many of them is refused.
func TestManyCandidatesWithoutAnOrder(t *testing.T) {
	turn := candidates(slices.Repeat([]float64{math.NaN()}, 2049))
	cfg := schema.New[dpo.Config]()
	if _, err := (&Builder{cfg: cfg}).rank(turn); err == nil ||
		!strings.Contains(err.Error(), "remove those candidates") {
		t.Errorf("error %v", err)
	}
	if r, err := (&Builder{cfg: cfg}).rank(turn[:300]); err != nil || len(show(r)) != 300*299/2 {
		t.Errorf("%d pairs, %v", len(show(r)), err)
	}
}
