package view

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/nat-go/nat-go/internal/objects"
	"github.com/nat-go/nat-go/ttc/source"
)

// inputs counts lines in the files that a run was made from. The file read most recently is kept open, because
// consecutively viewed records come from nearby lines.
type inputs struct {
	mu     sync.Mutex
	file   *source.File
	path   string
	offset int64 // number of bytes read so far
	line   int64 // line of the next byte, starting at 1
}

// maxCounted is the maximum number of bytes read from an input to find one line.
const maxCounted = 256 << 20

// lineOf returns the line that contains a byte in one of the run's inputs. Lines and bytes are counted after
// decompression. It returns 0 if the line is unknown, for example because the file was changed or deleted, or because
// counting would read more than maxCounted.
func (r *Run) lineOf(ctx context.Context, path string, offset int64) int64 {
	if path == "" || offset < 0 || !r.unchanged(path) {
		return 0
	}
	return r.inputs.lineOf(ctx, path, offset)
}

// unchanged reports whether a file is one of the run's inputs, or is below an input folder, and hasn't changed since
// the run read it. Other files are never opened, even if a record names them.
func (r *Run) unchanged(path string) bool {
	if r.Manifest == nil || objects.Is(path) {
		return false
	}
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	for _, in := range r.Manifest.Inputs {
		if in.Path == path {
			return in.Size == info.Size() && in.ModTime.Equal(info.ModTime())
		}
		for folder := range strings.SplitSeq(in.Path, ", ") { // ModTime is the latest in all folders
			below, err := filepath.Rel(folder, path)
			if err == nil && filepath.IsLocal(below) && !info.ModTime().After(in.ModTime) {
				return true
			}
		}
	}
	return false
}

func (in *inputs) lineOf(ctx context.Context, path string, offset int64) int64 {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.file == nil || in.path != path || in.offset > offset {
		_ = in.closeFile()
		file, err := source.Open(context.WithoutCancel(ctx), path) // the file stays open after the request ends
		if err != nil {
			return 0
		}
		in.file, in.path, in.offset, in.line = file, path, 0, 1
	}
	block := make([]byte, 64<<10)
	for end := in.offset + maxCounted; in.offset < offset; {
		if in.offset >= end || ctx.Err() != nil {
			return 0
		}
		n, err := in.file.Read(block[:min(int64(len(block)), offset-in.offset)])
		in.line += int64(bytes.Count(block[:n], []byte{'\n'}))
		if in.offset += int64(n); err != nil && in.offset < offset {
			_ = in.closeFile()
			return 0
		}
	}
	return in.line
}

func (in *inputs) closeFile() error {
	if in.file == nil {
		return nil
	}
	file := in.file
	in.file = nil
	return file.Close()
}

func (in *inputs) close() error {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.closeFile()
}
