// Package spool keeps blocks in a temporary file that has no name: it is gone when it is closed, or when the process
// ends in whatever way.
package spool
