package group

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/klauspost/compress/s2"
	"github.com/zeebo/xxh3"

	"github.com/nat-go/nat-go/internal/coder"
	"github.com/nat-go/nat-go/internal/durable"
	"github.com/nat-go/nat-go/ttc"
)

// Spill stores examples for other processes to group. It divides the examples into numbered parts by task, so that in
// all spills, a task's examples are in the part with the same number. A spill consists of a file of blocks, each
// belonging to one part, and a file that lists their positions.
type Spill struct {
	codec Codec
	file  *durable.File
	list  string
	at    int64
	parts [][]byte // each part's unwritten bytes
	most  int      // a part is written once it has this many bytes
	index spillIndex
	n     uint64
	plain []byte
}

// spillIndex lists the positions of each part's blocks, in example order.
type spillIndex struct {
	Parts  [][]spillBlock `json:"parts"`
	Scales ttc.Scales     `json:"scales"` // ranges of the scores of all its examples
}

type spillBlock struct {
	Offset int64  `json:"offset"`
	Bytes  int64  `json:"bytes"`
	XXH3   uint64 `json:"xxh3"`
}

// The size of a spill's in-memory buffer, across all parts, and the minimum size of a block.
const (
	spillMemory   = 32 << 20
	spillBlockMin = 4 << 10
)

// NewSpill begins a spill with the given number of parts. The file of blocks is at path, and the list of blocks is next
// to it. Both files get their final names on Close.
func NewSpill(codec Codec, path string, parts int) (*Spill, error) {
	f, err := durable.Create(path)
	if err != nil {
		return nil, err
	}
	return &Spill{
		codec: codec, file: f, list: SpillList(path), parts: make([][]byte, parts),
		most:  max(min(spillMemory/parts, 1<<20), spillBlockMin),
		index: spillIndex{Parts: make([][]spillBlock, parts)},
	}, nil
}

// SpillList returns the name of the file that lists the positions and hashes of a spill's blocks.
func SpillList(path string) string { return path + ".json" }

// Add appends an example in the form of a 16-byte task key, the compressed example with its size, and its uncompressed
// size.
func (s *Spill) Add(ex *ttc.Example) (err error) {
	s.index.Scales.Add(ex)
	if s.plain, err = s.codec.Append(s.plain[:0], ex); err != nil {
		return fmt.Errorf("cannot keep example %q for grouping: %w", ex.ID, err)
	}
	if len(s.plain) > maxSpillBlock/2 { // a packed example may be slightly larger
		return fmt.Errorf("example %q has %d bytes: too large to group", ex.ID, len(s.plain))
	}
	key := taskKey(ex)
	part := int(xxh3.Hash(key[:]) % uint64(len(s.parts)))
	if ex.Task == "" { // an example without a task can be in any part
		part = int(s.n % uint64(len(s.parts)))
	}
	s.n++
	b := append(s.parts[part], key[:]...)
	packed := s2.Encode(nil, s.plain)
	b = append(binary.AppendUvarint(b, uint64(len(packed))), packed...)
	s.parts[part] = binary.AppendUvarint(b, uint64(len(s.plain)))
	if len(s.parts[part]) < s.most {
		return nil
	}
	return s.flush(part)
}

// taskKey identifies an example's task. It is zero if the example doesn't have one.
func taskKey(ex *ttc.Example) (key [keyWidth]byte) {
	if ex.Task != "" {
		key = xxh3.HashString128("task\x00" + ex.Task).Bytes()
	}
	return key
}

func (s *Spill) flush(part int) error {
	b := s.parts[part]
	if len(b) == 0 {
		return nil
	}
	if _, err := s.file.Write(b); err != nil {
		return err
	}
	block := spillBlock{Offset: s.at, Bytes: int64(len(b)), XXH3: xxh3.Hash(b)}
	s.index.Parts[part] = append(s.index.Parts[part], block)
	s.at += int64(len(b))
	s.parts[part] = b[:0]
	return nil
}

// Close completes the spill.
func (s *Spill) Close() error {
	for part := range s.parts {
		if err := s.flush(part); err != nil {
			return err
		}
	}
	text, err := json.Marshal(s.index)
	if err == nil {
		err = s.file.Commit()
	}
	if err == nil {
		err = durable.WriteFile(s.list, text)
	}
	return err
}

// Abort removes a spill that wasn't completed.
func (s *Spill) Abort() { s.file.Abort() }

// maxSpillList is the maximum size of a spill's list.
const maxSpillList = 128 << 20

// SpilledAt passes the ranges of a spill's file that contain the given part's examples to the given function.
func SpilledAt(path string, part int, do func(offset, n int64) error) error {
	list, err := readSpillList(path, part)
	if err != nil {
		return err
	}
	for _, b := range list.Parts[part] {
		if err := do(b.Offset, b.Bytes); err != nil {
			return err
		}
	}
	return nil
}

// readSpillList reads the list of a spill's blocks. It returns an error if the spill doesn't have the given part.
func readSpillList(path string, part int) (list spillIndex, err error) {
	text, err := durable.ReadFile(SpillList(path), maxSpillList)
	if err != nil {
		return list, err
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return list, fmt.Errorf("%s: %w", SpillList(path), err)
	}
	if part >= len(list.Parts) {
		return list, fmt.Errorf("%s has %d parts", path, len(list.Parts))
	}
	for _, b := range list.Parts[part] {
		if b.Offset < 0 || b.Bytes < 0 || b.Bytes > maxSpillBlock {
			return list, fmt.Errorf("%s has an invalid block of %d bytes", path, b.Bytes)
		}
	}
	return list, nil
}

// AddSpilled adds one part's examples from a spill, in order, without decoding them. It stops when ctx is done.
func (x *Index) AddSpilled(ctx context.Context, path string, part int) error {
	list, err := readSpillList(path, part)
	if err != nil {
		return err
	}
	x.scales.Merge(list.Scales)
	f, err := durable.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	var buf []byte
	for _, b := range list.Parts[part] {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if b.Bytes > info.Size()-b.Offset { // check before allocating the buffer
			return fmt.Errorf("%s is shorter than its list says: rerun the shard", path)
		}
		buf = slices.Grow(buf[:0], int(b.Bytes))[:b.Bytes]
		if _, err := f.ReadAt(buf, b.Offset); err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("%s: %w", path, err)
		}
		if xxh3.Hash(buf) != b.XXH3 {
			return fmt.Errorf("%s is damaged at byte %d: remove the shard's folder, and rerun the shard", path, b.Offset)
		}
		for in := coder.Reader(buf, nil); in.Left() > 0; {
			if err := x.addPacked(&in); err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
		}
	}
	return nil
}

// maxSpillBlock is the maximum size of a block, including one with a single, very large example.
const maxSpillBlock = 256 << 20

var errSpilled = errors.New("damaged spill entry")

// addPacked adds the next example of a block.
func (x *Index) addPacked(in *coder.Coder) error {
	var plain uint64
	key, packed := in.Take(keyWidth), in.Take(in.Next())
	if coder.Natural(in, &plain); in.Err != nil || plain > maxSpillBlock/2 {
		return errSpilled
	}
	if n, err := s2.DecodedLen(packed); err != nil || uint64(n) != plain {
		return errSpilled
	}
	of := [keyWidth]byte(key)
	if of == [keyWidth]byte{} {
		of = x.alone()
	}
	return x.keep(of, packed, uint32(plain))
}
