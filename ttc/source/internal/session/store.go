package session

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"

	"github.com/klauspost/compress/s2"
	"github.com/zeebo/xxh3"

	"github.com/nat-go/nat-go/internal/extsort"
	"github.com/nat-go/nat-go/internal/spool"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/source/internal/source"
)

// Store stores the session parts that files contain, compressed in a temporary file, and returns them session by
// session. It is used for formats in which a session's parts may be in any lines and files.
type Store struct {
	spool  *spool.File
	order  *extsort.Sorter
	paths  []string
	trials []*source.TrialResult // results of the trials of the files in paths; nil if a file has none
	packed []byte
	row    [rowWidth]byte
}

// Widths in bytes. A row holds the start and a hash of the session's key, which order the sessions; a hash of the
// content, which makes the order of files irrelevant; the content's location; and whether the part may recur.
const (
	idWidth   = 40
	keyWidth  = idWidth + 16
	partWidth = keyWidth + 16
	rowWidth  = partWidth + placeWide
	placeWide = 8 + 4 + 4 + 8 + 1
)

// Kept is a part of a session.
type Kept struct {
	JSON   []byte
	Path   string
	Offset int64
}

// newStore returns an empty store.
func newStore() (*Store, error) {
	s, err := spool.New("")
	if err != nil {
		return nil, fmt.Errorf("cannot order sessions: %w", err)
	}
	return &Store{spool: s, order: extsort.New(rowWidth, 0, "")}, nil
}

// Begin sets the file that the next parts come from.
func (s *Store) Begin(ctx context.Context, path string) {
	s.paths, s.trials = append(s.paths, path), append(s.trials, source.TrialOf(ctx, path))
}

// Add stores a part of a session. All yields only one of several equal parts.
func (s *Store) Add(id string, raw []byte, offset int64) error { return s.add(id, raw, offset, 0) }

// AddRecurring stores a part that may recur in a session. If its file has n equal parts, n are kept, however many other
// files have them too.
func (s *Store) AddRecurring(id string, raw []byte, offset int64) error {
	return s.add(id, raw, offset, 1)
}

func (s *Store) add(id string, raw []byte, offset int64, recurring byte) error {
	s.packed = s2.Encode(s.packed[:cap(s.packed)], raw)
	at, err := s.spool.Append(s.packed)
	if err != nil {
		return fmt.Errorf("cannot store sessions in a temporary file: %w", err)
	}
	row := s.appendKey(s.row[:0], id, len(s.paths)-1)
	content := xxh3.Hash128(raw).Bytes()
	row = append(row, content[:]...)
	row = binary.BigEndian.AppendUint64(row, uint64(at))
	row = binary.BigEndian.AppendUint32(row, uint32(len(s.packed)))
	row = binary.BigEndian.AppendUint32(row, uint32(len(s.paths)-1))
	row = binary.BigEndian.AppendUint64(row, uint64(offset))
	return s.order.Add(append(row, recurring))
}

// appendKey appends the key that orders sessions. Sessions of different trials are distinct, because trials may
// have equal trajectories.
func (s *Store) appendKey(row []byte, id string, path int) []byte {
	var start [idWidth]byte
	copy(start[:], id)
	if t := s.trials[path]; t != nil {
		reward := math.NaN()
		if t.Reward != nil {
			reward = *t.Reward
		}
		id = fmt.Sprint(id, "\x00", t.Task, "\x00", t.Name, "\x00", reward)
	}
	sum := xxh3.HashString128(id).Bytes()
	return append(append(row, start[:]...), sum[:]...)
}

// regroup moves stored parts to other ids. The old ids must not be longer than idWidth.
func (s *Store) regroup(id func(old string) string) error {
	order := extsort.New(rowWidth, 0, "")
	for row, err := range s.order.All() {
		if err == nil {
			old := string(bytes.TrimRight(row[:idWidth], "\x00"))
			path := int(binary.BigEndian.Uint32(row[partWidth+12:]))
			err = order.Add(append(s.appendKey(s.row[:0], id(old), path), row[keyWidth:]...))
		}
		if err != nil {
			order.Close()
			return err
		}
	}
	s.order.Close()
	s.order = order
	return nil
}

// equals distinguishes repeated parts from parts to keep. All rows must be passed to it in order, so that rows of
// equal parts are adjacent, file by file.
type equals struct {
	last   [rowWidth]byte
	inFile int // number of rows so far with the same part and file as the last row
	kept   int // number of rows to keep; 0 before the first row
}

