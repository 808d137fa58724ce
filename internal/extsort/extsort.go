package extsort

import (
	"bytes"
	"errors"
	"fmt"
	"iter"

	"github.com/nat-go/nat-go/internal/spool"
)

// DefaultMemory is the default budget of a sorter, in bytes.
const DefaultMemory = 32 << 20

// minRead is the minimum number of bytes of a run that a single read should return. It bounds the number of runs
// merged at once.
const minRead = 64 << 10

// Sorter collects entries and returns them in byte order. It is not safe for concurrent use.
type Sorter struct {
	width  int
	dir    string
	limit  int // maximum size of the rows in memory, in bytes, before they are spilled
	rows   []byte
	spare  []byte // scratch space for sorting, then read buffers for merging
	count  int64
	sorted bool

	file *spool.File
	runs []run
	err  error
}

// run is a sorted range of the file. Runs on one level are merged into a single run on the next, so that the number
// of runs read at once is bounded.
type run struct {
	off, len int64
	level    int
}

// New returns a sorter for entries of width bytes. Entries and scratch space use at most memory bytes (0 means
// DefaultMemory). Beyond that, the sorter writes runs to a temporary file in dir (if empty, the system's folder for
// temporary files).
func New(width int, memory int64, dir string) *Sorter {
	if width <= 0 {
		panic("extsort: an entry needs a positive width")
	}
	if memory <= 0 {
		memory = DefaultMemory
	}
	limit := max(1, int(memory/2)/width) * width
	return &Sorter{width: width, dir: dir, limit: limit}
}

// Add adds a copy of an entry. It returns an error if the entry doesn't have the sorter's width, the sorter has been
// read, or the disk fails.
func (s *Sorter) Add(entry []byte) error {
	if len(entry) != s.width {
		return fmt.Errorf("extsort: an entry of %d bytes was added to a sorter of %d-byte entries", len(entry), s.width)
	}
	if s.sorted {
		return errors.New("extsort: an entry was added after the sorter was read")
	}
	if s.err != nil {
		return s.err
	}
	if len(s.rows) == s.limit {
		if s.err = s.spill(); s.err != nil {
			return s.err
		}
	}
	if len(s.rows) == cap(s.rows) {
		s.grow(max(2*cap(s.rows), 1024*s.width))
	}
	s.rows = append(s.rows, entry...)
	s.count++
	return nil
}

// Expect reserves memory for n more entries, within the budget. n is only a hint.
func (s *Sorter) Expect(n uint64) {
	if want := min(n, uint64(s.limit/s.width))*uint64(s.width) + uint64(len(s.rows)); want > uint64(cap(s.rows)) {
		s.grow(int(want))
	}
}

// grow reallocates rows with a capacity of the given number of bytes, but never beyond the limit.
func (s *Sorter) grow(bytes int) {
	rows := make([]byte, len(s.rows), min(bytes, s.limit))
	copy(rows, s.rows)
	s.rows = rows
}

// Len returns the number of entries added.
func (s *Sorter) Len() int64 { return s.count }

// Sort sorts the entries that are in memory; no entry can be added afterwards. All also sorts them, but with a
// separate call, several sorters can sort concurrently.
func (s *Sorter) Sort() {
	if !s.sorted {
		s.sorted = true
		s.sort()
	}
}

// All yields every entry in order. A yielded slice is valid until the next one. An error is yielded as the last item.
// All can be called again, but not within its own loop; nothing can be added afterwards.
func (s *Sorter) All() iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		s.Sort()
		switch {
		case s.err != nil:
			yield(nil, s.err)
		case s.file == nil:
			for i := 0; i < len(s.rows); i += s.width {
				if !yield(s.rows[i:i+s.width:i+s.width], nil) {
					return
				}
			}
		default:
			m := newMerge(s, s.runs, s.rows)
			for row, err := m.next(); row != nil || err != nil; row, err = m.next() {
				if !yield(row, err) || err != nil {
					return
				}
			}
		}
	}
}

// Close releases memory and disk space. The sorter can't be used afterwards.
func (s *Sorter) Close() {
	s.rows, s.spare, s.runs = nil, nil, nil
	s.sorted, s.err = true, errors.New("extsort: the sorter is closed")
	if s.file != nil {
		s.file.Close() // ignore the error, because the file is not read again
		s.file = nil
	}
}

func (s *Sorter) sort() {
	if len(s.spare) < len(s.rows) {
		s.spare = make([]byte, len(s.rows))
	}
	sortRows(s.rows, s.spare, s.width, 0)
	if s.file == nil {
		s.spare = nil // only a merge would still need spare
	}
}

// spill writes the rows in memory as a run, and merges runs if there are too many at one level.
func (s *Sorter) spill() error {
	if s.file == nil {
		f, err := spool.New(s.dir)
		if err != nil {
			return fmt.Errorf("cannot sort with a temporary file: %w", err)
		}
		s.file = f
	}
	s.sort()
	r := run{off: s.file.Size(), len: int64(len(s.rows))}
	if err := s.write(s.rows); err != nil {
		return err
	}
	s.rows = s.rows[:0]
	s.runs = append(s.runs, r)
	for {
		level := s.topLevel()
		if len(level) < s.fanIn() {
			return nil
		}
		if err := s.compact(level); err != nil {
			return err
		}
	}
}

