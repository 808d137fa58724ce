package prefix

import "slices"

// Place is a sequence's position among sequences sorted by their ids. The sequences' prefix tree has one node for each
// token that a sequence doesn't share with the previous one.
type Place struct {
	Rank   int // position in sorted order, from 0
	Common int // number of leading ids shared with the previous sequence in sorted order
}

// Places returns the places of sequences.
func Places(ids [][]int32) []Place {
	order := make([]int, len(ids))
	all := 0 // number of leading ids that all sequences share
	for i := range order {
		order[i] = i
		if n := Common(ids[0], ids[i]); i == 0 || n < all {
			all = n
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return slices.Compare(ids[a][all:], ids[b][all:]) })
	places := make([]Place, len(ids))
	for rank, i := range order {
		places[i].Rank = rank
		if rank > 0 {
			places[i].Common = all + Common(ids[order[rank-1]][all:], ids[i][all:])
		}
	}
	return places
}

// Text returns the number of leading bytes that two texts share.
func Text(a, b string) (n int) {
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// Common returns the number of leading ids that two sequences share.
func Common(a, b []int32) (n int) {
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}
