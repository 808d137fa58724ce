// Package pairs decides which candidates of a turn are compared with each other. It is pure: candidates in, indices and
// margins out.
//
// Filter takes out what must not be in any pair and says why; Chooser chooses pairs among the rest by a strategy. All
// strategies choose from the same set: the pairs whose margin is positive and large enough and whose winner is good
// enough. What is left unchosen is counted by reason, from the order of the scores, without looking at every pair; and
// the pairs of largest margin come from a heap over the sorted scores, so that a turn of thousands of candidates with a
// limit of a few pairs costs a sort.
//
// Part of the Go API we promise (v0).
package pairs
