// Package dataset writes, converts, measures and verifies data sets.
//
// Text rows depend only on the record log, the curation decisions and the row options, and token rows only on the run's
// token batches. So a format can be written later with the same bytes, from the run folder and, for rows that are
// rendered, the model's chat template. Formats lists all formats. Verify reads the written files and trusts nothing
// else.
//
// It is one large package because all of its parts depend on the layout of a data set: formats, files, origins. It
// hashes the content of rows that are read back (sharing.go) rather than the bytes of the record log, because a
// verifier must not trust the log.
package dataset