// repeats reports whether a row's part repeats another.
func (e *equals) repeats(row []byte) bool {
	const file, recurring = partWidth + 8 + 4, rowWidth - 1
	switch {
	case !bytes.Equal(row[:partWidth], e.last[:partWidth]):
		e.inFile, e.kept = 0, 0
	case !bytes.Equal(row[file:file+4], e.last[file:file+4]):
		e.inFile = 0
	}
	copy(e.last[:], row)
	e.inFile++
	if e.inFile <= e.kept || e.kept > 0 && row[recurring] == 0 {
		return true
	}
	e.kept = e.inFile
	return false
}

// All yields the sessions, sorted by the first idWidth bytes of their ids, each with its parts. If parts are identical,
// it includes only the first, or as many as recur in one file, and counts the others. A session that exceeds the limits
// is yielded with its size but without parts.
func (s *Store) All(limits Limits) iter.Seq2[Group, error] {
	return func(yield func(Group, error) bool) {
		if err := s.spool.Flush(); err != nil {
			yield(Group{}, err)
			return
		}
		g := Group{Limits: limits}
		var seen equals
		started := false
		for row, err := range s.order.All() {
			if err != nil {
				yield(Group{}, err)
				return
			}
			if started && !bytes.Equal(row[:keyWidth], seen.last[:keyWidth]) {
				if !yield(g, nil) {
					return
				}
				g = Group{Limits: limits}
			}
			if started = true; seen.repeats(row) {
				g.Repeated++
				continue
			}
			if err := s.load(&g, row[partWidth:], limits); err != nil {
				yield(Group{}, err)
				return
			}
		}
		if started {
			yield(g, nil)
		}
	}
}

// Group holds the parts of a session.
type Group struct {
	Parts    []Kept
	Repeated int64 // number of duplicate parts
	Size     int64
	Objects  int64
	Limits   Limits // limits for reading
	Tally    *source.Tally
	TooLarge bool
	Path     string // path of one of its parts
	trial    *source.TrialResult
}

// Sort arranges the parts by file and position.
func (g *Group) Sort() {
	slices.SortStableFunc(g.Parts, func(a, b Kept) int {
		return cmp.Or(strings.Compare(a.Path, b.Path), cmp.Compare(a.Offset, b.Offset))
	})
}

func (s *Store) load(g *Group, place []byte, limits Limits) error {
	packed := make([]byte, binary.BigEndian.Uint32(place[8:]))
	path := binary.BigEndian.Uint32(place[12:])
	g.Path, g.trial = s.paths[path], s.trials[path]
	if _, err := s.spool.ReadAt(packed, int64(binary.BigEndian.Uint64(place))); err != nil {
		return fmt.Errorf("cannot read the temporary session file: %w", err)
	}
	n, err := s2.DecodedLen(packed)
	if err != nil {
		return errors.New("damaged temporary session file")
	}
	if g.Size += int64(n); g.TooLarge || g.Size > limits.MaxSession {
		g.TooLarge, g.Parts = true, nil
		return nil
	}
	raw, err := s2.Decode(nil, packed)
	if err != nil {
		return errors.New("damaged temporary session file")
	}
	if g.Objects += json.Raw(raw).Objects(limits.MaxObjects); g.Objects > limits.MaxObjects {
		g.TooLarge, g.Parts = true, nil
		return nil
	}
	g.Parts = append(g.Parts, Kept{raw, g.Path, int64(binary.BigEndian.Uint64(place[16:]))})
	return nil
}

// Excess describes the limit that a session exceeds, and names the setting that raises the limit. size is the number of
// bytes read so far; objects is the number of objects and lists.
func (l Limits) Excess(size, objects int64) string {
	switch {
	case size > l.MaxSession:
		return fmt.Sprintf("the session has at least %d bytes, and the limit is %d: raise "+
			"sources.*.max_session_bytes", size, l.MaxSession)
	case objects > l.MaxObjects:
		return fmt.Sprintf("the session has more than %d objects and lists: raise "+
			"sources.*.max_session_objects", l.MaxObjects)
	}
	return fmt.Sprintf("the session's calls were given more than %d messages in total: raise "+
		"sources.*.max_session_context", l.MaxContext)
}

// Close releases memory and disk space.
func (s *Store) Close() error {
	s.order.Close()
	return s.spool.Close()
}
