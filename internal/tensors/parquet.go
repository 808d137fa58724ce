package tensors

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go"
)

// rowGroupBytes is the approximate number of bytes that a Parquet writer buffers before it writes a row group.
const rowGroupBytes = 32 << 20

// Column describes a column of a Parquet file, whose cells are numbers, strings, or lists of numbers.
type Column struct {
	Name string
	Kind Kind
}

// Kind is the type of a column's cells.
type Kind int

// The kinds of cells, and the Go type that Append accepts for each.
const (
	Int64List   Kind = iota // []int64
	Uint8List               // []uint8, stored as 32-bit integers marked as unsigned 8-bit
	Float32Cell             // float32
	TextCell                // string
)

// ParquetWriter writes pre-tokenised rows. Files are deterministic: the same rows produce the same bytes. TRL's SFT
// trainer uses the columns input_ids and labels (or completion_mask) without tokenising again.
type ParquetWriter struct {
	columns []Column        // in the caller's order
	order   []int           // the columns' indices in the order of the file, which sorts them by name
	w       *parquet.Writer //nolint:staticcheck // GenericWriter wants a Go type; the columns have none
	row     parquet.Row
	bytes   int // approximate size of the open row group
}

// NewParquetWriter starts a file with these columns.
func NewParquetWriter(w io.Writer, columns ...Column) (*ParquetWriter, error) {
	group := parquet.Group{}
	for _, c := range columns {
		if c.Name == "" || group[c.Name] != nil {
			return nil, fmt.Errorf("parquet column %q: empty or duplicate name", c.Name)
		}
		node, ok := nodes[c.Kind]
		if !ok {
			return nil, fmt.Errorf("parquet column %q: unknown kind %d", c.Name, c.Kind)
		}
		group[c.Name] = node
	}
	p := &ParquetWriter{columns: columns}
	for i := range columns {
		p.order = append(p.order, i)
	}
	slices.SortFunc(p.order, func(a, b int) int { return strings.Compare(columns[a].Name, columns[b].Name) })
	p.w = parquet.NewWriter(w, parquet.NewSchema("rows", group), parquet.Compression(&parquet.Zstd),
		parquet.CreatedBy("nat-go", "1", "0"))
	return p, nil
}

// nodes holds the schema node of each kind of column.
var nodes = map[Kind]parquet.Node{
	Int64List:   parquet.List(parquet.Int(64)),
	Uint8List:   parquet.List(parquet.Uint(8)),
	Float32Cell: parquet.Leaf(parquet.FloatType),
	TextCell:    parquet.String(),
}

// Append writes one row: a cell for each column, in order.
func (p *ParquetWriter) Append(cells ...any) error {
	if len(cells) != len(p.columns) {
		return fmt.Errorf("parquet: row has %d cells for %d columns", len(cells), len(p.columns))
	}
	p.row = p.row[:0]
	for leaf, i := range p.order {
		cell := cells[i]
		row, ok := appendCell(p.row, p.columns[i].Kind, leaf, cell)
		if !ok {
			return fmt.Errorf("parquet column %q: unsupported cell type %T", p.columns[i].Name, cell)
		}
		p.bytes += 8 * (len(row) - len(p.row))
		if text, ok := cell.(string); ok {
			p.bytes += len(text)
		}
		p.row = row
	}
	if _, err := p.w.WriteRows([]parquet.Row{p.row}); err != nil {
		return fmt.Errorf("parquet: %w", err)
	}
	if p.bytes < rowGroupBytes {
		return nil
	}
	p.bytes = 0
	return p.w.Flush()
}

// appendCell appends a cell as Parquet values with their levels, and reports whether its type matches the kind.
func appendCell(out parquet.Row, kind Kind, leaf int, cell any) (parquet.Row, bool) {
	switch c := cell.(type) {
	case []int64:
		return list(out, leaf, c, parquet.Int64Value), kind == Int64List
	case []uint8:
		return list(out, leaf, c, func(v uint8) parquet.Value { return parquet.Int32Value(int32(v)) }),
			kind == Uint8List
	case float32:
		return append(out, parquet.FloatValue(c).Level(0, 0, leaf)), kind == Float32Cell
	case string:
		return append(out, parquet.ByteArrayValue([]byte(c)).Level(0, 0, leaf)), kind == TextCell
	}
	return nil, false
}

// list appends a list's items with their levels. The first item starts a row, and the others repeat within it. An empty
// list becomes a null one level up.
func list[T any](out parquet.Row, leaf int, items []T, value func(T) parquet.Value) parquet.Row {
	if len(items) == 0 {
		return append(out, parquet.NullValue().Level(0, 0, leaf))
	}
	out = slices.Grow(out, len(items))
	for i, item := range items {
		out = append(out, value(item).Level(min(i, 1), 1, leaf))
	}
	return out
}

// Close writes the remaining rows and the footer. It doesn't close the underlying file.
func (p *ParquetWriter) Close() error { return p.w.Close() }
