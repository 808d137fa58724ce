package durable

import (
	"bufio"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// mark is the prefix of a temporary file's name. It is followed by random digits, so that two writers never share a
// file. A writer locks its file. Sweep removes unlocked files, which remain after a crash.
const mark = ".nat-go-tmp-"

// bufferBytes is the buffer's size; larger writes bypass the buffer.
const bufferBytes = 64 << 10

// File is a file that gets its name only when it is committed.
type File struct {
	*bufio.Writer
	file *os.File
	path string // if empty, writes go directly to file
	over bool
	safe bool // whether Prepare has made the data durable
}

// Create starts the file at path. Its folder must exist.
func Create(path string) (*File, error) {
	temp, err := temporary(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	return &File{Writer: bufio.NewWriterSize(Behind(temp), bufferBytes), file: temp, path: path}, nil
}

// temporary creates and locks a file with a unique name.
func temporary(dir string) (*os.File, error) {
	for {
		var random [8]byte
		_, _ = rand.Read(random[:]) // rand.Read never fails
		f, err := os.OpenFile(filepath.Join(dir, mark+hex.EncodeToString(random[:])), os.O_CREATE|os.O_EXCL|os.O_RDWR,
			0o644)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		// On a file system without locks, the file stays unlocked, and Sweep removes nothing.
		_ = Lock(f, unix.LOCK_EX|unix.LOCK_NB)
		if sameFile(f) {
			return f, nil
		}
		f.Close() // Sweep removed the file before it was locked
	}
}

// Lock locks a file as unix.Flock does, and retries after a signal.
func Lock(f *os.File, how int) error {
	for {
		if err := unix.Flock(int(f.Fd()), how); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// sameFile reports whether the file's name still refers to it.
func sameFile(f *os.File) bool {
	a, err := f.Stat()
	if err != nil {
		return false
	}
	b, err := os.Lstat(f.Name())
	return err == nil && os.SameFile(a, b)
}

// Commit durably gives the file its name.
func (f *File) Commit() error {
	if err := f.rename(true); err != nil || f.path == "" {
		return err
	}
	return SyncDir(filepath.Dir(f.path))
}

// Prepare makes the written data durable, so that Commit only has to rename the file and sync its folder.
func (f *File) Prepare() error {
	err := f.Flush()
	if err == nil && f.path != "" {
		err = f.file.Sync()
		f.safe = err == nil
	}
	return err
}

// CommitUnsynced is like Commit, but doesn't wait for the disk. The committed file survives a crash of the process, but
// may be lost if the machine crashes.
func (f *File) CommitUnsynced() error { return f.rename(false) }

// Temporary returns the path that the file has until it is committed; see Adopt.
func (f *File) Temporary() string { return f.file.Name() }

// Adopt commits a temporary file whose writer has ended, by renaming it to path. The writer must have called Prepare.
// Adopt does nothing if the file was already renamed.
func Adopt(temp, path string) error {
	err := os.Rename(temp, path) //nolint:forbidigo // allowed here
	if errors.Is(err, fs.ErrNotExist) {
		if _, there := os.Lstat(path); there == nil {
			return nil
		}
	}
	if err != nil {
		return err
	}
	return SyncDir(filepath.Dir(path))
}

// Chmod sets the permissions that the file will have.
func (f *File) Chmod(mode os.FileMode) error { return f.file.Chmod(mode) }

// rename gives the file its final name. With sync, it first makes the data durable unless Prepare has done so.
func (f *File) rename(sync bool) error {
	err := f.Flush()
	if err == nil && f.path != "" && sync && !f.safe {
		err = f.file.Sync()
	}
	if err == nil && f.path != "" {
		err = os.Rename(f.file.Name(), f.path) //nolint:forbidigo // allowed here
	}
	return f.end(err)
}

// CommitChanged is like Commit, but keeps an existing file and its modification time if the content is the same.
func (f *File) CommitChanged() error {
	if err := f.Flush(); err != nil {
		return f.end(err)
	}
	written, err := Sum(f.file.Name())
	if there, missing := Sum(f.path); err == nil && missing == nil && there == written {
		f.Abort()
		return nil
	}
	return f.Commit()
}

// end closes the file, and removes it after an error.
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

// Abort removes the written data. It does nothing after Commit.
func (f *File) Abort() {
	if !f.over {
		_ = f.end(errAborted)
	}
}

var errAborted = errors.New("aborted")

// Save durably writes a file with the content that fill writes. If fill fails, the file is not created.
func Save(path string, fill func(io.Writer) error) error {
	return write(Create, path, fill, (*File).Commit)
}

// SaveOutput is like Save, but for a path given by the user; see output.
func SaveOutput(path string, fill func(io.Writer) error) error {
	return write(output, path, fill, (*File).Commit)
}

// WriteFile writes a whole small file.
func WriteFile(path string, data []byte) error { return Save(path, content(data)) }

// WriteJSON is like WriteFile, but writes a value as indented JSON.
func WriteJSON(path string, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return WriteFile(path, append(text, '\n'))
}

// WriteMember is like WriteFile, but doesn't sync the folder. After writing all files in a folder, the caller must call
// SyncDir.
func WriteMember(path string, data []byte) error {
	return write(Create, path, content(data), func(f *File) error { return f.rename(true) })
}

// Note is like WriteFile, but doesn't wait for the disk; see CommitUnsynced.
func Note(path string, data []byte) error {
	return write(Create, path, content(data), (*File).CommitUnsynced)
}

// WriteOutput is like WriteFile, but for a path given by the user; see output.
func WriteOutput(path string, data []byte) error { return SaveOutput(path, content(data)) }

// CopyFile copies a file to a path given by the user; see output.
func CopyFile(path, from string) error {
	in, err := Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	return SaveOutput(path, func(w io.Writer) error { _, err := io.Copy(w, in); return err })
}

// content returns a function that writes data.
func content(data []byte) func(io.Writer) error {
	return func(w io.Writer) error { _, err := w.Write(data); return err }
}

func write(
	create func(string) (*File, error), path string, fill func(io.Writer) error, commit func(*File) error,
) error {
	f, err := create(path)
	if err != nil {
		return err
	}
	defer f.Abort()
	if err := fill(f); err != nil {
		return err
	}
	return commit(f)
}

// output starts the file at a path given by the user. If it is a link, the link is kept and its target is replaced. A
// file that isn't regular, such as a device or a pipe, is written to directly, as is an open file named by its
// descriptor, such as /dev/stdout. A replaced file keeps its permissions.
func output(path string) (*File, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		target, err := Linked(path)
		if err != nil {
			return nil, err
		}
		return Create(target)
	}
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || descriptor(path) {
		// With O_NONBLOCK, opening a pipe without a reader fails instead of waiting.
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|unix.O_NONBLOCK, 0)
		if errors.Is(err, unix.ENXIO) {
			return nil, fmt.Errorf("%s: the pipe has no reader", path)
		}
		if err != nil {
			return nil, err
		}
		return &File{Writer: bufio.NewWriterSize(f, bufferBytes), file: f}, nil
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

// descriptor reports whether the path names an open file of the process, such as /dev/stdout. Such a file must not be
// replaced, because the process that opened it keeps using it.
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

// maxLinks is the maximum number of links followed in a row. Linux has the same limit.
const maxLinks = 40

// Linked returns the path to which a link leads, even if nothing exists there. It returns any other path unchanged.
func Linked(path string) (string, error) {
	for range maxLinks {
		to, err := os.Readlink(path)
		if err != nil {
			return path, nil // the path is not a link
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(path), to)
		}
		path = to
	}
	return "", fmt.Errorf("%s: too many links", path)
}

// SyncDir makes renames in a folder durable.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// Move renames a folder. Both names must be on the same file system, and the new one must not exist yet.
func Move(from, to string) error {
	if err := os.Rename(from, to); err != nil { //nolint:forbidigo // allowed here
		return err
	}
	return SyncDir(filepath.Dir(to))
}
