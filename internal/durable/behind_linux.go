package durable

import (
	"os"

	"golang.org/x/sys/unix"
)

// startWriting asks the system to begin writing a file's content to disk. If that fails, the final sync writes all of
// it.
func startWriting(file *os.File) {
	const toTheEnd = 0
	_ = unix.SyncFileRange(int(file.Fd()), 0, toTheEnd, unix.SYNC_FILE_RANGE_WRITE)
}
