package natcompat

import (
	"cmp"
	"container/heap"
	"fmt"
	"iter"
	"math"
	"slices"
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
	single, skipped int64 // skipped_single_candidate, skipped_score_diff
}

// rank is _generate_preference_pairs for one turn. The pairs are made one by one where their order allows it.
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
	if ordered(sorted) {
		r.widest(sorted, b.cfg.MinScoreDiff)
	} else if err := r.sorted(sorted, b.cfg.MinScoreDiff); err != nil {
		return r, err
	}
	if most := b.cfg.MaxPairsPerTurn; most != nil {
		r.pairs = first(r.pairs, *most)
	}
	return r, nil
}

// first returns the first n pairs.
func first(pairs iter.Seq[pair], n int) iter.Seq[pair] {
	return func(yield func(pair) bool) {
		left := n
		for p := range pairs {
			if left--; left < 0 || !yield(p) {
				return
			}
		}
	}
}

// byScore is sorted(candidates, key=score, reverse=True).
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

// ordered reports whether no difference between two of the scores is NaN.
func ordered(sorted []*candidate) bool {
	var plus, minus int
	for _, c := range sorted {
		switch {
		case math.IsNaN(c.score):
			return false
		case math.IsInf(c.score, 1):
			plus++
		case math.IsInf(c.score, -1):
			minus++
		}
	}
	return plus < 2 && minus < 2
}

// widest yields the pairs of ordered scores by difference, the largest first, and equal ones as NAT's loops make them:
// pairs.sort(key=score_diff, reverse=True) is stable. A turn of n candidates has n*(n-1)/2 pairs, so for each winner
// only one run of equal differences, a row, is known at any time. Rounding is monotonic, so the differences grow along
// a row.
func (r *ranking) widest(sorted []*candidate, least float64) {
	n := len(sorted)
	from := make([]int, n) // by winner: the first it is far enough from
	far := 0
	for i := range sorted {
		for far = max(far, i+1); far < n && sorted[i].score-sorted[far].score < least; far++ {
		}
		from[i] = far
		r.skipped += int64(far - i - 1)
	}
	r.pairs = func(yield func(pair) bool) {
		var rows rows
		for i := range sorted {
			if w := (row{winner: i, start: n}); w.next(sorted, from[i]) {
				rows = append(rows, w)
			}
		}
		heap.Init(&rows)
		for len(rows) > 0 {
			w := &rows[0]
			for j := w.start; j < w.end; j++ {
				if !yield(pair{chosen: sorted[w.winner], rejected: sorted[j], diff: w.diff}) {
					return
				}
			}
			if w.next(sorted, from[w.winner]) {
				heap.Fix(&rows, 0)
			} else {
				heap.Pop(&rows)
			}
		}
	}
}

// row is a winner's run of losers with the same difference.
type row struct {
	diff       float64
	winner     int
	start, end int
}

// next moves to the run before, which has the next smaller difference. It returns false without one at or after from.
func (w *row) next(sorted []*candidate, from int) bool {
	if w.start <= from {
		return false
	}
	w.end = w.start
	top := sorted[w.winner].score
	w.diff = top - sorted[w.end-1].score
	at, _ := slices.BinarySearchFunc(sorted[from:w.end], w.diff, func(c *candidate, diff float64) int {
		return cmp.Compare(top-c.score, diff)
	})
	w.start = from + at
	return true
}

// rows is a heap: the largest difference first, then the winner of the higher rank.
type rows []row

func (h rows) Len() int      { return len(h) }
func (h rows) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *rows) Push(x any)   { *h = append(*h, x.(row)) }

func (h rows) Less(i, j int) bool {
	if h[i].diff != h[j].diff {
		return h[i].diff > h[j].diff
	}
	return h[i].winner < h[j].winner
}

func (h *rows) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// maxSorted is the largest number of pairs of a turn that are sorted: the pairs of 2,048 candidates.
const maxSorted = 2048 * 2047 / 2

// sorted yields pairs some of whose differences are NaN. Their order depends on every comparison that CPython makes, so
// all of them are sorted, as it does.
func (r *ranking) sorted(sorted []*candidate, least float64) error {
	if n := int64(len(sorted)); n*(n-1)/2 > maxSorted {
		return fmt.Errorf("turn %q has %d candidates, some of whose scores are NaN or infinite: to order their %d pairs, all have to be "+
			"sorted, and the limit is %d; remove those candidates", sorted[0].turn, n, n*(n-1)/2, maxSorted)
	}
	var diffs []float64
	var ranks [][2]int32
	for i, chosen := range sorted {
		for j := i + 1; j < len(sorted); j++ {
			diff := chosen.score - sorted[j].score
			if diff < least {
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
