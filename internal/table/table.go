package table

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"runtime"

	"github.com/parquet-go/parquet-go"
)

// Limits on the memory for a file. One dictionary and one page of every column are in memory at the same time.
const (
	maxFooter  = 32 << 20  // size of the file's metadata, in bytes
	maxColumns = 1024      // number of columns that hold values
	maxHeld    = 96 << 20  // size of one dictionary and one page of every column, in bytes
	maxRow     = 32 << 20  // size of a row's strings and other byte arrays, in bytes
	maxValues  = 1 << 19   // number of values in a row
	maxGrown   = 256 << 20 // bytes that the rows of a file of any size may take
	maxGrowth  = 10_000    // additional bytes that the rows may take per byte of the file
)

// Reader reads rows.
type Reader struct {
	file    *parquet.File
	in      io.ReaderAt
	groups  []parquet.RowGroup // row groups not yet read
	columns []*column          // columns of the current row group
	rows    int64              // rows remaining in the current row group
	skip    int64              // rows to skip from the beginning of the next row group
	row     parquet.Row
	number  int64
	left    int64 // bytes that the remaining rows may still use
	pages   inflater
	schema  *parquet.Schema    // schema of the returned rows
	convert parquet.Conversion // conversion of rows to schema; nil if schema is the file's
}

// Open opens a file.
func Open(in io.ReaderAt, size int64) (r *Reader, err error) {
	defer recovered(&err)
	if err := checkFooter(in, size); err != nil {
		return nil, err
	}
	file, err := parquet.OpenFile(in, size, parquet.SkipBloomFilters(true), parquet.SkipPageIndex(true))
	if err != nil {
		return nil, broken(err)
	}
	if n := len(file.Schema().Columns()); n > maxColumns {
		return nil, &LimitError{fmt.Sprintf("the file has %d columns; at most %d are read", n, maxColumns)}
	}
	left := maxGrown + size*maxGrowth
	return &Reader{file: file, in: in, groups: file.RowGroups(), schema: file.Schema(), left: left}, nil
}

// checkFooter rejects metadata that requires too much memory.
func checkFooter(in io.ReaderAt, size int64) error {
	var end [8]byte
	if size < int64(len(end)) {
		return nil // the library reports the error
	}
	if _, err := in.ReadAt(end[:], size-int64(len(end))); err != nil {
		return err
	}
	n := int64(binary.LittleEndian.Uint32(end[:4]))
	switch begin := size - int64(len(end)) - n; {
	case string(end[4:]) == "PARE":
		return broken("the file is encrypted")
	case string(end[4:]) != "PAR1" || begin < 0:
		return nil // the library reports this error, too
	case n > maxFooter:
		what := fmt.Sprintf("the file's metadata has %d bytes; at most %d are read", n, maxFooter)
		return &LimitError{what}
	default:
		return broken(checkStructure(bufio.NewReader(io.NewSectionReader(in, begin, n)), n+1))
	}
}

// Schema returns the file's schema.
func (r *Reader) Schema() *parquet.Schema { return r.file.Schema() }

// As sets the schema of the rows that Next returns, which must have the same columns.
func (r *Reader) As(schema *parquet.Schema) (err error) {
	defer recovered(&err)
	if parquet.EqualNodes(schema, r.file.Schema()) {
		return nil
	}
	if r.convert, err = parquet.Convert(schema, r.file.Schema()); err != nil {
		return broken(err)
	}
	r.schema = schema
	return nil
}

// Skip skips the first rows. Call it before Next.
func (r *Reader) Skip(rows int64) {
	r.number += rows
	for len(r.groups) > 0 && rows >= r.groups[0].NumRows() {
		rows -= r.groups[0].NumRows()
		r.groups = r.groups[1:]
	}
	r.skip = max(0, rows)
}

// Close releases the reader's memory. It leaves the file open.
func (r *Reader) Close() error {
	r.pages.close()
	return r.endGroup()
}

// endGroup finishes reading the current group.
func (r *Reader) endGroup() error {
	var err error
	for _, c := range r.columns {
		err = errors.Join(err, c.pages.Close())
	}
	r.columns = nil
	return err
}

