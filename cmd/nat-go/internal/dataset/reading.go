package dataset

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// readerChunk is the number of bytes of JSON that Hugging Face datasets reads at a time. The first chunk determines the
// columns, and each chunk determines whether its strings are read as timestamps.
const readerChunk = 10 << 20

// maxColumns limits the number of columns distinguished in a file, because tool call arguments may have any keys.
const maxColumns = 4096

// reading models how Hugging Face datasets (3.6 to 5.2, with pyarrow 26) reads a JSON lines file. Because the reader
// guesses the columns, strings become timestamps, keys that first appear after the first chunk cause a failure, and
// missing keys are filled with null.
type reading struct {
	nulls   bool // whether the trainer treats null as a missing key
	row     column
	rows    int64
	chunk   int // number of the chunk, counted from 0
	bytes   int // size of the chunk so far
	columns int
}

// column describes the values at one path in all rows.
type column struct {
	keys    map[string]*column // columns of an object's keys
	element *column            // column of a list's elements
	kinds   [8]bool            // kinds of values found, by json.Kind; null excluded
	objects int64              // number of values that are objects
	here    int64              // for an object's key, the number of objects that contain the key
	late    int64              // number, from 1, of the row with the column's first value; 0 if in the first chunk
	dates   int64              // number of strings in this chunk that are dates
	texts   bool               // whether this chunk contains strings that aren't dates
	turned  int64              // number of dates in those earlier chunks in which all strings are dates
	varied  bool               // whether the column's objects in the first chunk have different keys
}

// add processes a row, given as one checked line of JSON.
func (r *reading) add(line []byte) {
	if r.rows++; r.bytes >= readerChunk {
		r.row.endChunk(r.chunk == 0)
		r.chunk, r.bytes = r.chunk+1, 0
	}
	r.bytes += len(line) + 1
	c := json.Raw(line).Cursor()
	r.value(&r.row, &c)
}

func (r *reading) value(col *column, c *json.Cursor) {
	kind := c.Kind()
	if col == nil || kind == json.Null {
		c.Skip()
		return
	}
	if r.chunk > 0 && col.late == 0 && col.kinds == [8]bool{} {
		col.late = r.rows
	}
	col.kinds[kind] = true
	switch kind {
	case json.Object:
		col.objects++
		c.Enter(kind)
		for key, ok := c.Member(); ok; key, ok = c.Member() {
			in := r.key(col, key)
			if in != nil {
				in.here++
			}
			r.value(in, c)
		}
	case json.Array:
		if col.element == nil && r.columns < maxColumns {
			r.columns++
			col.element = &column{}
		}
		c.Enter(kind)
		for c.Element() {
			r.value(col.element, c)
		}
	case json.String:
		text := c.Value()
		switch {
		case col.texts:
		case isDate(text):
			col.dates++
		default:
			col.texts = true
		}
	default:
		c.Skip()
	}
}

// key returns the column for an object's key, or nil if there are too many columns.
func (r *reading) key(col *column, key json.Raw) *column {
	name := []byte(key[1 : len(key)-1]) // escapes are not decoded, because a file usually writes a key in only one way
	in := col.keys[string(name)]
	if in == nil && r.columns < maxColumns {
		if col.keys == nil {
			col.keys = map[string]*column{}
		}
		r.columns++
		in = &column{}
		col.keys[string(name)] = in
	}
	return in
}

// endChunk counts the dates in columns whose strings in the chunk are all dates. After the first chunk, it also marks
// the columns whose objects have different keys.
func (c *column) endChunk(first bool) {
	if !c.texts {
		c.turned += c.dates
	}
	c.dates, c.texts = 0, false
	if c.element != nil {
		c.element.endChunk(first)
	}
	for _, in := range c.keys {
		c.varied = c.varied || first && in.here < c.objects
		in.endChunk(first)
	}
}

// change is a change that the reader makes to a column.
type change struct {
	Text string
	Old  bool // made only by datasets before 4.7; later versions keep values of differing shapes as JSON
	Null bool // the only change is that missing keys are filled with null
}

func (c change) String() string {
	if c.Old {
		return c.Text + runfolder.BeforeJSON
	}
	return c.Text
}

// changes completes the last chunk, and lists the reader's changes to the file. Changes that only old versions make
// come last.
func (r *reading) changes() []change {
	r.row.endChunk(r.chunk == 0)
	all := r.row.changes("", false)
	if r.nulls {
		all = slices.DeleteFunc(all, func(c change) bool { return c.Null })
	}
	slices.SortStableFunc(all, func(a, b change) int { return cmp.Compare(oldness(a), oldness(b)) })
	return all
}

func oldness(c change) int {
	if c.Old {
		return 1
	}
	return 0
}

// changes returns the changes to a column and everything inside it. asJSON means that, starting with datasets 4.7, the
// reader keeps the enclosing value as JSON.
func (c *column) changes(path string, asJSON bool) (all []change) {
	find := func(old bool, format string, a ...any) {
		all = append(all, change{Text: fmt.Sprintf(format, a...), Old: old})
	}
	mixed := c.mixed()
	switch {
	case mixed != "":
		find(true, "%s holds %s: load_dataset fails", path, mixed)
		asJSON = true
	case c.late > 0:
		find(asJSON, "%s first occurs in row %d, after the %d MiB that determine the columns: load_dataset fails",
			path, c.late, readerChunk>>20)
		return all
	}
	if c.turned > 0 {
		find(asJSON, "%s is read as timestamps (%s)", path, ledger.Quantity(c.turned, "date"))
	}
	if c.varied && path != "" {
		find(true, "the keys of %s are not the same everywhere: missing keys are filled with null", path)
		all[len(all)-1].Null = true
		asJSON = true
	}
	if c.element != nil {
		all = append(all, c.element.changes(path+"[]", asJSON)...)
	}
	for _, name := range slices.Sorted(maps.Keys(c.keys)) {
		all = append(all, c.keys[name].changes(strings.TrimPrefix(path+"."+name, "."), asJSON)...)
	}
	return all
}

// mixed names the kinds of values in a column if there is more than one.
func (c *column) mixed() string {
	var kinds []string
	for kind, is := range c.kinds {
		if is {
			kinds = append(kinds, json.Kind(kind).String())
		}
	}
	if len(kinds) < 2 {
		return ""
	}
	return strings.Join(kinds, " and ")
}

// date matches text that pyarrow's reader parses as a timestamp; isDate also checks the month and the day.
var date = regexp.MustCompile(`^\d{4}-\d\d-\d\d(?:[T ]` + clock + `(?::[0-5]\d)?(?:Z|[+-]` + clock +
	`|[+-](?:[01]\d|2[0-3])[0-5]\d)?)?$`)

const clock = `(?:[01]\d|2[0-3])(?::[0-5]\d)?`

// isDate reports whether the reader parses a string as a timestamp.
func isDate(raw json.Raw) bool {
	text := bytes.Trim(raw, `"`)
	if len(text) < 10 || len(text) > 25 || text[4] != '-' || !date.Match(text) {
		return false
	}
	_, err := time.Parse(time.DateOnly, string(text[:10]))
	return err == nil
}
