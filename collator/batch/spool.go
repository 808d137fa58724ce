package batch

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/nat-go/nat-go/internal/extsort"
	"github.com/nat-go/nat-go/internal/spool"
)

// Split is one part of the data set, training or validation. Its name is also the name of a folder below the channel's.
type Split uint8

// The splits.
const (
	Train Split = iota
	Validation
)

func (s Split) String() string {
	if s == Validation {
		return "validation"
	}
	return "train"
}

// Spool keeps rows on disk, with one entry per row. The entries are sorted on disk. It is not safe for concurrent use.
type Spool struct {
	file    *spool.File
	rows    int64
	groups  uint64
	entries *extsort.Sorter
	order   Order
	// kept reads rows stored elsewhere. If kept isn't nil, file contains only the places of the rows.
	kept  func(*Encoded) ([]byte, error)
	bytes int64 // of all encodings
}

// Order determines the order in which rows are used for training.
type Order struct {
	Seed  uint64
	Epoch uint64
	Added bool // rows are kept in the order in which they were added
	Task  bool // rows of the same group stay together; the groups are shuffled
}

// NewSpool starts a spool in dir, which must exist. Its files are temporary.
func NewSpool(dir string, order Order) (*Spool, error) {
	f, err := spool.New(dir)
	if err != nil {
		return nil, err
	}
	return &Spool{file: f, entries: extsort.New(entryWidth, 0, dir), order: order}, nil
}

// Close removes the spool's temporary files.
func (s *Spool) Close() error {
	s.entries.Close()
	return s.file.Close()
}

// BeginGroup begins a group of rows, which belong to the same task.
func (s *Spool) BeginGroup() { s.groups++ }

// Add adds an encoded row. The caller must not use r afterwards. Adding the same rows in the same order produces the
// same output.
func (s *Spool) Add(c *Channel, split Split, r *Encoded) error {
	data, err := r.data, error(nil)
	if data == nil {
		data, err = r.appendPlace(nil)
	} else {
		r.number(data)
	}
	if err != nil {
		return err
	}
	at, err := s.file.Append(data)
	if err != nil {
		return err
	}
	defer r.Free()
	e := entry{
		Channel: uint8(slices.Index(channels, c)), Split: split, Variant: r.Variant,
		Ordinal: s.rows, Offset: at, Bytes: r.Bytes, Width: r.Width, Sequences: r.Sequences,
	}
	switch {
	case s.order.Task:
		e.Hash = mix(s.order.Seed, s.order.Epoch, s.groups)
	case !s.order.Added:
		e.Hash = mix(s.order.Seed, s.order.Epoch, uint64(s.rows))
	}
	s.rows++
	s.bytes += int64(r.Bytes)
	b, err := binary.Append(nil, binary.BigEndian, e)
	if err != nil {
		return err
	}
	return s.entries.Add(b)
}

// read reads a row back.
func (s *Spool) read(e *entry) (*Row, error) {
	if s.kept != nil {
		at, err := s.place(e)
		if err != nil {
			return nil, err
		}
		return at.read(s.kept)
	}
	room := encodings.Get().(*Encoded)
	defer room.Free()
	room.data = slices.Grow(room.data[:0], int(e.Bytes))
	b := room.data[:e.Bytes]
	if n, err := s.file.ReadAt(b, e.Offset); n < len(b) {
		return nil, fmt.Errorf("%w: %v", errSpool, err)
	}
	return readRow(b)
}

// maxSides is the largest number of sides in any channel.
const maxSides = 2

// entry holds the facts about a row that are needed for planning batches. Encoded entries sort in the order in which
// batches are made, which is by channel, split and variant, then shuffled or in row order.
type entry struct {
	Channel   uint8
	Split     Split
	Variant   uint8
	Hash      uint64
	Ordinal   int64
	Offset    int64
	Bytes     uint32
	Width     [maxSides]uint32
	Sequences [maxSides]uint32
}

var entryWidth = binary.Size(entry{})

// total returns the number of tokens in the row, over all sides, with the sequences of a side padded to equal lengths.
func (e *entry) total() int { return extent{}.with(e, false).cells() }

// mix hashes words, such as a seed, an epoch and a row's number, into a pseudo-random sort key. It mixes in each word
// with MurmurHash3's finaliser.
func mix(words ...uint64) uint64 {
	h := uint64(0x9e3779b97f4a7c15)
	for _, w := range words {
		h ^= w
		h ^= h >> 33
		h *= 0xff51afd7ed558ccd
		h ^= h >> 33
		h *= 0xc4ceb9fe1a85ec53
		h ^= h >> 33
	}
	return h
}
