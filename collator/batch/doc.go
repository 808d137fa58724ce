// Package batch keeps token rows on disk: in order, cut into batches under a token budget, a safetensors file and a
// line of index.jsonl for each.
//
// Rows come from package collator, in the order of the records; their number is not bounded. The bytes are a function
// of (rows, seed, epoch, budget) alone. README.md describes the order, the columns with their shapes, and how a batch
// is verified.
//
// Part of the Go API we promise (v0).
package batch
