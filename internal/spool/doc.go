// Package spool stores blocks in an unnamed temporary file: it is gone when it is closed, or when the process ends,
// however it ends.
package spool
