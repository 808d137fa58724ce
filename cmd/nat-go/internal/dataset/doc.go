// Package dataset writes a run's data set and reads it back.
//
// Writing is a pure function of the record log and curation's decisions: any format can be written again later, from
// the run folder alone, with the same bytes. Formats lists them all: most are text rows, a function of the records;
// token rows are one of the run's token batches. Reading starts from the written files and trusts nothing but them.
//
// Its Finding is not that of package finding: it is what `dataset verify --json` prints, of a row and not of a place in
// a configuration, and counts those that are not listed.
package dataset
