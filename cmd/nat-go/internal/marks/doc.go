// Package marks stores a user's marks on records. A mark approves or rejects a record, or only adds a note. `nat-go
// view` writes marks next to a run, and `dataset.marks` makes a later run omit the rejected records.
//
// A record is identified by the hash of its content, so a mark applies in every run that contains the record,
// regardless of the record's number. If a record has several marks, the last one applies.
package marks
