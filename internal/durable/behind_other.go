//go:build !linux

package durable

import "os"

// startWriting does nothing, because only Linux supports writing before a file is synced.
func startWriting(*os.File) {}
