package dataset

import (
	"bytes"
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// readerChunk is how much Hugging Face datasets reads of JSON lines at a time: it settles what a column holds by the
// first chunk, and what a text is by each.
const readerChunk = 10 << 20

// maxColumns is how many columns of a file are told apart: arguments of tool calls have any keys.
const maxColumns = 4096

// reading follows what Hugging Face datasets makes of a file of JSON lines, whose columns it has to guess (3.6 to 5.2,
// with pyarrow 26): texts become timestamps, keys that come late fail, keys that are missing are filled in with null.
type reading struct {
	row     column
	rows    int64
	chunk   int // from 0
	bytes   int // of the chunk
	columns int
}

// column is what stands at one place of every row.
type column struct {
	keys    map[string]*column // of an object
	element *column            // of a list
	kinds   [8]bool            // by json.Kind; not of null
	objects int64              // how many values are objects
	here    int64              // in how many objects it stands, if it is a key
	late    int64              // row, from 1, of its first value, if that is not in the first chunk
	dates   int64              // texts of this chunk that are dates
	texts   bool               // this chunk has others
	turned  int64              // dates of all chunks that have nothing else
	varied  bool               // in the first chunk its objects have different keys
}

// lines takes n rows, with newlines around them.
func (r *reading) lines(rows []byte, n int) {
	rows = bytes.Trim(rows, "\n")
	for ; n > 1; n-- {
		end := bytes.IndexByte(rows, '\n')
		r.add(rows[:end])
		rows = rows[end+1:]
	}
	r.add(rows)
}

// add takes a row, one line of JSON that was checked.
func (r *reading) add(line []byte) {
	if r.rows++; r.bytes >= readerChunk {
		r.endChunk()
		r.chunk, r.bytes = r.chunk+1, 0
	}
	r.bytes += len(line) + 1
	c := json.Raw(line).Cursor()
	r.value(&r.row, &c)
}

func (r *reading) value(col *column, c *json.Cursor) {
	kind := c.Kind()
	if kind == json.Null {
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
			if in == nil {
				c.Skip()
				continue
			}
			in.here++
			r.value(in, c)
		}
	case json.Array:
		if col.element == nil && r.columns < maxColumns {
			col.element = r.column()
		}
		c.Enter(kind)
		for c.Element() {
			if col.element == nil {
				c.Skip()
				continue
			}
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

func (r *reading) column() *column {
	r.columns++
	return &column{}
}

// key is the column of an object's key; nil: there are too many.
func (r *reading) key(col *column, key json.Raw) *column {
	name := []byte(key[1 : len(key)-1]) // as it is written: our rows write a key in one way
	if in := col.keys[string(name)]; in != nil {
		return in
	}
	if r.columns >= maxColumns {
		return nil
	}
	if col.keys == nil {
		col.keys = map[string]*column{}
	}
	in := r.column()
	col.keys[string(name)] = in
	return in
}

// endChunk settles which texts of the chunk are timestamps, and which objects are not alike.
func (r *reading) endChunk() {
	r.row.each("", func(_ string, c *column) {
		if !c.texts {
			c.turned += c.dates
		}
		c.dates, c.texts = 0, false
		if r.chunk > 0 {
			return
		}
		for _, in := range c.keys {
			c.varied = c.varied || in.here < c.objects
		}
	})
}

// each calls f for a column and all within, by path.
func (c *column) each(path string, f func(path string, c *column)) {
	f(path, c)
	if c.element != nil {
		c.element.each(path+"[]", f)
	}
	for _, name := range c.names() {
		c.keys[name].each(strings.TrimPrefix(path+"."+name, "."), f)
	}
}

func (c *column) names() []string {
	var names []string
	for name := range c.keys {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// change is what the reader makes otherwise of a column.
type change struct {
	Text string
	Old  bool // only before datasets 4.7, which keeps objects and values that are not alike as JSON
}

func (c change) String() string {
	if c.Old {
		return c.Text + runfolder.BeforeJSON
	}
	return c.Text
}

// changes ends the file and lists what is read otherwise, what today's reader gets wrong first.
func (r *reading) changes() []change {
	r.endChunk()
	all := r.row.changes("", false)
	slices.SortStableFunc(all, func(a, b change) int { return cmp.Compare(oldness(a), oldness(b)) })
	return all
}

func oldness(c change) int {
	if c.Old {
		return 1
	}
	return 0
}

// changes are those of a column and all within. asJSON: the reader keeps what is around it as JSON from 4.7 on.
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
		find(asJSON, "%s comes first in row %d, behind the %d MiB by which columns are settled: load_dataset fails",
			path, c.late, readerChunk>>20)
		return all
	}
	if c.turned > 0 {
		find(asJSON, "%s is read as timestamps (%s)", path, ledger.Quantity(c.turned, "date"))
	}
	if c.varied && path != "" {
		find(true, "the keys of %s are not the same everywhere: what is missing is filled in with null", path)
		asJSON = true
	}
	if c.element != nil {
		all = append(all, c.element.changes(path+"[]", asJSON)...)
	}
	for _, name := range c.names() {
		all = append(all, c.keys[name].changes(strings.TrimPrefix(path+"."+name, "."), asJSON)...)
	}
	return all
}

// mixed says what kinds of values a column holds, where it is more than one.
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

// date is how pyarrow's reader knows a text for a timestamp; the day of the month is looked at apart.
var date = regexp.MustCompile(`^\d{4}-\d\d-\d\d(?:[T ]` + clock + `(?::[0-5]\d)?(?:Z|[+-]` + clock +
	`|[+-](?:[01]\d|2[0-3])[0-5]\d)?)?$`)

const clock = `(?:[01]\d|2[0-3])(?::[0-5]\d)?`

// isDate says whether the reader takes a text for a timestamp.
func isDate(raw json.Raw) bool {
	text := bytes.Trim(raw, `"`)
	if len(text) < 10 || len(text) > 25 || text[4] != '-' || !date.Match(text) {
		return false
	}
	_, err := time.Parse(time.DateOnly, string(text[:10]))
	return err == nil
}
