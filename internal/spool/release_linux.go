package spool

import (
	"os"

	"golang.org/x/sys/unix"
)

func release(f *os.File, at, n int64) {
	// The error is ignored: some file systems can't free a part of a file.
	_ = unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, at, n)
}

// nameless creates a file that never has a name, so that a process killed at any point leaves nothing behind. It
// returns nil if the file system doesn't support such files.
func nameless(dir string) *os.File {
	f, _ := os.OpenFile(dir, unix.O_TMPFILE|os.O_RDWR, 0o600)
	return f
}
