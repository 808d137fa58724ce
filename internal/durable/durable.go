package durable

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// mark begins the name of a temporary file, which has random digits after it: two writers never share one. Its writer
// holds it locked; Sweep removes those that a crash left.
const mark = ".nat-go-tmp-"

// bufferBytes gathers small writes; large ones pass it by.
const bufferBytes = 64 << 10

// File is a file that appears under its name only when it is committed.
type File struct {
	*bufio.Writer
	file *os.File
	path string // empty: what is written goes straight to file
	over bool
	safe bool // on disk, by Prepare
}

// Create begins the file at path. Its folder must exist.
func Create(path string) (*File, error) {
	temp, err := temporary(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	return &File{Writer: bufio.NewWriterSize(temp, bufferBytes), file: temp, path: path}, nil
}

// temporary makes a file with a name of its own, and locks it.
func temporary(dir string) (*os.File, error) {
	for {
		var random [8]byte
		_, _ = rand.Read(random[:]) // never fails
		f, err := os.OpenFile(filepath.Join(dir, mark+hex.EncodeToString(random[:])), os.O_CREATE|os.O_EXCL|os.O_RDWR,
			0o644)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		_ = lock(f) // a file system without locks has to do without: Sweep then removes nothing
		if sameFile(f) {
			return f, nil
		}
		f.Close() // swept between its making and its lock
	}
}

func lock(f *os.File) error {
	for {
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// sameFile reports whether the file still has its name.
func sameFile(f *os.File) bool {
	a, err := f.Stat()
	if err != nil {
		return false
	}
	b, err := os.Lstat(f.Name())
	return err == nil && os.SameFile(a, b)
}

// Commit makes the file appear under its name, safely on disk.
func (f *File) Commit() error {
	if err := f.rename(true); err != nil || f.path == "" {
		return err
	}
	return SyncDir(filepath.Dir(f.path))
}

// Prepare makes what was written safe on disk, so that nothing but the name is left for Commit to fail at.
func (f *File) Prepare() error {
	err := f.Flush()
	if err == nil && f.path != "" {
		err = f.file.Sync()
		f.safe = err == nil
	}
	return err
}

// CommitUnsynced is Commit without waiting for the disk: what it writes survives the process, not the machine.
func (f *File) CommitUnsynced() error { return f.rename(false) }

// Chmod sets the permissions that the file will have.
func (f *File) Chmod(mode os.FileMode) error { return f.file.Chmod(mode) }

// rename gives the file its name. Unless it is synced, it survives the process, not the machine.
func (f *File) rename(sync bool) error {
	err := f.Flush()
	if err == nil && f.path != "" && sync && !f.safe {
		err = f.file.Sync()
	}
	if err == nil && f.path != "" {
		err = os.Rename(f.file.Name(), f.path) //nolint:forbidigo // this is where it is allowed
	}
	return f.end(err)
}

// CommitChanged is Commit for what may be there already: a file with the same content stays, and keeps its time.
func (f *File) CommitChanged() error {
	if err := f.Flush(); err != nil {
		return f.end(err)
	}
	same, err := f.same()
	if err != nil {
		return f.end(err)
	}
	if same {
		f.Abort()
		return nil
	}
	return f.Commit()
}

// same reports whether the file that is there holds what was written.
func (f *File) same() (bool, error) {
	there, err := os.Open(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer there.Close()
	if _, err := f.file.Seek(0, io.SeekStart); err != nil {
		return false, err
	}
	a, b := make([]byte, bufferBytes), make([]byte, bufferBytes)
	for {
		n, err := io.ReadFull(f.file, a)
		m, _ := io.ReadFull(there, b)
		switch {
		case !bytes.Equal(a[:n], b[:m]):
			return false, nil
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return true, nil
		case err != nil:
			return false, err
		}
	}
}

// end closes the file, and removes it where something failed.
func (f *File) end(err error) error {
	f.over = true
	if err != nil && f.path != "" {
		os.Remove(f.file.Name())
	}
	if cerr := f.file.Close(); err == nil {
		err = cerr
	}
	return err
}

// Abort removes what was written. It does nothing after Commit.
func (f *File) Abort() {
	if !f.over {
		_ = f.end(errAborted)
	}
}

var errAborted = errors.New("aborted")

// WriteFile writes a whole small file.
func WriteFile(path string, data []byte) error {
	return write(Create, path, bytes.NewReader(data), (*File).Commit)
}

// WriteMember is WriteFile for one of many files of a folder: the caller calls SyncDir when all are written.
func WriteMember(path string, data []byte) error {
	return write(Create, path, bytes.NewReader(data), func(f *File) error { return f.rename(true) })
}

// Note is WriteFile without waiting for the disk, see CommitUnsynced.
func Note(path string, data []byte) error {
	return write(Create, path, bytes.NewReader(data), (*File).CommitUnsynced)
}

// WriteOutput is WriteFile for a path that a person named, see Output.
func WriteOutput(path string, data []byte) error { return CopyOutput(path, bytes.NewReader(data)) }

// CopyOutput writes what r gives to a path that a person named, see Output.
func CopyOutput(path string, r io.Reader) error { return write(Output, path, r, (*File).Commit) }

func write(create func(string) (*File, error), path string, r io.Reader, commit func(*File) error) error {
	f, err := create(path)
	if err != nil {
		return err
	}
	if _, err := io.Copy(f, r); err != nil {
		f.Abort()
		return err
	}
	return commit(f)
}

// Output begins the file at a path that a person named. A link stays, and what it leads to is replaced; what is no
// regular file - a device, a pipe - is written to as it stands. A file that is replaced keeps its permissions.
func Output(path string) (*File, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		target, err := linked(path)
		if err != nil {
			return nil, err
		}
		return Create(target)
	}
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || descriptor(path) {
		return straight(path)
	}
	target, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, err
	}
	f, err := Create(target)
	if err != nil {
		return nil, err
	}
	if err := f.Chmod(info.Mode().Perm()); err != nil {
		f.Abort()
		return nil, err
	}
	return f, nil
}

// straight opens what is no regular file. A pipe that nobody reads is an error rather than a wait.
func straight(path string) (*File, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|unix.O_NONBLOCK, 0)
	if errors.Is(err, unix.ENXIO) {
		return nil, fmt.Errorf("%s: nobody reads from the pipe", path)
	}
	if err != nil {
		return nil, err
	}
	return &File{Writer: bufio.NewWriterSize(f, bufferBytes), file: f}, nil
}

// descriptor reports whether the path names an open file of the process, such as /dev/stdout: whoever opened it goes on
// with the file that is there, so that it must not be replaced.
func descriptor(path string) bool {
	for range maxLinks {
		dir := filepath.Dir(path)
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			dir = real
		}
		if ok, _ := filepath.Match("/proc/*/fd", dir); ok || dir == "/dev/fd" {
			return true
		}
		to, err := os.Readlink(path)
		if err != nil {
			return false
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(dir, to)
		}
		path = to
	}
	return false
}

// maxLinks is how many links in a row are followed, as Linux does.
const maxLinks = 40

// linked is the path that a link to nothing leads to; another path is itself.
func linked(path string) (string, error) {
	for range maxLinks {
		to, err := os.Readlink(path)
		if err != nil {
			return path, nil // it is not a link
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(path), to)
		}
		path = to
	}
	return "", fmt.Errorf("%s: too many links", path)
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