// Next returns the next row, made of maps, lists, strings and numbers. After the last row the error is io.EOF.
func (r *Reader) Next() (row any, err error) {
	defer recovered(&err)
	for r.rows == 0 {
		if err := r.group(); err != nil {
			return nil, err
		}
	}
	r.row = r.row[:0]
	left := budget{maxRow, maxValues}
	for _, c := range r.columns {
		r.row, err = c.next(r.row, &left)
		switch {
		case errors.As(err, new(*LimitError)):
			return nil, fmt.Errorf("row %d: %w", r.number+1, err)
		case errors.Is(err, io.EOF):
			return nil, broken(io.ErrUnexpectedEOF)
		case err != nil:
			return nil, broken(err)
		}
	}
	if r.left -= int64(maxRow - left.bytes); r.left < 0 {
		return nil, &LimitError{fmt.Sprintf(
			"the rows are more than %d times as large as the file: a few values are repeated very often", maxGrowth)}
	}
	whole := []parquet.Row{r.row}
	if r.convert != nil {
		if _, err := r.convert.Convert(whole); err != nil {
			return nil, broken(err)
		}
	}
	if err := r.schema.Reconstruct(&row, whole[0]); err != nil {
		return nil, broken(err)
	}
	r.rows--
	r.number++
	return row, nil
}

// group starts reading the next row group.
func (r *Reader) group() error {
	if err := r.endGroup(); err != nil {
		return broken(err)
	}
	if len(r.groups) == 0 {
		return io.EOF
	}
	group := r.groups[0]
	meta := r.file.Metadata().RowGroups[len(r.file.RowGroups())-len(r.groups)]
	r.groups = r.groups[1:]
	var held int64
	for i := range meta.Columns {
		n, err := r.pages.largest(r.in, &meta.Columns[i].MetaData)
		if err != nil {
			return broken(err)
		}
		if held += n; held > maxHeld {
			return &LimitError{fmt.Sprintf("the pages of a row group take more than %d MiB at once", maxHeld>>20)}
		}
	}
	for _, chunk := range group.ColumnChunks() {
		c := &column{pages: chunk.Pages()}
		r.columns = append(r.columns, c)
		if r.skip > 0 {
			if err := c.pages.SeekToRow(r.skip); err != nil {
				return broken(err)
			}
		}
	}
	r.rows, r.skip = group.NumRows()-r.skip, 0
	return nil
}

// LimitError is the error for a file that requires too much memory.
type LimitError struct{ What string }

func (e *LimitError) Error() string { return e.What }

// broken returns the error for a damaged file. It returns nil and a LimitError unchanged.
func broken(what any) error {
	if err, is := what.(error); is || what == nil {
		if err == nil || errors.As(err, new(*LimitError)) {
			return err
		}
	}
	if _, is := what.(runtime.Error); is { // the library relied on an invalid number in the file
		what = "invalid length or offset"
	}
	return fmt.Errorf("invalid Parquet file: %v", what)
}

// recovered turns a panic into an error, because the library panics on some damaged files.
func recovered(err *error) {
	if p := recover(); p != nil {
		*err = broken(p)
	}
}

// budget is the number of bytes and values that a row may still use.
type budget struct{ bytes, values int }

// column reads a column of a row group value by value.
type column struct {
	pages  parquet.Pages
	values parquet.ValueReader
	buf    [64]parquet.Value
	ready  []parquet.Value // part of buf not yet consumed
	err    error           // error that occurred after the values in ready were read
}

// next appends the column's values in the next row: one value and its repetitions.
func (c *column) next(row parquet.Row, left *budget) (parquet.Row, error) {
	for first := true; ; first = false {
		v, err := c.peek()
		if errors.Is(err, io.EOF) && !first {
			return row, nil
		}
		if err != nil {
			return row, err
		}
		if !first && v.RepetitionLevel() == 0 {
			return row, nil
		}
		c.ready = c.ready[1:]
		if left.values--; left.values < 0 {
			return row, &LimitError{fmt.Sprintf("the row has more than %d values", maxValues)}
		}
		if k := v.Kind(); k == parquet.ByteArray || k == parquet.FixedLenByteArray {
			left.bytes -= len(v.ByteArray())
		}
		if left.bytes < 0 {
			return row, &LimitError{fmt.Sprintf("the row has more than %d MiB of strings and byte arrays", maxRow>>20)}
		}
		row = append(row, v)
	}
}

// peek returns the next value.
func (c *column) peek() (parquet.Value, error) {
	for len(c.ready) == 0 {
		if c.err != nil && !errors.Is(c.err, io.EOF) {
			return parquet.Value{}, c.err
		}
		if c.values == nil || c.err != nil { // don't release the previous page, because the row uses its memory
			page, err := c.pages.ReadPage()
			if err != nil {
				return parquet.Value{}, err
			}
			c.values, c.err = page.Values(), nil
		}
		var n int
		n, c.err = c.values.ReadValues(c.buf[:])
		c.ready = c.buf[:n]
	}
	return c.ready[0], nil
}
