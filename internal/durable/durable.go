// Package durable writes files so that a reader, or a run resumed after a crash, sees the whole of one or nothing of it:
// written beside its place under a temporary name, synced, renamed, and the folder synced.
package durable

import (
	"bufio"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// tempPrefix marks files that a crash may leave behind; Sweep removes them.
const tempPrefix = ".tmp-"

// bufferBytes gathers small writes; large ones pass it by.
const bufferBytes = 64 << 10

// File is a file that appears under its name only when it is committed.
type File struct {
	*bufio.Writer
	file *os.File
	path string
}

// Create begins the file at path. Its folder must exist.
func Create(path string) (*File, error) {
	temp := filepath.Join(filepath.Dir(path), tempPrefix+filepath.Base(path))
	f, err := os.OpenFile(temp, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	return &File{Writer: bufio.NewWriterSize(f, bufferBytes), file: f, path: path}, nil
}

// Commit makes the file appear under its name, safely on disk.
func (f *File) Commit() error {
	err := f.Flush()
	if err == nil {
		err = f.file.Sync()
	}
	if cerr := f.file.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		os.Remove(f.file.Name())
		return err
	}
	if err := os.Rename(f.file.Name(), f.path); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(f.path))
}

// Abort removes what was written. It does nothing after Commit.
func (f *File) Abort() {
	if f.file.Close() == nil {
		os.Remove(f.file.Name())
	}
}

// WriteFile writes a whole small file.
func WriteFile(path string, data []byte) error {
	f, err := Create(path)
	if err != nil {
		return err
	}
	if _, err := f.Write(data); err != nil {
		f.Abort()
		return err
	}
	return f.Commit()
}

// Copy writes what r gives to the file at path.
func Copy(path string, r io.Reader) error {
	f, err := Create(path)
	if err != nil {
		return err
	}
	if _, err := io.Copy(f, r); err != nil {
		f.Abort()
		return err
	}
	return f.Commit()
}

// SyncDir makes renames in a folder safe on disk.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// Sweep removes the temporary files that a crash left in a folder tree.
func Sweep(dir string) error {
	return filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if !e.IsDir() && strings.HasPrefix(e.Name(), tempPrefix) {
			return os.Remove(path)
		}
		return nil
	})
}
