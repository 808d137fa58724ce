package table

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go/encoding/thrift"
)

// Limits on the bytes, list elements and nesting of the metadata of a file or page.
const (
	maxHeader   = 4*maxRow + 1<<20 // size in bytes of a page header, which may repeat the smallest and largest values
	maxSchema   = 4096             // number of columns and groups of columns
	maxChunks   = 1 << 17          // number of columns in all row groups
	maxElements = 1 << 20          // number of elements in all other lists
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
	thrift.Reader
	source                   *limited
	schema, chunks, elements int // numbers of elements that are still allowed, by kind of list
}

// limited is a reader of a limited number of bytes.
type limited struct {
	in          *bufio.Reader
	limit, left int64
}

// take counts n bytes as read, and returns an error if they exceed the limit.
func (r *limited) take(n int) error {
	if r.left -= int64(n); r.left < 0 {
		return &LimitError{fmt.Sprintf("the metadata of the file or of a page has more than %d bytes", r.limit)}
	}
	return nil
}

func (r *limited) ReadByte() (byte, error) {
	if err := r.take(1); err != nil {
		return 0, err
	}
	return r.in.ReadByte()
}

func (r *limited) Read(p []byte) (int, error) {
	if err := r.take(len(p)); err != nil {
		return 0, err
	}
	return io.ReadFull(r.in, p)
}

// checkStructure reads a structure, or returns io.EOF at the end.
func checkStructure(in *bufio.Reader, most int64) error {
	if _, err := in.Peek(1); err != nil {
		return err
	}
	source := &limited{in: in, limit: most, left: most}
	w := &walker{
		Reader: new(thrift.CompactProtocol).NewReader(source), source: source,
		schema: maxSchema, chunks: maxChunks, elements: maxElements,
	}
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
		f, err := w.ReadField()
		if err != nil || f.Type == thrift.STOP {
			return err
		}
		if f.Delta {
			f.ID += id
		}
		id = f.ID
		at := place{within[0], id}
		if depth == 1 {
			at[0] = within[1]
		}
		if f.Type == thrift.TRUE || f.Type == thrift.FALSE {
			continue // the type of a boolean field encodes its value
		}
		if err := w.value(f.Type, depth, at); err != nil {
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
		_, err := w.ReadInt64()
		return err
	case thrift.DOUBLE:
		return w.skip(8)
	case thrift.UUID:
		return w.skip(16)
	case thrift.BINARY:
		n, err := w.ReadLength()
		if err != nil {
			return err
		}
		return w.skip(n)
	case thrift.LIST, thrift.SET:
		l, err := w.ReadList()
		if err != nil {
			return err
		}
		return w.repeat(l.Size, depth, at, l.Type)
	case thrift.MAP:
		m, err := w.ReadMap()
		if err != nil {
			return err
		}
		return w.repeat(m.Size, depth, at, m.Key, m.Value)
	case thrift.STRUCT:
		return w.fields(depth+1, at)
	}
	return fmt.Errorf("unknown value type %d", typ)
}

// repeat subtracts n from the number of elements still allowed and reads n elements, each with one value of every given
// type.
func (w *walker) repeat(n int32, depth int, at place, types ...thrift.Type) error {
	left := &w.elements
	switch at {
	case schemaList:
		left = &w.schema
	case groupsList, chunksList:
		left = &w.chunks
	}
	if int(n) > *left {
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

// skip reads n bytes.
func (w *walker) skip(n int) error {
	err := w.source.take(n)
	if err == nil {
		_, err = w.source.in.Discard(n)
	}
	return err
}
