package template

import (
	"slices"
	"sync"

	"github.com/nat-go/nat-go/ttc/pyvalue"
)

// states are pooled for their buffers.
var states = sync.Pool{New: func() any {
	st := &state{lib: builtins, own: &builder{}}
	st.out, st.none.st = st.own, st
	st.mark = st.marker.mark
	return st
}}

// maxKept is the largest output buffer that is kept for the next render, in bytes.
const maxKept = 1 << 20

func (b *builder) large() bool { return cap(b.b) > maxKept || cap(b.p.spans) > maxKept/32 }

// release passes the state's buffers, and nothing else, on to a later render, unless they are large.
func (st *state) release() {
	clear(st.given)
	st.made.reset()
	if st.own.large() || len(st.free) > 16 || slices.ContainsFunc(st.free, (*builder).large) {
		return
	}
	st.own.reset()
	*st = state{
		lib:   st.lib,
		none:  st.none,
		own:   st.own,
		out:   st.own,
		free:  st.free,
		given: st.given[:0],
		made:  st.made,
		mark:  st.mark,
	}
	states.Put(st)
}

// state is the state of one render.
type state struct {
	lib    *library
	input  Input
	given  []val // the variables that the template reads
	act    *activation
	own    *builder
	out    *builder
	outer  []*builder // builders suspended while a macro or block is captured
	pos    int32      // the part being evaluated, for errors
	left   int64      // steps that remain
	bytes  int64      // bytes of text and lists that may still be made
	depth  int
	nested int // generators currently drawing from one another
	free   []*builder
	made   arena
	none   args           // no arguments
	marker marker         // marker of the active printer
	mark   pyvalue.Marker // its method

	kept     [8]val // see keep
	nextKept int

	generations [][2]int
	heads       *heads // the heads to make, or nil
}

// step counts one unit of work.
func (st *state) step() {
	if st.left--; st.left < 0 {
		st.tooManySteps() // a separate function, so that step is inlined
	}
}

func (st *state) tooManySteps() { throw("LimitError", "more than %d steps", st.input.Limits.Steps) }

// spend counts n bytes made by the template, whether they are printed or discarded.
func (st *state) spend(n int) {
	st.checkRoom(n)
	st.bytes -= int64(n)
	st.left -= int64(n) >> 6 // long texts take time as well
}

// reads counts the work of scanning texts. It costs more if escapes must be distinguished.
func (st *state) reads(texts ...val) {
	for i := range texts {
		v := &texts[i]
		if v.Kind() != pyvalue.KindStr {
			continue
		}
		n := int64(len(v.Text()))
		if p := rawProv(*v); n > 4 && p != nil && p.escapes {
			n <<= 4
		}
		st.left -= n >> 6
	}
}

// checkRoom checks that n more bytes may be made.
func (st *state) checkRoom(n int) {
	if uint64(n) > uint64(st.bytes) { // also true if n is negative, having overflowed an int
		st.tooManyBytes()
	}
}

func (st *state) tooManyBytes() {
	throw("LimitError", "the template makes more than %d bytes of text", st.input.Limits.Bytes)
}

// resolve returns the variable with that name. messages, tools, documents and add_generation_prompt always exist, as in
// transformers; a keyword argument of the same name takes precedence.
func (st *state) resolve(name string) val {
	in := &st.input
	if in.Kwargs != nil {
		if v, ok := in.Kwargs.GetStr(name); ok {
			return v
		}
	}
	switch name {
	case "messages":
		v := st.newList(in.Messages)
		if st.heads != nil {
			st.heads.lists = append(st.heads.lists, listed{v.List(), 0})
		}
		return v
	case "tools":
		return in.Tools
	case "documents":
		return pyvalue.None
	case "add_generation_prompt":
		return pyvalue.Bool(in.AddGenerationPrompt)
	}
	if v, ok := st.lib.globals[name]; ok {
		return v
	}
	return missing
}

