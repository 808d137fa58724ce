package objects

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
)

// File is an open object, which is read in the state in which it was opened. Only one goroutine may use Read; any
// number may use ReadAt.
type File struct {
	Info
	s    *Storage
	ctx  context.Context
	to   service
	at   place
	path string

	place int64 // offset in the object at which Read continues
	last  int64 // offset at which Read ends: the end of the object or of a section
	end   int64 // offset in the object at which body ends
	body  io.ReadCloser
	cut   error // error that accompanied data, to be reported by the next read
	left  patience
	since int64 // bytes received since left was reset

	mu     sync.Mutex
	blocks map[int64][]byte
	used   []int64 // block numbers, most recently used last
}

// Open opens an object for reading until ctx is done.
func (s *Storage) Open(ctx context.Context, path string) (*File, error) {
	f := &File{s: s, ctx: ctx, path: path, left: patience{s: s}}
	var err error
	if f.to, f.at, err = s.find(path); err != nil {
		return nil, err
	}
	if f.Info, err = s.Stat(ctx, path); err != nil {
		return nil, err
	}
	f.last = f.Size
	return f, nil
}

// GoTo sets the offset in the object at which Read continues.
func (f *File) GoTo(offset int64) { f.Section(offset, f.Size-offset) }

// Section limits Read to n bytes starting at an offset, or fewer if the object is shorter, and never requests more.
func (f *File) Section(offset, n int64) {
	f.drop()
	f.cut = nil
	f.place, f.last = offset, min(f.Size, offset+n)
}

// Close closes the body being read, if any.
func (f *File) Close() error {
	f.drop()
	return nil
}

func (f *File) drop() {
	if f.body != nil {
		f.body.Close()
		f.body = nil
	}
}

// chunk is the number of bytes that Read requests at once. This limits the time for which an unread body is open.
const chunk = 64 << 20

// retryResetBytes is the number of bytes that must arrive for the retry count to be reset.
const retryResetBytes = 256 << 10

// Read continues reading. If the body is interrupted, it continues at the next byte.
func (f *File) Read(p []byte) (int, error) {
	for {
		if f.place >= f.last {
			f.drop()
			return 0, io.EOF
		}
		n, err := f.read(p)
		if f.place, f.since = f.place+int64(n), f.since+int64(n); f.since >= retryResetBytes {
			f.left, f.since = patience{s: f.s}, 0
		}
		if f.place == f.end || err != nil {
			f.drop()
		}
		if err != nil && errors.Is(err, io.EOF) && f.place == f.end {
			err = nil
		}
		if n > 0 || len(p) == 0 {
			f.cut = err // report it on the next read
			return n, nil
		}
		if err == nil {
			continue
		}
		e := f.explain(err)
		if !f.left.waitForRetry(f.ctx, e) {
			return 0, e
		}
	}
}

// read reads from the open body, or opens the next one.
func (f *File) read(p []byte) (n int, err error) {
	if err, f.cut = f.cut, nil; err != nil {
		return 0, err
	}
	if f.body == nil {
		f.end = min(f.last, f.place+chunk)
		if f.body, err = f.open(f.place, f.end-f.place); err != nil {
			return 0, err
		}
	}
	return f.body.Read(p[:min(int64(len(p)), f.end-f.place)])
}

// open opens a range of the object.
func (f *File) open(from, n int64) (io.ReadCloser, error) {
	ctx, w := f.s.watch(f.ctx)
	body, err := f.to.get(ctx, f.at, from, n, f.Info)
	if err != nil {
		err = w.why(err)
		w.stop()
		return nil, err
	}
	w.timer.Stop()
	return &watched{ReadCloser: body, w: w}, nil
}

func (f *File) explain(err error) *Error {
	e := explain(f.ctx, f.path, "read the object", err, f.s.hidden)
	switch {
	case errors.Is(err, errNoRanges):
		e.final = true
	case errors.Is(e.Err, errChanged):
		e.What = fmt.Sprintf("the object changed while it was read: it had %d bytes when it was opened", f.Size)
		e.Help = "Start again, and don't overwrite the object while it is being read"
	}
	return e
}

// The size and maximum number of the blocks that ReadAt keeps. They allow one block for each column of most tables.
const (
	block     = 512 << 10
	maxBlocks = 64
)

// ReadAt reads at an offset. It keeps the most recently used blocks, because reads alternate between a table's columns.
func (f *File) ReadAt(p []byte, at int64) (n int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for n < len(p) {
		if at >= f.Size {
			return n, io.EOF
		}
		b, err := f.block(at / block)
		if err != nil {
			return n, err
		}
		m := copy(p[n:], b[at%block:])
		n, at = n+m, at+int64(m)
	}
	return n, nil
}

func (f *File) block(number int64) ([]byte, error) {
	if i := slices.Index(f.used, number); i >= 0 {
		f.used = append(slices.Delete(f.used, i, i+1), number)
		return f.blocks[number], nil
	}
	b := make([]byte, min(block, f.Size-number*block))
	left := patience{s: f.s}
	for had := 0; ; {
		n, err := f.fill(b[had:], number*block+int64(had))
		if had += n; had == len(b) {
			break
		}
		if e := f.explain(err); !left.waitForRetry(f.ctx, e) {
			return nil, e
		}
	}
	if f.blocks == nil {
		f.blocks = map[int64][]byte{}
	}
	if len(f.used) == maxBlocks {
		delete(f.blocks, f.used[0])
		f.used = f.used[1:]
	}
	f.blocks[number], f.used = b, append(f.used, number)
	return b, nil
}

// fill reads bytes starting at an offset until b is full, and returns the number of bytes read before an error.
func (f *File) fill(b []byte, from int64) (int, error) {
	body, err := f.open(from, int64(len(b)))
	if err != nil {
		return 0, err
	}
	defer body.Close()
	return io.ReadFull(body, b)
}
