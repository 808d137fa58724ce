package spool

import (
	"os"

	"golang.org/x/sys/unix"
)

func release(f *os.File, at, n int64) {
	// Some file systems can't do this.
	_ = unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, at, n)
}
