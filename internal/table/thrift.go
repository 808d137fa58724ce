package table

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go/encoding/thrift"
)

// Limits on the bytes, list elements and nesting of the metadata of a file or page.
const (
	maxHeader   = 4*maxRow + 1<<20 // size in bytes of a page header, which may repeat the smallest and largest values
	maxSchema   = 4096             // columns and groups of columns
	maxChunks   = 1 << 17          // columns of all row groups
	maxElements = 1 << 20          // elements of all other lists
	maxDepth    = 32
)

// place identifies a list by the numbers of two fields, the outermost one that encloses it (or 0) and its own.
type place [2]int16

// The lists whose elements take the most memory.
var (
	schemaList = place{0, 2}
	groupsList = place{0, 4}
	chunksList = place{4, 1}
)

// walker reads a structure in Thrift's compact encoding without decoding it, and rejects one that would take too much
// memory. The library, in contrast, allocates memory for as many elements and bytes as a structure declares, and
// accepts any depth.
type walker struct {
	in                       *bufio.Reader
	limit, left              int64 // bytes
	schema, chunks, elements int   // numbers of elements that are still allowed, by kind of list
}

// checkStructure reads a structure, or returns io.EOF at the end.
func checkStructure(in *bufio.Reader, most int64) error {
	if _, err := in.Peek(1); err != nil {
		return err
	}
	w := &walker{in: in, limit: most, left: most, schema: maxSchema, chunks: maxChunks, elements: maxElements}
	err := w.fields(0, place{})
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// fields reads the fields of a structure up to its end.
func (w *walker) fields(depth int, within place) error {
	if depth > maxDepth {
		return &LimitError{fmt.Sprintf("the file's metadata is nested more than %d deep", maxDepth)}
	}
	var id int16
	for {
		b, err := w.byte()
		if err != nil {
			return err
		}
		typ := thrift.Type(b & 0xF)
		if typ == thrift.STOP {
			return nil
		}
		if delta := int16(b >> 4); delta != 0 {
			id += delta
		} else {
			n, err := w.uvarint()
			if err != nil {
				return err
			}
			id = int16(n>>1) ^ -int16(n&1)
		}
		at := place{within[0], id}
		if depth == 1 {
			at[0] = within[1]
		}
		if typ == thrift.TRUE || typ == thrift.FALSE {
			continue // the type of a boolean field encodes its value
		}
		if err := w.value(typ, depth, at); err != nil {
			return err
		}
	}
}

// value reads a value of a field or a list.
func (w *walker) value(typ thrift.Type, depth int, at place) error {
	switch typ {
	case thrift.TRUE, thrift.FALSE, thrift.I8:
		return w.skip(1)
	case thrift.I16, thrift.I32, thrift.I64:
		_, err := w.uvarint()
		return err
	case thrift.DOUBLE:
		return w.skip(8)
	case thrift.UUID:
		return w.skip(16)
	case thrift.BINARY:
		n, err := w.uvarint()
		if err != nil {
			return err
		}
		return w.skip(n)
	case thrift.LIST, thrift.SET:
		return w.list(depth, at)
	case thrift.MAP:
		return w.pairs(depth, at)
	case thrift.STRUCT:
		return w.fields(depth+1, at)
	}
	return fmt.Errorf("unknown value type %d", typ)
}

// list reads a list.
func (w *walker) list(depth int, at place) error {
	b, err := w.byte()
	if err != nil {
		return err
	}
	n := uint64(b >> 4)
	if n == 0xF {
		if n, err = w.uvarint(); err != nil {
			return err
		}
	}
	return w.repeat(n, depth, at, thrift.Type(b&0xF))
}

// pairs reads a map.
func (w *walker) pairs(depth int, at place) error {
	n, err := w.uvarint()
	if err != nil || n == 0 {
		return err
	}
	b, err := w.byte()
	if err != nil {
		return err
	}
	return w.repeat(n, depth, at, thrift.Type(b>>4), thrift.Type(b&0xF))
}

// repeat subtracts n from the number of elements still allowed and reads n elements, each with one value of every given
// type.
func (w *walker) repeat(n uint64, depth int, at place, types ...thrift.Type) error {
	left := &w.elements
	switch at {
	case schemaList:
		left = &w.schema
	case groupsList, chunksList:
		left = &w.chunks
	}
	if n > uint64(*left) {
		return &LimitError{fmt.Sprintf("the file's metadata has a list of %d elements, too many to read", n)}
	}
	*left -= int(n)
	for range n {
		for _, typ := range types {
			if err := w.value(typ, depth, at); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *walker) byte() (byte, error) {
	if w.left--; w.left < 0 {
		return 0, w.tooLong()
	}
	return w.in.ReadByte()
}

func (w *walker) uvarint() (n uint64, err error) {
	var text [binary.MaxVarintLen64]byte
	for i := range text {
		if text[i], err = w.byte(); err != nil {
			return 0, err
		}
		if text[i] < 0x80 {
			n, size := binary.Uvarint(text[:i+1])
			if size <= 0 {
				break
			}
			return n, nil
		}
	}
	return 0, errors.New("invalid number: more than 64 bits")
}

// skip reads n bytes.
func (w *walker) skip(n uint64) error {
	if n > uint64(max(0, w.left)) {
		return w.tooLong()
	}
	w.left -= int64(n)
	_, err := w.in.Discard(int(n))
	return err
}

func (w *walker) tooLong() error {
	return &LimitError{fmt.Sprintf("the metadata of the file or of a page has more than %d bytes", w.limit)}
}
