// Package pairs decides which of a turn's candidates to compare. It is free of side effects: it takes candidates and
// returns indices and margins.
//
// Filter removes candidates that must not be in any pair and reports why; Chooser pairs the rest according to a
// strategy. All strategies choose from the same set: the pairs with a positive, sufficiently large margin and a
// sufficiently good winner. Pairs that are not chosen are counted by reason from the sorted scores, without visiting
// every pair; the pairs with the largest margins come from a heap over the sorted scores, so a turn with thousands of
// candidates and a limit of a few pairs takes no longer than sorting.
//
// Part of the supported Go API (v0).
package pairs
