// Package dataset writes a run's data set and reads it back.
//
// Writing is a pure function of the record log and curation's decisions: any format can be written again later, from the
// run folder alone, with the same bytes. sft_parquet is a function of the token batches instead. Reading starts from the written
// files and trusts nothing but them.
package dataset
