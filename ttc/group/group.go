package group

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"

	"github.com/klauspost/compress/s2"
	"github.com/zeebo/xxh3"

	"github.com/nat-go/nat-go/internal/extsort"
	"github.com/nat-go/nat-go/internal/spool"
	"github.com/nat-go/nat-go/ttc"
)

// Codec encodes examples losslessly.
type Codec interface {
	Append(dst []byte, ex *ttc.Example) ([]byte, error)
	// Decode returns an example that does not share memory with data.
	Decode(data []byte) (*ttc.Example, error)
}

// By is the property that a group's examples share.
type By uint8

// Examples are grouped by task or by collection run. When they are grouped by task, an example without a task forms its
// own group.
const (
	Task By = iota
	Run
)

// Limits bound a group. Zero means the default.
type Limits struct {
	Examples int64 // maximum number of examples; default 100,000
	Bytes    int64 // maximum total size of the group's encoded examples, in bytes; default 32 MiB
}

// Options configures an index.
type Options struct {
	By     By
	Limits Limits
	Memory int64  // total memory of the two sorts in bytes; 0 means extsort.DefaultMemory
	Dir    string // folder for temporary files; empty means the system's temporary folder
}

// Index collects examples and returns them in groups. It is not safe for concurrent use.
type Index struct {
	codec Codec
	opt   Options
	spool *spool.File
	byKey *extsort.Sorter // entry layout in bytes: key 16, position 8, place 16
	order *extsort.Sorter // entry layout in bytes: position of the group's first member 8, position 8, place 16
	n     uint64
	err   error

	scales ttc.Scales // ranges of the scores of all examples added

	entry  [keyWidth + placeWidth + 8]byte
	packed []byte // scratch
	plain  []byte
}

// Widths of an entry's parts in bytes.
const (
	keyWidth   = 16
	placeWidth = 8 + 4 + 4 // offset and size in the spool, and uncompressed size
)

// Group holds a group or, if the group is too large, its refusal.
type Group struct {
	*ttc.Group // nil if Refused is set
	Refused    *Refusal
}

// Refusal describes a group that is too large.
type Refusal struct {
	First    *ttc.Example // its first member
	Examples int64
	Bytes    int64 // size of its encoded examples
	Limits   Limits
}

func (r *Refusal) Error() string {
	if r.Examples > r.Limits.Examples {
		return fmt.Sprintf("the group has %d examples; the limit is %d", r.Examples, r.Limits.Examples)
	}
	return fmt.Sprintf("the group has %d examples totalling %d bytes; limits.group allows %d", r.Examples, r.Bytes, r.Limits.Bytes)
}

// New returns an empty index.
func New(codec Codec, opt Options) (*Index, error) {
	opt.Limits.Examples = cmp.Or(max(opt.Limits.Examples, 0), 100_000)
	opt.Limits.Bytes = cmp.Or(max(opt.Limits.Bytes, 0), 32<<20)
	opt.Memory = cmp.Or(max(opt.Memory, 0), extsort.DefaultMemory)
	s, err := spool.New(opt.Dir)
	if err != nil {
		return nil, fmt.Errorf("grouping: %w", err)
	}
	return &Index{
		codec: codec, opt: opt, spool: s,
		byKey: extsort.New(keyWidth+8+placeWidth, opt.Memory/2, opt.Dir),
		order: extsort.New(8+8+placeWidth, opt.Memory/2, opt.Dir),
	}, nil
}

// Add adds an example, without retaining it.
func (x *Index) Add(ex *ttc.Example) error {
	if x.err == nil {
		x.err = x.add(ex)
	}
	return x.err
}

func (x *Index) add(ex *ttc.Example) (err error) {
	x.scales.Add(ex)
	if x.plain, err = x.codec.Append(x.plain[:0], ex); err != nil {
		return fmt.Errorf("cannot keep example %q for grouping: %w", ex.ID, err)
	}
	if int64(len(x.plain)) > math.MaxUint32 {
		return fmt.Errorf("example %q has %d bytes: too large to group", ex.ID, len(x.plain))
	}
	x.packed = s2.Encode(x.packed[:cap(x.packed)], x.plain)
	return x.keep(x.key(ex), x.packed, uint32(len(x.plain)))
}

// keep stores a packed example under its group's key.
func (x *Index) keep(key [keyWidth]byte, packed []byte, plain uint32) error {
	at, err := x.spool.Append(packed)
	if err != nil {
		return x.spoolFailed(err)
	}
	row := append(x.entry[:0], key[:]...)
	row = binary.BigEndian.AppendUint64(row, x.n)
	row = binary.BigEndian.AppendUint64(row, uint64(at))
	row = binary.BigEndian.AppendUint32(row, uint32(len(packed)))
	row = binary.BigEndian.AppendUint32(row, plain)
	x.n++
	return x.byKey.Add(row)
}

// key returns the key that all examples in the same group share.
func (x *Index) key(ex *ttc.Example) [keyWidth]byte {
	switch {
	case x.opt.By == Run:
		return xxh3.Uint128{Lo: uint64(ex.Run)}.Bytes()
	case ex.Task != "":
		return taskKey(ex)
	}
	return x.alone()
}

