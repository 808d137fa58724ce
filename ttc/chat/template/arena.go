package template

import (
	"unsafe"

	"github.com/nat-go/nat-go/ttc/pyvalue"
)

// arena holds the intermediate values of a render: strings, provenances, lists, arguments, variables. A Result holds
// copies, so none of these values outlives the render, and the next render reuses their memory instead of leaving it
// to the garbage collector.
type arena struct {
	text  []byte
	provs slab[prov]
	spans slab[Span]
	vals  slab[val]
	lists slab[pyvalue.List]
	args  slab[args]
	acts  slab[activation]
	loops slab[loop]
}

// reset reclaims everything. Values that came from the arena must not be used afterwards.
func (a *arena) reset() {
	a.text = a.text[:0]
	a.provs.reset()
	a.spans.reset()
	a.vals.reset()
	a.lists.reset()
	a.args.reset()
	a.acts.reset()
	a.loops.reset()
}

// slab allocates zeroed elements from a block of memory. A full block is replaced by a larger one, up to maxSlab
// bytes; the old block stays in memory for as long as any of its elements is in use.
type slab[T any] struct {
	room  []T
	taken int
}

const (
	minSlab   = 64        // elements
	maxSlab   = 512 << 10 // bytes
	textChunk = 64 << 10
)

func (s *slab[T]) take(n int) []T {
	if n > len(s.room)-s.taken {
		var e T
		maxLen := maxSlab / int(unsafe.Sizeof(e))
		if n > maxLen/4 {
			return make([]T, n)
		}
		s.room, s.taken = make([]T, max(n, minSlab, min(2*len(s.room), maxLen))), 0
	}
	s.taken += n
	return s.room[s.taken-n : s.taken : s.taken]
}

func (s *slab[T]) reset() {
	clear(s.room[:s.taken])
	s.taken = 0
}

// from takes n elements from a slab. Their bytes continue to count against the limit when they are no longer used,
// because one live element keeps its whole block in memory.
func from[T any](st *state, s *slab[T], n int) []T {
	var e T
	size := n * int(unsafe.Sizeof(e))
	st.checkRoom(size)
	st.bytes -= int64(size)
	return s.take(n)
}

func (st *state) values(n int) []val { return from(st, &st.made.vals, n) }

// newList returns a list value.
func (st *state) newList(items []val) val {
	l := &from(st, &st.made.lists, 1)[0]
	l.Items = items
	return pyvalue.OfList(l)
}

func (st *state) newTuple(items []val) val {
	l := &from(st, &st.made.lists, 1)[0]
	l.Items = items
	return pyvalue.OfTuple(l)
}

func (st *state) newArgs(plain []val, names []string, named []val) *args {
	a := &from(st, &st.made.args, 1)[0]
	*a = args{st, plain, names, named}
	return a
}

// string copies b.
func (a *arena) string(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	if len(b) > textChunk/4 {
		return string(b)
	}
	if len(b) > cap(a.text)-len(a.text) {
		a.text = make([]byte, 0, textChunk)
	}
	n := len(a.text)
	a.text = append(a.text, b...)
	return unsafe.String(&a.text[n], len(b)) // these bytes do not change until reset
}

// collected returns a copy of the collected spans. It returns nil if none were collected, because the whole text then
// comes from the template.
func (st *state) collected(b *provBuilder) *prov {
	if len(b.spans) == 0 {
		return nil
	}
	p := &from(st, &st.made.provs, 1)[0]
	p.spans, p.escapes = from(st, &st.made.spans, len(b.spans)), b.escapes
	copy(p.spans, b.spans)
	return p
}

// value returns the string that b has assembled, with its provenance.
func (st *state) value(b *builder) val { return str(st.made.string(b.b), st.collected(&b.p)) }

// markEscapes returns v with its quoted spans split. For a text that is cut into many parts, this splits the spans
// once, whereas provOf would split them for each part.
func markEscapes(v val) val {
	if p := rawProv(v); p == nil || !p.escapes {
		return v
	}
	return str(v.Text(), provOf(v))
}

// cut returns bytes i to j of v; a part of a Markup is a Markup.
func (st *state) cut(v val, i, j int) val {
	p := provOf(v)
	if p == nil {
		return str(v.Text()[i:j], nil)
	}
	b := st.borrow()
	b.p.addSlice(p, i, j)
	out := st.collected(&b.p)
	st.giveBack(b)
	if p.markup {
		out = markupProv(out)
	}
	return str(v.Text()[i:j], out)
}