// topLevel returns the trailing runs that share the last one's level.
func (s *Sorter) topLevel() []run {
	i := len(s.runs) - 1
	for i > 0 && s.runs[i-1].level == s.runs[i].level {
		i--
	}
	return s.runs[i:]
}

func (s *Sorter) fanIn() int { return max(2, min(s.limit/minRead, 256)) }

// compact merges the last runs, all of one level, into one run of the next level at the end of the file.
func (s *Sorter) compact(tail []run) error {
	merged := run{off: s.file.Size(), level: tail[0].level + 1}
	m := newMerge(s, tail, nil)
	out := s.rows[:0:cap(s.rows)] // empty after a spill, so use it as the merge's output buffer
	for {
		row, err := m.next()
		if err != nil {
			return err
		}
		if row == nil || len(out) == cap(out) {
			if err := s.write(out); err != nil {
				return err
			}
			merged.len += int64(len(out))
			out = out[:0]
		}
		if row == nil {
			break
		}
		out = append(out, row...)
	}
	s.file.Release(tail[0].off, merged.off-tail[0].off)
	s.runs = append(s.runs[:len(s.runs)-len(tail)], merged)
	return nil
}

func (s *Sorter) write(b []byte) error {
	_, err := s.file.Append(b)
	if err == nil {
		err = s.file.Flush()
	}
	if err != nil {
		return fmt.Errorf("cannot sort %d entries: writing the temporary file failed after %d bytes: %w",
			s.count, s.file.Size(), err)
	}
	return nil
}

// merge reads sorted runs, and rows still in memory, as one. Its cursors form a heap ordered by their first row.
type merge struct {
	width   int
	cursors []*cursor
	moved   bool // the top cursor's row has been returned
}

type cursor struct {
	file     *spool.File
	off, end int64  // the part of the run that has not been read
	buf      []byte // buffer for whole rows
	rest     []byte // rows that have been read but not returned
}

func newMerge(s *Sorter, runs []run, memory []byte) *merge {
	m := &merge{width: s.width}
	room := max(1, len(s.spare)/s.width/max(1, len(runs))) * s.width
	for i, r := range runs {
		buf := s.spare[min(i*room, len(s.spare)):min((i+1)*room, len(s.spare))]
		if len(buf) < s.width { // with an extremely small budget, there are more runs than scratch rows
			buf = make([]byte, s.width)
		}
		m.cursors = append(m.cursors, &cursor{file: s.file, off: r.off, end: r.off + r.len, buf: buf})
	}
	if len(memory) > 0 {
		m.cursors = append(m.cursors, &cursor{rest: memory})
	}
	return m
}

// next returns the next row, or nil after the last.
func (m *merge) next() ([]byte, error) {
	switch {
	case !m.moved: // the first call
		m.moved = true
		for _, c := range m.cursors {
			if _, err := c.fill(m.width); err != nil {
				return nil, err
			}
		}
		for i := len(m.cursors)/2 - 1; i >= 0; i-- {
			m.down(i)
		}
	case len(m.cursors) > 0:
		c := m.cursors[0]
		c.rest = c.rest[m.width:]
		more, err := c.fill(m.width)
		if err != nil {
			return nil, err
		}
		if !more {
			last := len(m.cursors) - 1
			m.cursors[0] = m.cursors[last]
			m.cursors = m.cursors[:last]
		}
		m.down(0)
	}
	if len(m.cursors) == 0 {
		return nil, nil
	}
	return m.cursors[0].rest[:m.width:m.width], nil
}

// fill reads more rows if all rows read so far have been returned. It reports whether a row is available.
func (c *cursor) fill(width int) (bool, error) {
	if len(c.rest) > 0 {
		return true, nil
	}
	n := min(int64(len(c.buf)/width*width), c.end-c.off)
	if n == 0 {
		return false, nil
	}
	if _, err := c.file.ReadAt(c.buf[:n], c.off); err != nil {
		return false, fmt.Errorf("cannot read the temporary file of a sort: %w", err)
	}
	c.off += n
	c.rest = c.buf[:n]
	return true, nil
}

func (m *merge) down(i int) {
	for {
		minChild := 2*i + 1
		if minChild >= len(m.cursors) {
			return
		}
		if r := minChild + 1; r < len(m.cursors) && m.less(r, minChild) {
			minChild = r
		}
		if !m.less(minChild, i) {
			return
		}
		m.cursors[i], m.cursors[minChild] = m.cursors[minChild], m.cursors[i]
		i = minChild
	}
}

func (m *merge) less(i, j int) bool {
	return bytes.Compare(m.cursors[i].rest[:m.width], m.cursors[j].rest[:m.width]) < 0
}
