// Package durable writes files so that a reader, or a run resumed after a crash, sees either the complete new file or
// the previous state. A file is written next to its destination under a temporary name, synced and renamed, and then
// the folder is synced.
package durable
