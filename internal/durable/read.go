package durable

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Open opens a file for reading. It accepts only regular files, because a link may lead to an endless device, and a
// pipe may lack a writer.
func Open(path string) (*os.File, error) { return open(path, os.O_RDONLY) }

// Continue opens a file for reading and writing, as Open does, and creates it if it doesn't exist.
func Continue(path string) (*os.File, error) { return open(path, os.O_CREATE|os.O_RDWR) }

func open(path string, flags int) (*os.File, error) {
	f, err := os.OpenFile(path, flags|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("not a regular file: %s", path)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Sum returns the SHA-256 of a regular file, in hex.
func Sum(path string) (string, error) {
	f, err := Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	_, err = io.Copy(sum, f)
	return hex.EncodeToString(sum.Sum(nil)), err
}

// ReadFile reads a file of at most the given size, opened by Open.
func ReadFile(path string, limit int64) ([]byte, error) { return readAll(Open, path, limit) }

// ReadInput reads a file of at most the given size. The user named the file, which may be a pipe, such as a shell's
// <(...).
func ReadInput(path string, limit int64) ([]byte, error) { return readAll(os.Open, path, limit) }

func readAll(open func(string) (*os.File, error), path string, limit int64) ([]byte, error) {
	f, err := open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = fmt.Errorf("%s is too large: more than %d MiB", f.Name(), limit>>20)
	}
	return b, err
}