// alone returns a unique key for the next example, which then forms its own group.
func (x *Index) alone() [keyWidth]byte {
	return xxh3.HashString128("alone\x00" + strconv.FormatUint(x.n, 10)).Bytes()
}

// Len returns the number of examples that were added.
func (x *Index) Len() int64 { return int64(x.n) }

// Groups yields the groups in the order of their first members, except the first skip groups. The groups can be
// iterated over only once, and no examples can be added after the iteration has begun. An error is yielded as the
// last item.
func (x *Index) Groups(skip int64) iter.Seq2[Group, error] {
	return func(yield func(Group, error) bool) {
		if err := x.arrange(); err != nil {
			yield(Group{}, err)
			return
		}
		g := gathering{index: x, skip: skip}
		for row, err := range x.order.All() {
			if err != nil {
				yield(Group{}, err)
				return
			}
			if first := binary.BigEndian.Uint64(row); !g.open || first != g.first {
				if !g.emit(yield) {
					return
				}
				g = gathering{index: x, skip: g.skip, open: true, first: first}
			}
			if err := g.member(row[16:]); err != nil {
				yield(Group{}, err)
				return
			}
		}
		g.emit(yield)
	}
}

// arrange finds each group's first member and sorts the entries by that member's position.
func (x *Index) arrange() error {
	if x.err != nil {
		return x.err
	}
	x.err = errors.New("group: the groups have already been read")
	if err := x.spool.Flush(); err != nil {
		return x.spoolFailed(err)
	}
	defer x.byKey.Close()
	var key [keyWidth]byte
	var first uint64
	started := false
	var out [8 + 8 + placeWidth]byte
	for row, err := range x.byKey.All() {
		if err != nil {
			return err
		}
		if !started || [keyWidth]byte(row[:keyWidth]) != key {
			started = true
			key = [keyWidth]byte(row[:keyWidth])
			first = binary.BigEndian.Uint64(row[keyWidth:])
		}
		binary.BigEndian.PutUint64(out[:], first)
		copy(out[8:], row[keyWidth:])
		if err := x.order.Add(out[:]); err != nil {
			return err
		}
	}
	return nil
}

// Close releases memory and disk space.
func (x *Index) Close() {
	x.byKey.Close()
	x.order.Close()
	x.spool.Close() // ignore the error, because the spool is not read again
	x.err = errors.New("group: the index is closed")
}

// gathering is the state of reading one group.
type gathering struct {
	index *Index
	skip  int64 // groups still to be skipped

	open    bool
	first   uint64
	members []*ttc.Example
	count   int64
	bytes   int64
}

// member adds a member, given its location. It keeps no members of a skipped group, and only the first member of a
// group that is too large, to identify that group.
func (g *gathering) member(place []byte) error {
	size := int64(binary.BigEndian.Uint32(place[12:]))
	g.count++
	g.bytes += size
	if g.skip > 0 {
		return nil
	}
	if g.tooLarge() && len(g.members) > 0 {
		clear(g.members[1:])
		g.members = g.members[:1]
		return nil
	}
	ex, err := g.index.load(place)
	if err != nil {
		return err
	}
	g.members = append(g.members, ex)
	return nil
}

func (g *gathering) tooLarge() bool {
	l := g.index.opt.Limits
	return g.count > l.Examples || g.bytes > l.Bytes
}

// emit yields the open group, if any. It reports whether to continue.
func (g *gathering) emit(yield func(Group, error) bool) bool {
	if !g.open {
		return true
	}
	if g.skip > 0 {
		g.skip--
		return true
	}
	first := g.members[0]
	if g.tooLarge() {
		return yield(Group{Refused: &Refusal{
			First:    first,
			Examples: g.count,
			Bytes:    g.bytes,
			Limits:   g.index.opt.Limits,
		}}, nil)
	}
	key := first.ID
	switch {
	case g.index.opt.By == Run:
		key = strconv.Itoa(first.Run)
	case first.Task != "":
		key = first.Task
	}
	return yield(Group{Group: &ttc.Group{Key: key, Examples: g.members, Scales: &g.index.scales}}, nil)
}

func (x *Index) spoolFailed(err error) error {
	return fmt.Errorf("cannot write the input's compressed copy to the temporary file for grouping, after %d bytes: %w",
		x.spool.Size(), err)
}

func (x *Index) load(place []byte) (*ttc.Example, error) {
	at, packed, plain := binary.BigEndian.Uint64(place), binary.BigEndian.Uint32(place[8:]),
		binary.BigEndian.Uint32(place[12:])
	x.packed = slices.Grow(x.packed[:0], int(packed))[:packed]
	if _, err := x.spool.ReadAt(x.packed, int64(at)); err != nil {
		return nil, fmt.Errorf("cannot read the temporary file for grouping: %w", err)
	}
	x.plain = slices.Grow(x.plain[:0], int(plain))[:plain]
	out, err := s2.Decode(x.plain, x.packed)
	if err == nil {
		var ex *ttc.Example
		if ex, err = x.codec.Decode(out); err == nil {
			return ex, nil
		}
	}
	return nil, fmt.Errorf("spool for grouping is damaged at byte %d: %w", at, err)
}
