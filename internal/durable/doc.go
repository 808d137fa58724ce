// Package durable writes files so that a reader, or a run resumed after a crash, sees either the whole new file or the
// previous state: a file is written next to its destination under a temporary name, synced and renamed, and the folder
// is synced.
package durable
