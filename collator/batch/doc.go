// Package batch keeps token rows on disk: in order, cut into batches under a token budget, a safetensors file and a
// line of index.jsonl for each.
//
// Rows come from package collator, in the order of the records; their number is not bounded. The bytes follow from
// (rows, seed, epoch, budget) alone. README.md has the order, the columns with their shapes, and what proves a batch.
//
// Part of the Go API we promise (v0).
package batch
