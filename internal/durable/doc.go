// Package durable writes files so that a reader, or a run resumed after a crash, sees the whole of one or nothing of
// it: written beside its place under a temporary name, synced, renamed, and the folder synced.
package durable
