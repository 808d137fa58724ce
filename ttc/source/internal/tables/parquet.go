package tables

import (
	"bytes"
	stdjson "encoding/json"
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"

	"github.com/nat-go/nat-go/internal/lists"
	"github.com/nat-go/nat-go/internal/table"
	"github.com/nat-go/nat-go/ttc/json"
)

// IsParquet reports whether a file is Parquet, judging by its first bytes.
func IsParquet(head []byte) bool { return bytes.HasPrefix(head, []byte("PAR1")) }

// Parquet reads a Parquet file as JSON lines. In strings that are not UTF-8, the invalid bytes are replaced.
func Parquet(in io.ReaderAt, size int64) (io.ReadCloser, error) {
	rows, err := table.Open(in, size)
	if err != nil {
		return nil, err
	}
	schema := rows.Schema()
	if hasJSON(schema) {
		if err := rows.As(parquet.NewSchema(schema.Name(), undecoded{schema})); err != nil {
			return nil, err
		}
	}
	lines := &lineReader{next: func(line []byte) ([]byte, error) {
		row, err := rows.Next()
		if err != nil {
			return nil, err
		}
		return append(appendValue(line, schema, row), '\n'), nil
	}}
	return struct {
		io.Reader
		io.Closer
	}{lines, rows}, nil
}

// lineReader reads the lines of a table's rows.
type lineReader struct {
	next func(line []byte) ([]byte, error) // appends the line of the next row, or nothing for a header
	buf  []byte                            // text generated but not yet read
	line []byte                            // the memory that buf uses, reused for the next line
	err  error
}

func (r *lineReader) Read(p []byte) (int, error) {
	for len(r.buf) == 0 {
		if r.err != nil {
			return 0, r.err
		}
		if r.buf, r.err = r.next(r.line[:0]); r.err == nil {
			r.line = r.buf
		}
	}
	n := copy(p, r.buf)
	r.buf = r.buf[n:]
	return n, nil
}

// appendValue appends the value of a schema node.
func appendValue(dst []byte, n parquet.Node, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(dst, "null"...)
	case map[string]any:
		return appendGroup(dst, n, v)
	case []any:
		element := n
		if !n.Leaf() && isList(n) { // a list is a group "list" that repeats a group "element"
			element = n.Fields()[0]
			if !element.Leaf() && len(element.Fields()) == 1 {
				element = element.Fields()[0]
			}
		}
		dst = append(dst, '[')
		for _, x := range v {
			dst = appendValue(json.AppendComma(dst), element, x)
		}
		return append(dst, ']')
	}
	return appendLeaf(dst, n, v)
}

func isList(n parquet.Node) bool { return len(n.Fields()) == 1 && n.Fields()[0].Repeated() }

// appendGroup appends an object, with its keys in schema order. Nulls are omitted, because a table gives all
// objects in a column the same keys.
func appendGroup(dst []byte, n parquet.Node, v map[string]any) []byte {
	dst = append(dst, '{')
	if n.Leaf() {
		return append(dst, '}')
	}
	for _, f := range n.Fields() {
		if x := v[f.Name()]; x != nil {
			dst = appendValue(append(json.AppendString(json.AppendComma(dst), f.Name()), ':'), f, x)
		}
	}
	return append(dst, '}')
}

func appendLeaf(dst []byte, n parquet.Node, v any) []byte {
	if n.Leaf() {
		if text, ok := timeOf(n, v); ok {
			return json.AppendString(dst, text)
		}
		if inner, ok := jsonOf(n, v); ok {
			return append(dst, inner...)
		}
	}
	switch v := v.(type) {
	case bool, int32, int64, uint32, uint64:
		return fmt.Append(dst, v)
	case float32:
		return appendFloat(dst, float64(v), 32)
	case float64:
		return appendFloat(dst, v, 64)
	case []byte:
		return json.AppendString(dst, strings.ToValidUTF8(string(v), "\uFFFD"))
	case string:
		return json.AppendString(dst, strings.ToValidUTF8(v, "\uFFFD"))
	case time.Time:
		return json.AppendString(dst, v.UTC().Format(time.RFC3339Nano))
	}
	if b, err := stdjson.Marshal(v); err == nil {
		return append(dst, b...)
	}
	return json.AppendString(dst, fmt.Sprint(v))
}

func appendFloat(dst []byte, f float64, bits int) []byte {
	switch {
	case math.IsNaN(f):
		return append(dst, "NaN"...)
	case math.IsInf(f, 1):
		return append(dst, "Infinity"...)
	case math.IsInf(f, -1):
		return append(dst, "-Infinity"...)
	}
	n := len(dst)
	dst = strconv.AppendFloat(dst, f, 'g', -1, bits)
	if !bytes.ContainsAny(dst[n:], ".e") { // so that readers parse the number as a float
		dst = append(dst, ".0"...)
	}
	return dst
}

// isJSON reports whether a column is declared to hold JSON. Hugging Face's datasets library declares columns this way
// if their objects have different keys.
func isJSON(n parquet.Node) bool {
	if !n.Leaf() || n.Type().LogicalType() == nil {
		return false
	}
	_, is := n.Type().LogicalType().Value.(*format.JsonType)
	return is
}

func hasJSON(n parquet.Node) bool {
	return isJSON(n) || !n.Leaf() && slices.ContainsFunc(n.Fields(), func(f parquet.Field) bool { return hasJSON(f) })
}

// undecoded is a schema whose JSON columns are declared as strings. Otherwise, the library would decode the JSON,
// losing the order of keys and the digits of large numbers.
type undecoded struct{ parquet.Node }

func (u undecoded) Type() parquet.Type {
	if isJSON(u.Node) {
		return parquet.String().Type()
	}
	return u.Node.Type()
}

func (u undecoded) Fields() []parquet.Field {
	return lists.Map(u.Node.Fields(), func(f parquet.Field) parquet.Field { return field{undecoded{f}, f} })
}

// field is a field of an undecoded schema.
type field struct {
	undecoded
	of parquet.Field
}

func (f field) Name() string                           { return f.of.Name() }
func (f field) Value(base reflect.Value) reflect.Value { return f.of.Value(base) }

// jsonOf returns a value from a JSON column.
func jsonOf(n parquet.Node, v any) ([]byte, bool) {
	text, is := v.(string)
	if !is || !isJSON(n) {
		return nil, false
	}
	var b bytes.Buffer
	err := stdjson.Compact(&b, []byte(strings.ToValidUTF8(text, "\uFFFD")))
	return b.Bytes(), err == nil
}

// timeOf returns a date or time as text if the column holds one as a number.
func timeOf(n parquet.Node, v any) (string, bool) {
	logical := n.Type().LogicalType()
	if logical == nil {
		return "", false
	}
	var number int64
	switch v := v.(type) {
	case int32:
		number = int64(v)
	case int64:
		number = v
	default:
		return "", false
	}
	switch t := logical.Value.(type) {
	case *format.DateType:
		return time.Unix(number*24*60*60, 0).UTC().Format(time.DateOnly), true
	case *format.TimestampType:
		at := time.UnixMilli(number)
		switch t.Unit.Value.(type) {
		case *format.MicroSeconds:
			at = time.UnixMicro(number)
		case *format.NanoSeconds:
			at = time.Unix(0, number)
		}
		return at.UTC().Format(time.RFC3339Nano), true
	}
	return "", false
}
