package rows

import (
	stdjson "encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/internal/table"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/json"
)

// tableBytes is the approximate number of bytes that a table buffers before it writes a row group.
const tableBytes = 32 << 20

// IsTable reports whether a file of rows is a Parquet table rather than JSON lines.
func IsTable(file string) bool { return strings.HasSuffix(file, ".parquet") }

// Contents records whether any record has tools, or messages with more than a role and text. A table's columns are
// declared before its first row, so this must be known in advance.
type Contents struct {
	Rich  bool // tool calls, results with the id of their call, names, reasoning, or content that isn't text
	Tools bool // definitions of tools
}

// Note adds a record's contents.
func (c *Contents) Note(r *builders.Resolved) {
	c.Tools = c.Tools || len(r.Origin.Tools) > 0
	c.Rich = c.Rich || has(r, func(m *chat.Message) bool { return moreThanText(m) || asText(m).Form != chat.Text })
}

// columns builds the schema nodes for a table's columns.
type columns struct {
	Options
	Contents
}

// value returns the schema node of a column for JSON values of any shape.
func (c columns) value() parquet.Node {
	if c.JSONColumns == JSONText {
		return parquet.String()
	}
	return parquet.JSON()
}

// messages returns a column of messages: {role, content} or, if any have more than that, free-form values. A struct
// of all messages' keys would be read back with nulls, which chat templates treat as present.
func (c columns) messages() parquet.Node {
	if c.Rich {
		return parquet.List(c.value())
	}
	return plainMessages
}

// plainMessages is a column of {role, content}.
var plainMessages = parquet.List(parquet.Group{"role": parquet.String(), "content": parquet.String()})

// passage returns a column of text if string prompts are written as text, otherwise of messages.
func (c columns) passage() parquet.Node {
	if c.TextPrompt == PlainText {
		return parquet.String()
	}
	return c.messages()
}

// withTools adds the column of tools to g if any record has tools.
func (c columns) withTools(g parquet.Group) parquet.Group {
	if c.Tools {
		g["tools"] = parquet.Optional(parquet.List(c.value()))
	}
	return g
}

// withToolsText is like withTools, for tools stored as one string.
func (c columns) withToolsText(g parquet.Group) parquet.Group {
	if c.Tools {
		g["tools"] = parquet.Optional(parquet.String())
	}
	return g
}

// Table writes rows as a Parquet file. The same rows produce the same bytes.
type Table struct {
	schema *parquet.Schema
	w      *parquet.GenericWriter[any]
	bytes  int
}

// NewTable starts a file for rows made from records of one kind, with the given contents.
func (f Format) NewTable(w io.Writer, k builders.Kind, o Options, has Contents) *Table {
	s := parquet.NewSchema(f.Name, f.columns(k, columns{o, has}))
	compressed, by := parquet.Compression(&parquet.Zstd), parquet.CreatedBy("nat-go", "1", "0")
	return &Table{schema: s, w: parquet.NewGenericWriter[any](w, s, compressed, by)}
}

// Append writes a row, given as the JSON object the encoder made.
func (t *Table) Append(line []byte) error {
	row, err := json.Parse(line, json.Limits{})
	if err != nil {
		return err
	}
	v, err := cell(t.schema, row)
	if err != nil {
		return err
	}
	if _, err := t.w.Write([]any{v}); err != nil {
		return fmt.Errorf("parquet: %w", err)
	}
	if t.bytes += len(line); t.bytes < tableBytes {
		return nil
	}
	t.bytes = 0
	return t.w.Flush()
}

// Close writes the remaining rows and the footer. It doesn't close the underlying file.
func (t *Table) Close() error { return t.w.Close() }

// cell converts a JSON value to its column's type.
func cell(n parquet.Node, v json.Raw) (any, error) {
	switch {
	case v.Kind() == json.Null:
		return nil, nil
	case isJSON(n):
		return string(v), nil
	case n.Leaf():
		return leaf(n, v)
	case v.Kind() == json.Array:
		list, element := []any{}, elementOf(n)
		for x := range v.Elements() {
			c, err := cell(element, x)
			if err != nil {
				return nil, err
			}
			list = append(list, c)
		}
		return list, nil
	}
	row, fields := map[string]any{}, n.Fields()
	for k, x := range v.Members() {
		name, _ := k.Text()
		i := slices.IndexFunc(fields, func(f parquet.Field) bool { return f.Name() == name })
		if i < 0 {
			return nil, fmt.Errorf("unknown key %q: the table has no such column", name)
		}
		c, err := cell(fields[i], x)
		if err != nil {
			return nil, err
		}
		row[name] = c
	}
	return row, nil
}

