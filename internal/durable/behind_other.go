//go:build !linux

package durable

import "os"

// startWriting does nothing: only Linux can begin writing before a file is synced.
func startWriting(*os.File) {}
