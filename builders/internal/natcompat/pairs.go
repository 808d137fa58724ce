package natcompat

import (
	"fmt"
	"iter"

	"github.com/nat-go/nat-go/builders/dpo"
)

// pair is NAT's PreferencePair.
type pair struct {
	chosen, rejected *candidate
	diff             float64
	among            int // number of candidates in the turn, for best-vs-worst; 0 means exhaustive
}

// ranking is the result of _generate_preference_pairs for one turn: its pairs, in NAT's order, and its counts.
type ranking struct {
	pairs           iter.Seq[pair]
	single, skipped int64 // NAT's counters skipped_single_candidate and skipped_score_diff
}

// rank implements _generate_preference_pairs for one turn.
func (b *Builder) rank(turn []candidate) (ranking, error) {
	r := ranking{pairs: func(func(pair) bool) {}}
	if len(turn) < 2 {
		if b.cfg.RequireMultiple {
			r.single = 1
		}
		return r, nil
	}
	sorted := byScore(turn)
	if !b.cfg.ExhaustivePairs {
		first, last := sorted[0], sorted[len(sorted)-1]
		diff := first.score - last.score
		if diff < b.cfg.MinScoreDiff {
			r.skipped = 1
			return r, nil
		}
		r.pairs = func(yield func(pair) bool) { yield(pair{first, last, diff, len(sorted)}) }
		return r, nil
	}
	return r, r.sorted(sorted, &b.cfg)
}

// byScore implements sorted(candidates, key=score, reverse=True).
func byScore(turn []candidate) []*candidate {
	keys, order := make([]float64, len(turn)), make([]int32, len(turn))
	for i := range turn {
		keys[i], order[i] = turn[i].score, int32(i)
	}
	sortReversed(keys, order)
	out := make([]*candidate, len(turn))
	for i, k := range order {
		out[i] = &turn[k]
	}
	return out
}

// maxSorted is the maximum number of pairs in a turn, reached with 2,048 candidates.
const maxSorted = 2048 * 2047 / 2

// sorted sorts all pairs with CPython's algorithm, because the order depends on the comparisons it makes if any score
// is NaN.
func (r *ranking) sorted(sorted []*candidate, cfg *dpo.Config) error {
	if n := int64(len(sorted)); n*(n-1)/2 > maxSorted {
		return fmt.Errorf("turn %q has %d candidates, which make %d pairs; the limit is %d: remove some of them, or "+
			"run without --compat nat", sorted[0].turn, n, n*(n-1)/2, maxSorted)
	}
	var diffs []float64
	var ranks [][2]int32
	for i, chosen := range sorted {
		for j := i + 1; j < len(sorted); j++ {
			diff := chosen.score - sorted[j].score
			if diff < cfg.MinScoreDiff {
				r.skipped++
				continue
			}
			diffs, ranks = append(diffs, diff), append(ranks, [2]int32{int32(i), int32(j)})
		}
	}
	order := make([]int32, len(diffs))
	for i := range order {
		order[i] = int32(i)
	}
	sortReversed(diffs, order)
	if most := cfg.MaxPairsPerTurn; most != nil {
		order = order[:min(*most, len(order))]
	}
	r.pairs = func(yield func(pair) bool) {
		for k, at := range order {
			chosen, rejected := sorted[ranks[at][0]], sorted[ranks[at][1]]
			if !yield(pair{chosen: chosen, rejected: rejected, diff: diffs[k]}) {
				return
			}
		}
	}
	return nil
}
