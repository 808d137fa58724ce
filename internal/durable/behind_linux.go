package durable

import (
	"os"

	"golang.org/x/sys/unix"
)

// startWriting has the disk begin to write a file's content. Where it can't be asked to, syncing does all of it.
func startWriting(file *os.File) {
	const toTheEnd = 0
	_ = unix.SyncFileRange(int(file.Fd()), 0, toTheEnd, unix.SYNC_FILE_RANGE_WRITE)
}
