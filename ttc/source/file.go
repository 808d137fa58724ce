package source

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/nat-go/nat-go/ttc/json"
)

// Input identifies an input file.
type Input struct {
	Path    string    `json:"path"` // as the user named it
	Size    int64     `json:"size"` // bytes on disk
	ModTime time.Time `json:"mod_time"`
	Sum     uint64    `json:"sum,omitempty"` // rolling hash over its entries, once it was read to its end
}

// Same says whether two inputs are the same file as far as size, time and (where both know it) content tell.
func (in Input) Same(other Input) bool {
	return in.Path == other.Path && in.Size == other.Size && in.ModTime.Equal(other.ModTime) &&
		(in.Sum == 0 || other.Sum == 0 || in.Sum == other.Sum)
}

// Identify is what several files or folders are known by, as one input: the bytes of all files, and the time of the last
// change.
func Identify(paths []string) (Input, error) {
	in := Input{Path: strings.Join(paths, ", ")}
	add := func(info fs.FileInfo, err error) error {
		if errors.Is(err, fs.ErrNotExist) { // gone since the folder was read
			return nil
		}
		if err == nil && info.Mode().IsRegular() {
			in.Size += info.Size()
			if t := info.ModTime().UTC(); t.After(in.ModTime) {
				in.ModTime = t
			}
		}
		return err
	}
	for _, p := range paths {
		info, err := os.Stat(p)
		if err != nil {
			return in, openError(p, err)
		}
		if !info.IsDir() {
			_ = add(info, nil)
			continue
		}
		err = filepath.WalkDir(p, func(_ string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			return add(d.Info())
		})
		if err != nil {
			return in, openError(p, err)
		}
	}
	return in, nil
}

// Expand finds the files a user named: a file; a pattern (its matches, sorted); a folder, which stands for the file called
// name in it, or for those in its jobs/job_* sub-folders, sorted (NAT's append_job_id_to_output_dir). name may also stand
// with .gz or .zst. Each file is one collection run.
func Expand(paths []string, name string) ([]string, error) {
	matches, err := Matches(paths)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, m := range matches {
		files, err := expandOne(m, name)
		if err != nil {
			return nil, err
		}
		out = append(out, files...)
	}
	return out, nil
}

// Matches finds what is there of what a user named: a file, a folder, or a pattern's matches, sorted.
func Matches(paths []string) ([]string, error) {
	var out []string
	for _, p := range paths {
		_, err := os.Stat(p)
		if err != nil && strings.ContainsAny(p, "*?[") {
			matches, err := filepath.Glob(p)
			if err != nil {
				return nil, &Error{Path: p, Offset: -1, What: "is no valid pattern", Help: "Quote a literal '[' as '\\['", Err: err}
			}
			if len(matches) == 0 {
				return nil, &Error{
					Path: p, Offset: -1, What: "no file matches this pattern",
					Help: "Check the path; relative ones start at the working folder",
				}
			}
			sort.Strings(matches)
			out = append(out, matches...)
			continue
		}
		if err != nil {
			return nil, openError(p, err)
		}
		out = append(out, p)
	}
	return out, nil
}

func expandOne(path, name string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, openError(path, err)
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	var out []string
	for _, folder := range []string{path, filepath.Join(path, "jobs", "job_*")} {
		for _, ext := range []string{"", ".gz", ".zst"} {
			found, err := filepath.Glob(filepath.Join(escapeGlob(folder, path), name+ext))
			if err != nil {
				return nil, openError(path, err)
			}
			out = append(out, found...)
		}
		if out != nil {
			sort.Strings(out)
			return out, nil
		}
	}
	return nil, &Error{
		Path: path, Offset: -1, What: fmt.Sprintf("the folder has no %s, nor have its jobs/job_* folders", name),
		Help: "Name the file itself, or the folder eval.general.output.dir points at",
	}
}

// escapeGlob quotes what the user named, so that only our own stars are patterns.
func escapeGlob(folder, path string) string {
	quoted := strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(path)
	return quoted + strings.TrimPrefix(folder, path)
}

func openError(path string, err error) error {
	var pe *os.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	help := ""
	if errors.Is(err, os.ErrNotExist) {
		help = "Check the path; relative ones start at the working folder"
	}
	return &Error{Path: path, Offset: -1, What: err.Error(), Help: help, Err: err}
}

