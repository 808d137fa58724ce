// Package dpo builds preference pairs from scored candidates (`_type: dpo_traj_builder`).
//
// It accepts every setting of NAT's builder with the same name and the same defaults, and adds strategies, a minimum
// score for winners and a score direction. Unlike NAT's, this builder checks candidates first. Ties, scores that are
// not numbers, failed scorers, empty answers, candidates with different prompts, and prompts that contain the answer
// are dropped, each with a reason (package pairs). Every candidate is either in at least one pair or dropped once.
// Package natcompat reproduces NAT's own algorithm exactly.
//
// Records refer to their candidates instead of repeating their text. NAT's metadata object is omitted unless
// `metadata: true`, because most of it can be derived from the record.
//
// Part of the supported Go API (v0).
package dpo
