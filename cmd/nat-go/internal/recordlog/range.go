package recordlog

import (
	"errors"
	"io"
	"iter"
)

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
