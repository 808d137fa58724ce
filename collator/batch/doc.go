// Package batch keeps token rows on disk: in order, cut into batches under a token budget, a safetensors file and a
// line of index.jsonl for each.
//
// Rows come from package collator, in the order of the records, and there may be any number of them. The bytes are a
// function of the rows, Order and Spec alone. README.md describes the order, the columns, and how to verify a batch.
//
// Part of the Go API we promise (v0).
package batch
