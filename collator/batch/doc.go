// Package batch keeps token rows on disk: it spools and orders them, cuts them into batches under a token budget, and
// writes a safetensors file and a line in index.jsonl for each batch.
//
// Rows come from package collator, in the order of the records; their number is not bounded. The bytes follow from
// (rows, seed, epoch, budget) alone. README.md has the order, the columns with their shapes, and what proves a batch.
//
// Part of the Go API we promise (v0).
package batch
