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

// tableBytes is about how much a table holds before it writes a row group.
const tableBytes = 32 << 20

// IsTable says whether a file of rows is a Parquet table rather than JSON lines.
func IsTable(file string) bool { return strings.HasSuffix(file, ".parquet") }

// Contents says what the messages of some records have beside a role and a text. A table's columns are declared before
// its first row, so that it has to be known then.
type Contents struct {
	Rich  bool // tool calls, results with the id of their call, names, reasoning, no text
	Tools bool // definitions of tools
}

// Note adds what a record has.
func (c *Contents) Note(r *builders.Resolved) {
	c.Tools = c.Tools || len(r.Origin.Tools) > 0
	for _, p := range []builders.Passage{r.Prompt, r.Chosen, r.Rejected, r.Messages} {
		for i := range p.Nodes {
			if c.Rich {
				return
			}
			m := asText(&p.Nodes[i].Message)
			c.Rich = m.Form != chat.Text || len(m.ToolCalls) > 0 || m.ToolCallID != "" || m.Name != "" ||
				m.ReasoningKey != ""
		}
	}
}

// columns makes the nodes of a table's declared columns.
type columns struct {
	Options
	Contents
}

// value is a column of values that are not alike: of any JSON.
func (c columns) value() parquet.Node {
	if c.JSONColumns == JSONText {
		return parquet.String()
	}
	return parquet.JSON()
}

// messages is a column of messages: {role, content}, and where some have more than that, values as they are. As a
// struct of all keys that any has they would come back with nulls, which chat templates take for something that is
// there.
func (c columns) messages() parquet.Node {
	if c.Rich {
		return parquet.List(c.value())
	}
	return plainMessages
}

// plainMessages is a column of {role, content}.
var plainMessages = parquet.List(parquet.Group{"role": parquet.String(), "content": parquet.String()})

// passage is a column of texts where a text prompt is written as one, else of messages.
func (c columns) passage() parquet.Node {
	if c.TextPrompt == PlainText {
		return parquet.String()
	}
	return c.messages()
}

// plainPassage is passage for a format whose messages are {role, content}, whatever those of the records are.
func (c columns) plainPassage() parquet.Node {
	if c.TextPrompt == PlainText {
		return parquet.String()
	}
	return plainMessages
}

// and adds the column of tools to others, where some row has any.
func (c columns) and(g parquet.Group) parquet.Group {
	if c.Tools {
		g["tools"] = parquet.Optional(parquet.List(c.value()))
	}
	return g
}

// Table writes rows as a Parquet file. The same rows give the same bytes.
type Table struct {
	schema *parquet.Schema
	w      *parquet.GenericWriter[any]
	bytes  int
}

// NewTable starts a file for the rows of a kind of record, whose records have what is said.
func (f Format) NewTable(w io.Writer, k builders.Kind, o Options, has Contents) *Table {
	s := parquet.NewSchema(f.Name, f.columns(k, columns{o, has}))
	compressed, by := parquet.Compression(&parquet.Zstd), parquet.CreatedBy("nat-go", "1", "0")
	return &Table{schema: s, w: parquet.NewGenericWriter[any](w, s, compressed, by)}
}

// Append writes a row, given as the JSON object that the encoder made.
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

// Close writes what is left and the footer. It doesn't close the file below.
func (t *Table) Close() error { return t.w.Close() }

// cell is a JSON value as its column takes it.
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
			return nil, fmt.Errorf("the table has no column for the key %q", name)
		}
		c, err := cell(fields[i], x)
		if err != nil {
			return nil, err
		}
		row[name] = c
	}
	return row, nil
}

func leaf(n parquet.Node, v json.Raw) (any, error) {
	var x any
	var ok bool
	switch n.Type().Kind() {
	case parquet.Boolean:
		x, ok = v.Bool()
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
		return nil, fmt.Errorf("%s doesn't fit its column", v)
	}
	return x, nil
}

func isJSON(n parquet.Node) bool { return n.Leaf() && is[*format.JsonType](n) }

// is says whether a node's logical type is T.
func is[T format.LogicalTypeValue](n parquet.Node) bool {
	t := n.Type().LogicalType()
	if t == nil {
		return false
	}
	_, ok := t.Value.(T)
	return ok
}

// elementOf is what a list holds: it is a group of "list", which repeats a group of "element".
func elementOf(list parquet.Node) parquet.Node { return list.Fields()[0].Fields()[0] }

// EachTableRow calls f for each row of a Parquet file from a number on, as one line of JSON. What is null in it is left
// out.
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

// asStrings is a node with strings where it has values of JSON: the library would decode them, and lose the order of
// keys.
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

// isList says whether a node is a list of the shape that all writers of today give it.
func isList(n parquet.Node) bool {
	if !is[*format.ListType](n) || len(n.Fields()) != 1 || n.Fields()[0].Name() != "list" || n.Fields()[0].Leaf() {
		return false
	}
	in := n.Fields()[0].Fields()
	return len(in) == 1 && in[0].Name() == "element"
}

// fromCell is what the library made of a column's value, without nulls, as encoding/json is to write it.
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
