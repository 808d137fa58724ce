package template

import (
	"sort"

	"github.com/nat-go/nat-go/ttc/pyvalue"
)

// source is a field of a message (or of a tool definition) that text comes from.
type source struct {
	message int    // index, or toolMessage
	field   string // "content", "tool_calls[0].function.arguments.city"
}

// toolMessage stands in source.message for text that comes from the tool definitions.
const toolMessage = -2

// seg says where the bytes of a text up to end (from the end of the seg before) come from: byte off of src, one for one;
// a nil src is the template.
type seg struct {
	end, off int32
	src      *source
}

// prov is the provenance of a text, carried as the tag of a value. A nil prov is template text. On numbers, None and the
// like it has one seg, whose end means nothing: whatever is printed of the value comes from there.
type prov struct {
	segs   []seg
	markup bool // the text is a Markup object: HTML-safe
}

// ClassName makes the repr of a Markup say so.
func (p *prov) ClassName() string {
	if p != nil && p.markup {
		return "Markup"
	}
	return ""
}

func provOf(v val) *prov {
	p, _ := v.Tag().(*prov)
	return p
}

func isMarkup(v val) bool {
	if v.Kind() != pyvalue.KindStr {
		return false
	}
	p := provOf(v)
	return p != nil && p.markup
}

// str makes a str value.
func str(s string, p *prov) val {
	if p == nil {
		return pyvalue.Str(s)
	}
	return pyvalue.TaggedStr(s, p)
}

// plainProv is p without the Markup flag.
func plainProv(p *prov) *prov {
	if p == nil || !p.markup {
		return p
	}
	if p.segs == nil {
		return nil
	}
	return &prov{segs: p.segs}
}

// markupProv is p with the Markup flag.
func markupProv(p *prov) *prov {
	if p == nil {
		return &prov{markup: true}
	}
	return &prov{segs: p.segs, markup: true}
}

// slice is the provenance of bytes i to j of the text.
func (p *prov) slice(i, j int) *prov {
	if p == nil {
		return nil
	}
	if len(p.segs) == 0 || i >= j {
		if p.markup {
			return &prov{markup: true}
		}
		return nil
	}
	var room [4]seg
	b := provBuilder{segs: room[:0]}
	b.addSlice(p, i, j)
	out := b.prov()
	if p.markup {
		return markupProv(out)
	}
	return out
}

// at is the source of byte i of the text.
func (p *prov) at(i int) (*source, int32) {
	if p == nil || len(p.segs) == 0 {
		return nil, 0
	}
	n := sort.Search(len(p.segs), func(k int) bool { return int(p.segs[k].end) > i })
	if n == len(p.segs) {
		n--
	}
	start := int32(0)
	if n > 0 {
		start = p.segs[n-1].end
	}
	s := p.segs[n]
	if s.src == nil {
		return nil, 0
	}
	return s.src, s.off + max(0, min(int32(i), s.end)-start)
}

// provBuilder collects the segs of a text that is being put together.
type provBuilder struct {
	segs []seg
	n    int32 // length of the text so far
}

// add says that the next n bytes come from src, byte off on.
func (b *provBuilder) add(n int, src *source, off int32) {
	if n == 0 {
		return
	}
	start := b.n
	b.n += int32(n)
	if k := len(b.segs) - 1; k >= 0 && b.segs[k].src == src {
		last := &b.segs[k]
		first := int32(0)
		if k > 0 {
			first = b.segs[k-1].end
		}
		if src == nil || last.off+(start-first) == off {
			last.end = b.n
			return
		}
	}
	b.segs = append(b.segs, seg{b.n, off, src})
}

// addSlice says that the next bytes are bytes i to j of a text with provenance p.
func (b *provBuilder) addSlice(p *prov, i, j int) {
	if p == nil || len(p.segs) == 0 {
		b.add(j-i, nil, 0)
		return
	}
	k := 0
	if i > 0 {
		k = sort.Search(len(p.segs), func(k int) bool { return int(p.segs[k].end) > i })
	}
	for ; k < len(p.segs) && i < j; k++ {
		start := 0
		if k > 0 {
			start = int(p.segs[k-1].end)
		}
		s := p.segs[k]
		end := min(int(s.end), j)
		off := s.off
		if s.src != nil {
			off += int32(i - start)
		}
		b.add(end-i, s.src, off)
		i = end
	}
	if i < j {
		b.add(j-i, nil, 0)
	}
}

// addAll says that the next n bytes are a whole text with provenance p.
func (b *provBuilder) addAll(p *prov, n int) {
	if p != nil && len(p.segs) == 1 {
		b.add(n, p.segs[0].src, p.segs[0].off)
		return
	}
	b.addSlice(p, 0, n)
}

// prov returns a copy of what was collected; nil if all of it is template text.
func (b *provBuilder) prov() *prov {
	switch {
	case len(b.segs) == 0 || len(b.segs) == 1 && b.segs[0].src == nil:
		return nil
	case len(b.segs) == 1: // one allocation for the most common case
		one := &struct {
			prov
			seg [1]seg
		}{seg: [1]seg{b.segs[0]}}
		one.segs = one.seg[:]
		return &one.prov
	}
	return &prov{segs: append(make([]seg, 0, len(b.segs)), b.segs...)}
}

// builder puts a text together with its provenance.
type builder struct {
	b []byte
	p provBuilder
}

func (b *builder) write(s string, p *prov) {
	b.b = append(b.b, s...)
	b.p.addAll(p, len(s))
}

func (b *builder) writeSlice(s string, p *prov, i, j int) {
	b.b = append(b.b, s[i:j]...)
	b.p.addSlice(p, i, j)
}

// writeFrom appends s, all of which stands for byte i of a text with provenance p.
func (b *builder) writeFrom(s []byte, p *prov, i int) {
	b.b = append(b.b, s...)
	src, off := p.at(i)
	b.p.add(len(s), src, off)
}

func (b *builder) value() val { return str(string(b.b), b.p.prov()) }

func (b *builder) reset() {
	b.b, b.p.segs, b.p.n = b.b[:0], b.p.segs[:0], 0
}

// marker turns the calls of a pyvalue printer into segs. text must be the bytes appended from base on.
type marker struct {
	p    *provBuilder
	base int // where in the printer's buffer the text starts

	open bool
	v    val
	src  int // byte of v's text the pending bytes come from, -1 for punctuation
	dst  int
	st   *state
}

func (m *marker) mark(v val, src, dst int) {
	m.st.room(dst - m.base)
	m.flush(dst, v, src)
	m.open, m.v, m.src, m.dst = true, v, src, dst
}

// flush accounts for the bytes since the last mark; next and nextSrc are the leaf and place of the mark that follows.
func (m *marker) flush(dst int, next val, nextSrc int) {
	n := dst - m.dst
	if !m.open || n <= 0 {
		return
	}
	switch m.v.Kind() {
	case pyvalue.KindList, pyvalue.KindTuple, pyvalue.KindDict:
		src, _ := m.v.Tag().(*source)
		m.p.add(n, src, 0)
		return
	}
	p := provOf(m.v)
	if m.v.Kind() == pyvalue.KindStr && m.src >= 0 && next.Kind() == pyvalue.KindStr && nextSrc-m.src == n && next.Text() == m.v.Text() {
		m.p.addSlice(p, m.src, m.src+n)
		return
	}
	src, off := p.at(max(m.src, 0))
	if m.v.Kind() != pyvalue.KindStr {
		off = 0
	}
	m.p.add(n, src, off)
}
