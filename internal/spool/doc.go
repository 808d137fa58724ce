// Package spool stores blocks in an unnamed temporary file, which disappears when it is closed or the process ends.
package spool
