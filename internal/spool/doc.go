// Package spool stores blocks in an unnamed temporary file, which is removed when it is closed or the process ends.
package spool
