package recordlog

import (
	"context"
	"errors"
	"io"
	"iter"

	"golang.org/x/sync/semaphore"
)

// Groups yields the groups of the log in dir, in order, up to its last commit. It stops after yielding an error.
func Groups(dir string) iter.Seq2[*Group, error] {
	return read(dir, (*Reader).each)
}

// read returns an iterator that opens the log in dir and calls each, which yields the log's groups.
func read(dir string, each func(r *Reader, yield func(*Group, error) bool)) iter.Seq2[*Group, error] {
	return func(yield func(*Group, error) bool) {
		r, err := newReader(dir)
		if err != nil {
			yield(nil, err)
			return
		}
		defer r.Close()
		each(r, yield)
	}
}

// each yields the remaining groups. It stops after yielding an error.
func (r *Reader) each(yield func(*Group, error) bool) {
	for {
		g, err := r.Next()
		if errors.Is(err, io.EOF) || !yield(g, err) || err != nil {
			return
		}
	}
}

// groupsAhead is the maximum number of groups waiting to be yielded. aheadBytes is the maximum memory that they and the
// current group may take together. A group that may take more is read only when no other group is in memory.
const (
	groupsAhead = 16
	aheadBytes  = 32 << 20
)

// GroupsAhead is like Groups, for callers that don't keep any part of a group. Each group is valid until the next one
// is yielded, and its memory is reused. Groups are read ahead while earlier ones are being processed.
func GroupsAhead(dir string) iter.Seq2[*Group, error] {
	return read(dir, func(r *Reader, yield func(*Group, error) bool) {
		type item struct {
			g    *Group
			size int64
			err  error
		}
		ctx, stop := context.WithCancel(context.Background())
		room := semaphore.NewWeighted(aheadBytes)
		groups, done := make(chan item, groupsAhead), make(chan struct{})
		go func() {
			defer close(done)
			defer close(groups)
			for {
				size := min(r.ahead(), aheadBytes)
				if room.Acquire(ctx, size) != nil { // wait: memory is released, or stop is called
					return
				}
				g, err := r.Next()
				if errors.Is(err, io.EOF) {
					return
				}
				select { // wait: a group is yielded, or stop is called
				case groups <- item{g, size, err}:
				case <-ctx.Done():
					return
				}
				if err != nil {
					return
				}
			}
		}()
		defer func() { stop(); <-done }() // wait: stop makes the goroutine that reads groups return
		for it := range groups {
			if !yield(it.g, it.err) || it.err != nil {
				return
			}
			r.Reuse(it.g)
			room.Release(it.size)
		}
	})
}

// Range is a contiguous sequence of groups in a log.
type Range struct {
	Offset int64  `json:"offset"` // offset of the first group's frame in the log
	Bytes  int64  `json:"bytes"`
	First  uint64 `json:"first"` // ordinal of the first group's first record
}

// GroupsIn yields the groups of a range, in order. A group is valid until the next one is yielded, which reuses its
// memory.
func GroupsIn(dir string, x Range) iter.Seq2[*Group, error] {
	return read(dir, func(r *Reader, yield func(*Group, error) bool) {
		end := r.offset + r.left
		err := errors.New("invalid range of the record log: it exceeds the committed groups")
		if x.Offset >= r.offset && x.Offset <= end && x.Bytes >= 0 && x.Bytes <= end-x.Offset {
			_, err = r.file.Seek(x.Offset, io.SeekStart)
		}
		if err != nil {
			yield(nil, err)
			return
		}
		r.in.Reset(r.file)
		r.offset, r.left, r.next, r.part = x.Offset, x.Bytes, x.First, true
		r.each(func(g *Group, err error) bool {
			more := yield(g, err)
			r.Reuse(g)
			return more
		})
	})
}
