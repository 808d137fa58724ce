// Package batch keeps token rows on disk: it spools them as they are made, puts them in order, cuts them into batches
// under a token budget, and writes one safetensors file per batch and one line a batch in index.jsonl.
//
// Rows come from package collator, in the order of the records; their number is not bounded. The bytes follow from
// (rows, seed, epoch, budget) alone. README.md has the order, the columns with their shapes, and what proves a batch.
//
// Part of the Go API we promise (v0).
package batch