// leaf converts a single column's value. In optional columns the library writes a zero value as null unless it is
// passed as a pointer.
func leaf(n parquet.Node, v json.Raw) (any, error) {
	var x any
	var ok bool
	switch n.Type().Kind() {
	case parquet.Boolean:
		b, is := v.Bool()
		x, ok = &b, is
		if !n.Optional() {
			x = b
		}
	case parquet.Int64:
		x, ok = v.Int64()
	case parquet.Double:
		x, ok = v.Float64()
	default:
		if text, is := v.Text(); is {
			return text, nil
		}
		return string(v), nil // see JSONText
	}
	if !ok {
		return nil, fmt.Errorf("invalid value %s for the column's type", v)
	}
	return x, nil
}

func isJSON(n parquet.Node) bool { return n.Leaf() && is[*format.JsonType](n) }

// is reports whether a node's logical type is T.
func is[T format.LogicalTypeValue](n parquet.Node) bool {
	t := n.Type().LogicalType()
	if t == nil {
		return false
	}
	_, ok := t.Value.(T)
	return ok
}

// elementOf returns a list's element node. A list repeats a group "list", which contains "element".
func elementOf(list parquet.Node) parquet.Node { return list.Fields()[0].Fields()[0] }

// EachTableRow calls f for each row of a Parquet file, starting at row number from, with the row as one line of JSON.
// Nulls are omitted.
func EachTableRow(r io.ReaderAt, size, from int64, f func(n int64, line []byte) error) error {
	in, err := table.Open(r, size)
	if err != nil {
		return err
	}
	defer in.Close()
	schema := in.Schema()
	if err := in.As(parquet.NewSchema(schema.Name(), asStrings(schema))); err != nil {
		return err
	}
	in.Skip(from)
	for n := from; ; n++ {
		row, err := in.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		line, err := stdjson.Marshal(fromCell(schema, row))
		if err == nil {
			err = f(n, line)
		}
		if err != nil {
			return err
		}
	}
}

// asStrings returns a node with strings in place of JSON values, because the library would decode those and lose the
// key order.
func asStrings(n parquet.Node) parquet.Node {
	var out parquet.Node
	switch {
	case isJSON(n):
		out = parquet.String()
	case n.Leaf():
		return n
	case isList(n):
		out = parquet.List(asStrings(elementOf(n)))
	default:
		g := parquet.Group{}
		for _, f := range n.Fields() {
			g[f.Name()] = asStrings(f)
		}
		out = g
	}
	switch {
	case n.Optional():
		return parquet.Optional(out)
	case n.Repeated():
		return parquet.Repeated(out)
	}
	return out
}

// isList reports whether a node is a list in the form that all current writers use.
func isList(n parquet.Node) bool {
	if !is[*format.ListType](n) || len(n.Fields()) != 1 || n.Fields()[0].Name() != "list" || n.Fields()[0].Leaf() {
		return false
	}
	in := n.Fields()[0].Fields()
	return len(in) == 1 && in[0].Name() == "element"
}

// fromCell converts the library's value for a column to one that encoding/json can encode, omitting nulls.
func fromCell(n parquet.Node, v any) any {
	switch v := v.(type) {
	case map[string]any:
		for _, f := range n.Fields() {
			if x, ok := v[f.Name()]; ok && x == nil {
				delete(v, f.Name())
			} else if ok {
				v[f.Name()] = fromCell(f, x)
			}
		}
		return v
	case []any:
		element := n
		if isList(n) {
			element = elementOf(n)
		}
		for i := range v {
			v[i] = fromCell(element, v[i])
		}
		return v
	case []byte:
		return fromCell(n, string(v))
	case string:
		if isJSON(n) {
			return stdjson.RawMessage(v)
		}
	}
	return v
}