// call enters a function: a new activation whose variables are unset. It returns the caller's.
func (st *state) call(at int32, fn *funcScope, parent *activation) *activation {
	back := st.act
	if st.depth++; st.depth > st.input.Limits.Depth {
		throwAt(at, "RecursionError", "calls nest deeper than %d", st.input.Limits.Depth)
	}
	st.step()
	st.act = st.newActivation(fn, parent)
	return back
}

func (st *state) newActivation(fn *funcScope, parent *activation) *activation {
	a := &from(st, &st.made.acts, 1)[0]
	a.slots, a.parent = st.values(len(fn.slots)), parent
	for i := range a.slots {
		a.slots[i] = missing
	}
	return a
}

func (st *state) ret(to *activation) {
	st.depth--
	st.act = to
}

// push starts capturing printed text; pop stops capturing and returns the text.
func (st *state) push(at int32) {
	if len(st.outer) > 4*st.input.Limits.Depth {
		throwAt(at, "RecursionError", "blocks nest deeper than %d", 4*st.input.Limits.Depth)
	}
	st.outer = append(st.outer, st.out)
	st.out = st.borrow()
}

func (st *state) pop() val {
	b := st.out
	n := len(st.outer) - 1
	st.out, st.outer = st.outer[n], st.outer[:n]
	return st.finish(b)
}

// borrow returns an empty builder; finish returns its text and takes the builder back.
func (st *state) borrow() *builder {
	if n := len(st.free) - 1; n >= 0 {
		b := st.free[n]
		st.free = st.free[:n]
		return b
	}
	return &builder{}
}

func (st *state) finish(b *builder) val {
	v := st.value(b)
	st.giveBack(b)
	return v
}

func (st *state) giveBack(b *builder) {
	b.reset()
	st.free = append(st.free, b)
}

func (st *state) write(s string, p *prov) {
	st.spend(len(s))
	st.left--
	if p != nil {
		st.spend(spanSize * len(p.spans))
	}
	st.out.write(s, p)
}

// print writes str(v).
func (st *state) print(v val) {
	st.step()
	if v.Kind() == pyvalue.KindStr {
		st.write(v.Text(), rawProv(v))
		return
	}
	st.printRepr(v)
}

// printRepr prints a value that is not text.
func (st *state) printRepr(v val) {
	n := st.out.size()
	st.appendText(st.out, v)
	st.spend(st.out.size() - n)
}

// appendText appends str(v) to b. The caller accounts for the bytes.
func (st *state) appendText(b *builder, v val) {
	if v.Kind() == pyvalue.KindStr {
		st.checkRoom(len(v.Text()))
		b.write(v.Text(), rawProv(v))
		return
	}
	st.append(b, func(dst []byte, m pyvalue.Marker) ([]byte, error) { return pyvalue.AppendStr(dst, v, m) })
}

// append lets a printer from package pyvalue append to b, and keeps track of where its output comes from.
func (st *state) append(b *builder, printer func(dst []byte, m pyvalue.Marker) ([]byte, error)) {
	m, mark := &st.marker, st.mark
	if m.b != nil { // a printer within a printer
		m = &marker{}
		mark = m.mark
	}
	*m = marker{b: b, base: len(b.b), spans: len(b.p.spans), at: len(b.b), st: st}
	out, err := printer(b.b, mark)
	check(err)
	m.b.b = out
	m.end(len(out))
	*m = marker{}
}

// dump appends json.dumps(v) to b. The caller accounts for the bytes.
func (st *state) dump(b *builder, v val, o pyvalue.Dump) {
	st.append(b, func(dst []byte, m pyvalue.Marker) ([]byte, error) { return o.Append(dst, v, m) })
}

// text returns str(v) with its provenance.
func (st *state) text(v val) (string, *prov) {
	if v.Kind() == pyvalue.KindStr {
		return v.Text(), provOf(v)
	}
	b := st.borrow()
	st.appendText(b, v)
	st.spend(b.size())
	out := st.finish(b)
	return out.Text(), provOf(out)
}

// softText is jinja2's soft_str: str(v), except that a Markup stays one.
func (st *state) softText(v val) val {
	if v.Kind() == pyvalue.KindStr {
		return v
	}
	return str(st.text(v))
}
