package rows

import (
	"bytes"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/parquet-go/parquet-go"

	"github.com/nat-go/nat-go/builders"
)

// tableBytes is about how much a table holds before it writes a row group.
const tableBytes = 32 << 20

// IsTable says whether a file of rows is a Parquet table rather than JSON lines.
func IsTable(file string) bool { return strings.HasSuffix(file, ".parquet") }

// Table writes rows as a Parquet file. The same rows give the same bytes.
type Table struct {
	schema *parquet.Schema
	w      *parquet.GenericWriter[any]
	bytes  int
}

// NewTable starts a file for the rows of a kind of record.
func (f Format) NewTable(w io.Writer, k builders.Kind) *Table {
	s := f.schema(k)
	return &Table{schema: s, w: parquet.NewGenericWriter[any](w, s, parquet.Compression(&parquet.Zstd), parquet.CreatedBy("nat-go", "1", "0"))}
}

// Append writes a row, given as the JSON object that the encoder made.
func (t *Table) Append(line []byte) error {
	dec := stdjson.NewDecoder(bytes.NewReader(line))
	dec.UseNumber()
	var row any
	if err := dec.Decode(&row); err != nil {
		return err
	}
	if _, err := t.w.Write([]any{fit(t.schema, row)}); err != nil {
		return fmt.Errorf("parquet: %w", err)
	}
	if t.bytes += len(line); t.bytes < tableBytes {
		return nil
	}
	t.bytes = 0
	return t.w.Flush()
}

// Close writes what is left and the footer. It doesn't close the file below.
func (t *Table) Close() error { return t.w.Close() }

// fit gives numbers the type of their column.
func fit(n parquet.Node, v any) any {
	switch v := v.(type) {
	case map[string]any:
		for _, f := range n.Fields() {
			if x, ok := v[f.Name()]; ok {
				v[f.Name()] = fit(f, x)
			}
		}
	case []any: // a list is a group of "list", which repeats a group of "element"
		element := n.Fields()[0].Fields()[0]
		for i := range v {
			v[i] = fit(element, v[i])
		}
	case stdjson.Number:
		i, _ := v.Int64() // the schemas have whole numbers only
		return i
	}
	return v
}

// EachTableRow calls f for each row of a Parquet file, as one line of JSON. What is null in it is left out.
func EachTableRow(r io.ReaderAt, size int64, f func(n int64, line []byte) error) (err error) {
	defer func() { // the library panics at some broken files
		if p := recover(); p != nil {
			err = fmt.Errorf("this is no sound Parquet file: %v", p)
		}
	}()
	file, err := parquet.OpenFile(r, size)
	if err != nil {
		return fmt.Errorf("this is no sound Parquet file: %w", err)
	}
	in := parquet.NewGenericReader[any](file)
	defer in.Close()
	var batch [64]any
	for n := int64(0); ; {
		k, err := in.Read(batch[:])
		for _, row := range batch[:k] {
			line, jerr := stdjson.Marshal(withoutNulls(row))
			if jerr == nil {
				jerr = f(n, line)
			}
			if jerr != nil {
				return jerr
			}
			n++
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func withoutNulls(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			if x == nil {
				delete(v, k)
			} else {
				v[k] = withoutNulls(x)
			}
		}
	case []any:
		for i := range v {
			v[i] = withoutNulls(v[i])
		}
	case []byte:
		return string(v)
	}
	return v
}
