// Package durable writes files so that a reader, or a run resumed after a crash, sees either the whole file or nothing:
// a file is written next to its destination under a temporary name, synced and renamed, and the folder is synced.
package durable
