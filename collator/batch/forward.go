package batch

import "slices"

// Forwarded counts the work of a model's forward passes: tokens, and pairs of a token and one that it attends to, itself
// among them.
type Forwarded struct {
	Tokens int64 `json:"tokens"`
	Pairs  int64 `json:"attended_pairs"`
}

// Add adds a sequence of n tokens whose first common ones are forwarded already.
func (f *Forwarded) Add(n, common int) {
	pairs := func(n int64) int64 { return n * (n + 1) / 2 }
	f.Tokens += int64(n - common)
	f.Pairs += pairs(int64(n)) - pairs(int64(common))
}

// Plus returns the sum of two counts.
func (f Forwarded) Plus(g Forwarded) Forwarded {
	return Forwarded{f.Tokens + g.Tokens, f.Pairs + g.Pairs}
}

// Place is a sequence's place among others in the order of their ids. The prefix tree of sequences has as many nodes as
// they have tokens that aren't common with the sequence before.
type Place struct {
	Rank   int // from 0
	Common int // leading ids that are equal to the ones of the sequence before
}

// Places returns the places of sequences.
func Places(ids [][]int32) []Place {
	order := make([]int, len(ids))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return slices.Compare(ids[a], ids[b]) })
	places := make([]Place, len(ids))
	for rank, i := range order {
		places[i].Rank = rank
		if rank > 0 {
			places[i].Common = common(ids[order[rank-1]], ids[i])
		}
	}
	return places
}

// Once counts sequences of which each token is forwarded once with the tokens before it.
func Once(ids [][]int32) (f Forwarded) {
	for i, p := range Places(ids) {
		f.Add(len(ids[i]), p.Common)
	}
	return f
}

func common(a, b []int32) (n int) {
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// Single returns the ids of rows that are one sequence each, as in sft and rl.
func Single(rows []*Row) (ids [][]int32) {
	for _, r := range rows {
		if len(r.Sides) == 1 {
			ids = append(ids, r.Sides[0].IDs)
		}
	}
	return ids
}
