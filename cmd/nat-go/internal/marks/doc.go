// Package marks keeps what a person decided on records: approve, reject, a note. `nat-go view` writes marks beside a
// run, and `dataset.marks` has a later run leave out what was rejected.
//
// A record is named by the hash of its content, so a mark holds in every run that has the record, however it was
// numbered. Of two marks of a record the later one holds. Not part of the promised API.
package marks
