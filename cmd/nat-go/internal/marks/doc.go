// Package marks stores a user's decisions on records: approve, reject, a note. `nat-go view` writes marks next to a
// run, and `dataset.marks` has a later run omit the rejected records.
//
// A record is identified by the hash of its content, so a mark applies in every run that has the record, however it is
// numbered. The later of two marks on a record wins.
package marks
