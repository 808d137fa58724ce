// Package recordlog keeps what builders emitted: the only intermediate state of a run.
//
// The log is one file of frames, a frame a group, in the order the groups entered the run. Each frame has its length,
// its payload and a checksum. A payload holds the group's distinct texts once, in order of first use, then the records,
// which refer to them by number, then the drops and the changes to the books. The encoding is canonical: the same
// groups give the same bytes. There is no time, host or run id in it.
//
// What has been committed stands beside it in commit.json: how far the log is safe on disk, and the source's cursor at
// that point. A run that died is resumed by cutting the log back to the last commit and asking the source to go on from
// there. The commit is no part of the log so that the log's bytes don't depend on when commits happened.
//
// Every format, the statistics and the verification are pure functions of (log, decisions); see package curate.
package recordlog
