package recordlog

import (
	"encoding/binary"
	"errors"
	"io"
	"iter"
	"os"
)

// Range is a contiguous sequence of groups of a log.
type Range struct {
	Offset int64  `json:"offset"` // of the first group's frame
	Bytes  int64  `json:"bytes"`
	First  uint64 `json:"first"` // ordinal of its first record
}

// GroupsIn yields the groups of a range, in order. A group is valid until the next one, which reuses its memory.
func GroupsIn(dir string, x Range) iter.Seq2[*Group, error] {
	return func(yield func(*Group, error) bool) {
		r, err := NewReader(dir)
		if err == nil {
			defer r.Close()
			end := r.offset + r.left
			if x.Offset < r.offset || x.Offset > end || x.Bytes < 0 || x.Bytes > end-x.Offset {
				err = errors.New("the record log is shorter than it was")
			} else {
				_, err = r.file.Seek(x.Offset, io.SeekStart)
			}
		}
		if err != nil {
			yield(nil, err)
			return
		}
		r.in.Reset(r.file)
		r.offset, r.left, r.next, r.part = x.Offset, x.Bytes, x.First, true
		for {
			g, err := r.Next()
			if errors.Is(err, io.EOF) || !yield(g, err) || err != nil {
				return
			}
			r.Reuse(g)
		}
	}
}

// Frames finds where the groups of a log begin without reading them.
type Frames struct {
	file *os.File
	at   int64
	end  int64
	most Large

	window []byte // of the file, read ahead
	from   int64  // where it begins
}

// frameWindow is how much of a log is read at a time to find its frames: where those are small it holds many.
const frameWindow = 256 << 10

// OpenFrames opens the log in dir up to its last commit.
func OpenFrames(dir string) (*Frames, error) {
	f, c, err := openCommitted(dir)
	if err != nil {
		return nil, err
	}
	return &Frames{file: f, at: int64(HeaderSize), end: c.Bytes, most: c.largest()}, nil
}

// Next returns the size in bytes of the next group's frame, or io.EOF.
func (f *Frames) Next() (size int64, err error) {
	if f.at >= f.end {
		return 0, io.EOF
	}
	head, err := f.head()
	if err != nil {
		return 0, err
	}
	n := binary.LittleEndian.Uint64(head)
	if err := f.most.fits(n, f.end-f.at); err != nil {
		return 0, err
	}
	size = int64(n) + frameHead + frameTail
	f.at += size
	return size, nil
}

// head returns what precedes the next frame.
func (f *Frames) head() ([]byte, error) {
	if f.at+frameHead > f.from+int64(len(f.window)) {
		if f.window == nil {
			f.window = make([]byte, frameWindow)
		}
		f.window = f.window[:min(frameWindow, f.end-f.at)]
		if _, err := f.file.ReadAt(f.window, f.at); err != nil {
			return nil, errShort
		}
		f.from = f.at
	}
	if len(f.window) < frameHead {
		return nil, errShort
	}
	return f.window[f.at-f.from:], nil
}

// Offset returns where the frame that Next returns next begins.
func (f *Frames) Offset() int64 { return f.at }

// Bytes returns the number of bytes in the log.
func (f *Frames) Bytes() int64 { return f.end }

// Close closes the file.
func (f *Frames) Close() error { return f.file.Close() }
