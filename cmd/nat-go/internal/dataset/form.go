package dataset

import (
	"bytes"

	"github.com/nat-go/nat-go/collator/rows"
	"github.com/nat-go/nat-go/ttc/json"
)

const (
	maxForms  = 4        // of the rows of a file
	maxLeaves = 64       // of a row whose form is kept
	maxForm   = 64 << 10 // bytes between the leaves
	maxSame   = 32       // bytes of a leaf that is compared with that of the row before
)

// form is the shape of rows that differ only in their texts, numbers and booleans. Most rows of a file have one of a
// few forms, and a row of a known form tells nothing new about the columns: it is counted, which takes a tenth of the
// time of reading it.
type form struct {
	pattern
	objects []*column // a column for each object
	keys    []*column // a column for each member
	rows    int64     // of this form that aren't counted in its columns

	// Roles and the like are the same in all rows: half of the leaves, and half of the time that matching takes.
	same  [][]byte // each leaf, while all rows have the same; nil: it varies
	short pattern  // with the leaves that don't vary as part of what is between the others

	offsets []int // of the leaves' beginnings and ends, while the form is being found
}

// pattern is a row without its leaves.
type pattern struct {
	between [][]byte // what precedes each leaf, and what follows the last one
	leaves  []leaf
}

// leaf is a text, a number or a boolean.
type leaf struct {
	column *column
	kind   json.Kind
}

// constant returns a copy of the leaf, which may be the same in all rows; nil if it is long, or a date: those are
// counted.
func (l leaf) constant(text []byte) []byte {
	if len(text) > maxSame || l.kind == json.String && !l.column.texts {
		return nil
	}
	return bytes.Clone(text)
}

func (f *form) object(c *column) {
	if f != nil {
		f.objects = append(f.objects, c)
	}
}

func (f *form) key(c *column) {
	if f != nil {
		f.keys = append(f.keys, c)
	}
}

// leaf adds the leaf at line[from:to] to the form of the row being read.
func (r *reading) leaf(c *column, kind json.Kind, from, to int) {
	switch {
	case r.form == nil:
	case len(r.form.leaves) == maxLeaves:
		r.form = nil
	default:
		r.form.leaves = append(r.form.leaves, leaf{c, kind})
		r.form.offsets = append(r.form.offsets, from, to)
	}
}

// end keeps what is between the leaves of the row that the form was found in, unless it is too long.
func (f *form) end(line []byte) bool {
	var all []byte
	ends := make([]int, 0, len(f.leaves)+1)
	last := 0
	for i := 0; i < len(f.offsets); i += 2 {
		all = append(all, line[last:f.offsets[i]]...)
		ends = append(ends, len(all))
		last = f.offsets[i+1]
		f.same = append(f.same, f.leaves[i/2].constant(line[f.offsets[i]:last]))
	}
	all = append(all, line[last:]...)
	from := 0
	for _, end := range append(ends, len(all)) {
		f.between = append(f.between, all[from:end])
		from = end
	}
	f.shorten()
	return len(all) <= maxForm
}

// matches reports whether the row at the end of buf has the form.
func (f *form) matches(buf []byte, at int, places []rows.Place) bool {
	if f.short.matches(buf, at, places, nil) {
		return true
	}
	if len(f.short.leaves) == len(f.leaves) {
		return false
	}
	f.offsets = f.offsets[:0]
	if !f.pattern.matches(buf, at, places, &f.offsets) {
		return false
	}
	for i, text := range f.same {
		if text != nil && !bytes.Equal(text, buf[f.offsets[2*i]:f.offsets[2*i+1]]) {
			f.same[i] = nil
		}
	}
	f.shorten()
	return true
}

// shorten makes the short pattern.
func (f *form) shorten() {
	f.short = pattern{}
	var text []byte
	for i, l := range f.leaves {
		if text = append(text, f.between[i]...); f.same[i] != nil {
			text = append(text, f.same[i]...)
			continue
		}
		f.short.between, f.short.leaves, text = append(f.short.between, text), append(f.short.leaves, l), nil
	}
	f.short.between = append(f.short.between, append(text, f.between[len(f.leaves)]...))
}

// matches reports whether the row at the end of buf has the pattern, and texts only where a text was found in this
// chunk that isn't a date. It appends the offsets of the leaves unless found is nil.
func (p *pattern) matches(buf []byte, at int, places []rows.Place, found *[]int) bool {
	for i, text := range p.between {
		if !bytes.HasPrefix(buf[at:], text) {
			return false
		}
		at += len(text)
		if i == len(p.leaves) {
			break
		}
		l, from := p.leaves[i], at
		if json.Raw(buf[at:]).Kind() != l.kind || l.kind == json.String && !l.column.texts {
			return false
		}
		for len(places) > 0 && places[0].From < at {
			places = places[1:]
		}
		if len(places) > 0 && places[0].From == at {
			at = places[0].To
		} else {
			at += endOfLeaf(buf[at:])
		}
		if found != nil {
			*found = append(*found, from, at)
		}
	}
	return at == len(buf)
}

// endOfLeaf returns the end of the text, number or boolean that a part of a row begins with.
func endOfLeaf(line []byte) int {
	if line[0] != '"' {
		return bytes.IndexAny(line, ",]}")
	}
	for i := 1; ; {
		i += bytes.IndexByte(line[i:], '"') + 1
		escapes := i - 2
		for line[escapes] == '\\' { // the text's own opening quote ends the run
			escapes--
		}
		if (i-escapes)%2 == 0 {
			return i
		}
	}
}

// count adds the rows of the form to its columns.
func (f *form) count() {
	for _, c := range f.objects {
		c.objects += f.rows
	}
	for _, c := range f.keys {
		c.here += f.rows
	}
	f.rows = 0
}

// known reports whether the row at the end of buf has a known form, and counts it then.
func (r *reading) known(buf []byte, from int, places []rows.Place) bool {
	for i, f := range r.forms {
		if f.matches(buf, from, places) {
			f.rows++
			copy(r.forms[1:], r.forms[:i])
			r.forms[0] = f
			return true
		}
	}
	return false
}

// learn keeps the form of the row just read instead of the one that was met longest ago.
func (r *reading) learn() {
	if len(r.forms) == maxForms {
		r.forms[maxForms-1].count()
		r.forms = r.forms[:maxForms-1]
	}
	r.forms = append([]*form{r.form}, r.forms...)
}
