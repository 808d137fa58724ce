// Package dataset writes a run's data set and reads it back.
//
// Writing is a pure function of the record log and curation's decisions: any format can be written later, from the run
// folder alone, with the same bytes. Formats lists them all: most are text rows, a function of the records; token rows
// are a function of the run's token batches. Reading starts from the written files and trusts nothing else.
//
// Its Finding is not the type of package finding: `dataset verify --json` prints it, it refers to a row rather than a
// place in a configuration, and it counts unlisted findings.
//
// It is one large package because writing, converting, verifying and counting share the knowledge of the layout:
// formats, files, origins. Rows that are read back are hashed by their content (sharing.go), not by the record log's
// bytes, since a verifier must not trust the log.
package dataset