// File is an open input, uncompressed as it is read.
type File struct {
	io.Reader
	ID      Input
	closers []func() error
}

// Open opens an input: plain, gzip or zstd, told by its first bytes. A Git LFS pointer and an empty file are errors that say
// what to do. Opening and reading end with ctx.
func Open(ctx context.Context, path string) (*File, error) {
	f, err := openInput(ctx, path)
	if err != nil {
		return nil, openError(path, err)
	}
	file := &File{ID: Input{Path: path}, closers: []func() error{f.Close}}
	if err := file.start(f); err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

func (file *File) start(f *input) error {
	path := file.ID.Path
	info, err := f.file.Stat()
	if err != nil {
		return openError(path, err)
	}
	if info.IsDir() {
		return &Error{Path: path, Offset: -1, What: "is a folder, not a file"}
	}
	file.ID.Size, file.ID.ModTime = info.Size(), info.ModTime().UTC()

	// The peek buffer hands large reads through, so that it costs nothing later.
	in := bufio.NewReaderSize(f, 512)
	head, err := in.Peek(256)
	if err != nil && err != io.EOF {
		return openError(path, err)
	}
	switch {
	case len(head) == 0:
		return &Error{Path: path, Offset: 0, What: "the file is empty", Help: "nat eval writes nothing where no evaluator gave a result; run it again"}
	case bytes.HasPrefix(head, []byte("version https://git-lfs.github.com/spec/")):
		return &Error{
			Path: path, Offset: 0, What: "this is a Git LFS pointer, not the file itself" + lfsSize(head),
			Help: fmt.Sprintf("Fetch it with: git lfs pull --include=%q", filepath.Base(path)),
		}
	case bytes.HasPrefix(head, []byte{0x1F, 0x8B}):
		gz, err := gzip.NewReader(in)
		if err != nil {
			return &Error{Path: path, Offset: -1, What: "the gzip header can't be read: " + err.Error(), Err: err}
		}
		file.Reader = gz
	case bytes.HasPrefix(head, []byte{0x28, 0xB5, 0x2F, 0xFD}):
		zr, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(128<<20), zstd.WithDecoderLowmem(true))
		if err != nil {
			return &Error{Path: path, Offset: -1, What: "the zstd header can't be read: " + err.Error(), Err: err}
		}
		file.Reader = zr
		file.closers = append(file.closers, func() error { zr.Close(); return nil })
	default:
		file.Reader = in
	}
	return nil
}

// lfsSize quotes the size a pointer gives.
func lfsSize(head []byte) string {
	for line := range bytes.Lines(head) {
		if size, ok := bytes.CutPrefix(line, []byte("size ")); ok {
			return fmt.Sprintf(" (which has %s bytes)", bytes.TrimSpace(size))
		}
	}
	return ""
}

// Close closes the file.
func (file *File) Close() (err error) {
	for i := len(file.closers) - 1; i >= 0; i-- {
		err = errors.Join(err, file.closers[i]())
	}
	file.closers = nil
	return err
}

// ReadError says for a person what went wrong while reading values from path. whole is the number of entries read before.
func ReadError(path string, err error, whole int64) error {
	var se *json.SyntaxError
	switch {
	case errors.As(err, &se) && se.Truncated:
		return &Error{
			Path: path, Offset: se.Offset, Line: se.Line, What: se.Msg, Err: err,
			Help: fmt.Sprintf("The file is cut off (%d entries before are whole): copy it again, or run the evaluation again", whole),
		}
	case errors.As(err, &se):
		return &Error{Path: path, Offset: se.Offset, Line: se.Line, What: se.Msg + ", found " + se.Found, Err: err}
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, gzip.ErrChecksum), errors.Is(err, gzip.ErrHeader),
		errors.Is(err, zstd.ErrCRCMismatch), errors.Is(err, zstd.ErrMagicMismatch):
		return &Error{
			Path: path, Offset: -1, What: "the compressed data is damaged or cut off: " + err.Error(), Err: err,
			Help: fmt.Sprintf("%d entries before are whole; copy the file again", whole),
		}
	}
	return &Error{Path: path, Offset: -1, What: err.Error(), Err: err}
}
