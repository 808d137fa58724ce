// Package dpo builds preference pairs from scored candidates (`_type: dpo_traj_builder`).
//
// It takes all settings of NAT's builder of that name, with its defaults, and adds strategies, a least score for
// winners and a direction of the score. Where NAT trains on what it was given, this builder looks first: ties, scores
// that are no numbers, failed scorers, empty answers, candidates of different prompts, prompts with the answer in them
// are dropped, each with a reason (package pairs). Every candidate is in at least one pair or dropped once. What NAT's
// own algorithm makes of the same steps, to the letter, is in natcompat.
//
// Records refer to their candidates instead of repeating texts. NAT's metadata object is left out unless `metadata:
// true`, as all of it but the steps' own metadata follows from the record.
//
// Not part of the promised API.
package dpo
