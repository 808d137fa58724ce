// Package batch stores token rows on disk, in order, cut into batches under a token budget. Each batch has a
// safetensors file and a line in index.jsonl.
//
// Rows come from package collator, in record order, and there may be any number of them. The bytes depend only on the
// rows, Order and Spec. README.md describes the order, the columns, and how to verify a batch.
//
// Part of the supported Go API (v0).
package batch
