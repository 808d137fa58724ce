// Package recordlog stores the output of builders: the only intermediate state of a run.
//
// The log is one file of frames, one frame per group, in the order in which the groups entered the run. Each frame has
// its length, its payload and a checksum. A payload contains the group's distinct texts once, in order of first use,
// then the records, which refer to them by number, then the drops and the changes to the books. The encoding is
// canonical: the same groups yield the same bytes. It contains no time, host or run id.
//
// Commits are recorded next to it in commit.json: the durable length of the log, and the source's cursor at that point.
// A run that died is resumed by truncating the log to the last commit and asking the source to continue from there. The
// commit is kept out of the log so that the log's bytes don't depend on when commits happened.
//
// Every format, the statistics and the verification are pure functions of (log, decisions); see package curate.
//
// The encoding is not the plugin protocol's (package wire), because a log outlives the program that wrote it: its bytes
// are canonical, which protobuf doesn't promise, and are hashed, and a text that many records share is stored once for
// the whole group.
package recordlog
