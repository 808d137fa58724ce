package durable

import (
	"io"
	"os"
)

// behindBytes is the number of bytes written to a file before the system is asked to start writing them to disk.
const behindBytes = 8 << 20

// Behind returns a writer that continues at the file's current offset. It asks the system to write data to disk in
// the background, so that the final sync has less to write.
func Behind(file *os.File) io.Writer { return &behind{file: file} }

type behind struct {
	file *os.File
	rest int64 // bytes written since the system was last asked
}

func (b *behind) Write(p []byte) (int, error) {
	n, err := b.file.Write(p)
	b.wrote(int64(n))
	return n, err
}

// ReadFrom copies as os.File does, so that the kernel can copy data from another file directly.
func (b *behind) ReadFrom(r io.Reader) (int64, error) {
	n, err := b.file.ReadFrom(r)
	b.wrote(n)
	return n, err
}

func (b *behind) wrote(n int64) {
	if b.rest += n; b.rest >= behindBytes {
		startWriting(b.file)
		b.rest = 0
	}
}
