package spool

import (
	"bufio"
	"cmp"
	"fmt"
	"os"
)

// bufferBytes is the buffer's size; larger blocks bypass the buffer.
const bufferBytes = 256 << 10

// File is a file to which blocks are appended and from which they are read back. Appending is not safe for concurrent
// use; reading flushed data is.
type File struct {
	file *os.File
	out  *bufio.Writer
	size int64
}

// New creates an empty file on the disk of dir, or of the system's folder for temporary files if dir is empty.
func New(dir string) (*File, error) {
	f, err := Unnamed(dir)
	if err != nil {
		return nil, err
	}
	return &File{file: f, out: bufio.NewWriterSize(f, bufferBytes)}, nil
}

// Unnamed creates an unnamed file without a buffer, for content that is not appended block by block.
func Unnamed(dir string) (*os.File, error) {
	if f := nameless(cmp.Or(dir, os.TempDir())); f != nil {
		return f, nil
	}
	f, err := os.CreateTemp(dir, ".nat-go-spool-*") //nolint:forbidigo // allowed here
	if err != nil {
		return nil, fmt.Errorf("cannot create a temporary file: %w", err)
	}
	if err := os.Remove(f.Name()); err != nil {
		f.Close()
		return nil, fmt.Errorf("cannot unlink a temporary file: %w", err)
	}
	return f, nil
}

// Append adds a block and returns its offset.
func (f *File) Append(block []byte) (at int64, err error) {
	at = f.size
	n, err := f.out.Write(block)
	f.size += int64(n)
	return at, err
}

// Flush makes appended data readable.
func (f *File) Flush() error { return f.out.Flush() }

// Size returns the number of bytes that were appended.
func (f *File) Size() int64 { return f.size }

// ReadAt reads flushed data, as io.ReaderAt does.
func (f *File) ReadAt(b []byte, at int64) (int, error) { return f.file.ReadAt(b, at) }

// Release frees the disk space of n flushed bytes at an offset, if the file system supports that. These bytes must not
// be read again.
func (f *File) Release(at, n int64) { release(f.file, at, n) }

// Close removes the file.
func (f *File) Close() error { return f.file.Close() }
