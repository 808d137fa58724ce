//go:build !linux

package durable

import "os"

// startWriting does nothing: only Linux can be asked to begin before a file is synced.
func startWriting(*os.File) {}
