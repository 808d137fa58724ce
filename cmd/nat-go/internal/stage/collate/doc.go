// Package collate is the stage that makes token batches, either from the records of a log or from rows that the shards
// of a plan made. A teacher may add columns to the batches.
package collate
