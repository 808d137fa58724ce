// Package recordlog stores the builders' output, from which a run makes its data set.
//
// The log is one file of frames, one frame per group, in the order in which the groups entered the run. A frame
// consists of the length of its payload, the payload and a checksum. A payload contains the group's key, the origins of
// its records, each distinct text in order of first use, the records, which refer to origins and texts by number, the
// drops and counts, and the contexts that differ from the recorded ones. The encoding is canonical, so the same groups
// yield the same bytes. The log doesn't contain times, hosts or run ids.
//
// The last commit is next to the log, in commit.json. It contains the log's durable length, and the source's cursor at
// that point. An interrupted run is resumed by truncating the log to that length and having the source continue from
// there. The commit is kept out of the log so that the log's bytes don't depend on when commits happened.
//
// Text rows and statistics are made from the log and the decisions of package curate. Verification compares the rows
// with both.
//
// The encoding differs from the plugin protocol's (package wire) for two reasons. The log's bytes are hashed, so they
// must be canonical, which protobuf doesn't guarantee. Also, a text that many records share is stored once for the
// whole group.
package recordlog
