// Package dataset writes, converts, measures and verifies data sets.
//
// Text rows depend only on the record log, the curation decisions and the row options, and token rows only on the
// run's token batches. A format can therefore be written later with the same bytes, from the run folder and, for
// rendered rows, the model's chat template. Formats lists all formats. Verify reads the written files and trusts
// nothing else.
//
// The package is large because all of its parts depend on the layout of a data set: formats, files and origins. It
// hashes the content of rows that it reads back (sharing.go) instead of the bytes of the record log, because a
// verifier must not trust the log.
package dataset
