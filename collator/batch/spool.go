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
	file    *spool.File // encodings that aren't stored elsewhere
	rows    int64
	groups  uint64
	entries *extsort.Sorter
	order   Order
	read    fetch
	bytes   int64 // size of all encodings
}

// fetch reads a row's encoding from where it is stored. It may use the memory of the Encoded.
type fetch = func(*Encoded) ([]byte, error)

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
	s := &Spool{file: f, entries: extsort.New(entryWidth, 0, dir), order: order}
	s.read = s.own
	return s, nil
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
func (s *Spool) Add(c *Channel, split Split, r *Encoded) (err error) {
	defer r.Free()
	if r.data != nil {
		if r.Offset, err = s.file.Append(r.data); err != nil {
			return err
		}
	}
	r.Channel, r.Split, r.Row, r.Hash = uint8(slices.Index(channels, c)), split, s.rows, 0
	switch {
	case s.order.Task:
		r.Hash = mix(s.order.Seed, s.order.Epoch, s.groups)
	case !s.order.Added:
		r.Hash = mix(s.order.Seed, s.order.Epoch, uint64(s.rows))
	}
	s.rows++
	s.bytes += int64(r.Bytes)
	b, err := binary.Append(nil, binary.BigEndian, r.entry)
	if err != nil {
		return err
	}
	return s.entries.Add(b)
}

// own reads an encoding from the spool's file.
func (s *Spool) own(e *Encoded) ([]byte, error) {
	e.data = slices.Grow(e.data[:0], int(e.Bytes))[:e.Bytes]
	if n, err := s.file.ReadAt(e.data, e.Offset); n < len(e.data) {
		return nil, fmt.Errorf("%w: %v", errSpool, err)
	}
	return e.data, nil
}

// readRows reads the rows of a batch.
func readRows(of []entry, read fetch) ([]*Row, error) {
	rows := make([]*Row, len(of))
	e := encodings.Get().(*Encoded)
	defer e.Free()
	for i := range of {
		e.entry = of[i]
		b, err := read(e)
		if err == nil {
			rows[i], err = of[i].row(b)
		}
		if err != nil {
			return nil, err
		}
	}
	return rows, nil
}

// maxSides is the largest number of sides in any channel.
const maxSides = 2

// entry holds the facts about a row that are needed for planning batches, and where its encoding is stored. Encoded
// entries sort in the order in which batches are made, which is by channel, split and variant. Within these, entries
// are shuffled or in row order.
type entry struct {
	Channel   uint8 `json:"-"`
	Split     Split `json:"-"`
	Variant   uint8
	Hash      uint64           `json:"-"`
	Row       int64            `json:"-"` // number of the row in the spool
	Bytes     uint32           // size of the encoding
	Width     [maxSides]uint32 // tokens of the longest sequence on each side
	Sequences [maxSides]uint32 // number of sequences on each side
	Sum       uint64           // xxh3 hash of an encoding stored elsewhere, which the reader verifies

	// The location of the encoding, followed by values that may not be known when the row is made.
	File    int32 `json:"-"`
	Offset  int64 `json:"-"`
	Ordinal int64 `json:"-"` // position of the row's record among those collated
	Group   int64 `json:"-"` // number of an rl row's task, else -1
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
