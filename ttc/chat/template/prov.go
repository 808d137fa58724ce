package template

import (
	"sort"
	"strconv"

	"github.com/nat-go/nat-go/ttc/pyvalue"
)

// Source is a field of a message (or a tool definition) that text comes from.
type Source struct {
	Message int    // index of the message, or FromTools
	Field   string // "content", "content[0].text", "tool_calls[0].function.arguments.city"
}

// FromTools is Source.Message for text that comes from the tool definitions.
const FromTools = -2

// seg says where the bytes of a text up to end (from the end of the seg before) come from; a nil src is the template.
type seg struct {
	end, off int32
	src      *Source
	mode     mode
}

// mode is how the bytes of a seg follow from those of its source.
type mode uint8

const (
	linear mode = iota // one for one from byte off on
	flat               // all stand for byte off
	quoted             // the source's text from byte off on, with escapes and between quotes, as JSON and repr write it
)

// prov is the provenance of a text, carried as the tag of a value. A nil prov is template text. On numbers, None and the
// like it has one seg, whose end means nothing: whatever is printed of the value comes from there.
type prov struct {
	pyvalue.Tag
	segs    []seg
	markup  bool // the text is a Markup object: HTML-safe
	escapes bool // some seg is quoted
}

// rawProv is the provenance of v, in which segs may be quoted; to copy whole texts.
func rawProv(v val) *prov {
	p, _ := v.Tag().(*prov)
	return p
}

// provOf is the provenance of v, in which no seg is quoted: every part of the text can be told apart.
func provOf(v val) *prov {
	p := rawProv(v)
	if p == nil || !p.escapes {
		return p
	}
	var b provBuilder
	start := 0
	for _, s := range p.segs {
		if s.mode == quoted {
			b.unquote(v.Text()[start:s.end], s.src, s.off)
		} else {
			b.add(int(s.end)-start, s.src, s.off, s.mode)
		}
		start = int(s.end)
	}
	out := b.prov()
	if p.markup {
		out = markupProv(out)
	}
	return out
}

// ClassName makes the repr of a Markup say so.
func (p *prov) ClassName() string {
	if p != nil && p.markup {
		return "Markup"
	}
	return ""
}

func isMarkup(v val) bool {
	if v.Kind() != pyvalue.KindStr {
		return false
	}
	p := rawProv(v)
	return p != nil && p.markup
}

// asTag is p as values carry it. Provenances of what is rendered are shared by renders, and not written to: they have been
// through here.
func (p *prov) asTag() *pyvalue.Tag {
	if p.Of == nil {
		p.Of = p
	}
	return &p.Tag
}

// str makes a str value.
func str(s string, p *prov) val {
	if p == nil {
		return pyvalue.Str(s)
	}
	return pyvalue.TaggedStr(s, p.asTag())
}

// plainProv is p without the Markup flag.
func plainProv(p *prov) *prov {
	if p == nil || !p.markup {
		return p
	}
	if p.segs == nil {
		return nil
	}
	return &prov{segs: p.segs, escapes: p.escapes}
}

// markupProv is p with the Markup flag.
func markupProv(p *prov) *prov {
	if p == nil {
		return &prov{markup: true}
	}
	return &prov{segs: p.segs, escapes: p.escapes, markup: true}
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
func (p *prov) at(i int) (*Source, int32) {
	if p == nil || len(p.segs) == 0 {
		return nil, 0
	}
	n := min(p.find(i), len(p.segs)-1)
	s := p.segs[n]
	if s.src == nil || s.mode == flat {
		return s.src, s.off
	}
	return s.src, s.off + max(0, min(int32(i), s.end)-p.start(n))
}

// find is the index of the seg that holds byte i.
func (p *prov) find(i int) int {
	return sort.Search(len(p.segs), func(k int) bool { return int(p.segs[k].end) > i })
}

// start is where seg k begins.
func (p *prov) start(k int) int32 {
	if k == 0 {
		return 0
	}
	return p.segs[k-1].end
}

// provBuilder collects the segs of a text that is being put together.
type provBuilder struct {
	segs    []seg
	n       int32 // length of the text so far
	escapes bool
}

// add says that the next n bytes come from src, byte off on.
func (b *provBuilder) add(n int, src *Source, off int32, m mode) {
	if n == 0 {
		return
	}
	start := b.n
	b.n += int32(n)
	if m == quoted {
		b.escapes = true
	} else if k := len(b.segs) - 1; k >= 0 && b.segs[k].src == src {
		last := &b.segs[k]
		follows := last.mode == m && m == flat && last.off == off
		if last.mode == linear && m == linear {
			first := int32(0)
			if k > 0 {
				first = b.segs[k-1].end
			}
			follows = last.off+(start-first) == off
		}
		if src == nil || follows {
			last.end = b.n
			return
		}
	}
	b.segs = append(b.segs, seg{b.n, off, src, m})
}

// addSlice says that the next bytes are bytes i to j of a text with provenance p, which has no quoted segs.
func (b *provBuilder) addSlice(p *prov, i, j int) {
	if p == nil || len(p.segs) == 0 {
		b.add(j-i, nil, 0, linear)
		return
	}
	k := 0
	if i > 0 {
		k = p.find(i)
	}
	for ; k < len(p.segs) && i < j; k++ {
		s := p.segs[k]
		end := min(int(s.end), j)
		off := s.off
		if s.src != nil && s.mode == linear {
			off += int32(i) - p.start(k)
		}
		b.add(end-i, s.src, off, s.mode)
		i = end
	}
	if i < j {
		b.add(j-i, nil, 0, linear)
	}
}

// addAll says that the next n bytes are a whole text with provenance p.
func (b *provBuilder) addAll(p *prov, n int) {
	if p == nil || len(p.segs) == 0 {
		b.add(n, nil, 0, linear)
		return
	}
	if len(p.segs) == 1 {
		s := &p.segs[0]
		b.add(n, s.src, s.off, s.mode)
		return
	}
	start := int32(0)
	for i := range p.segs {
		s := &p.segs[i]
		b.add(int(s.end-start), s.src, s.off, s.mode)
		start = s.end
	}
	if int(start) < n {
		b.add(n-int(start), nil, 0, linear)
	}
}

// unquote says that the next bytes are s: the text of src from byte off on, escaped and between quotes.
func (b *provBuilder) unquote(s string, src *Source, off int32) {
	eachEscape(s, func(out, in int) {
		if out == in && in > 0 {
			b.add(out, src, off, linear)
		} else {
			b.add(out, src, off, flat)
		}
		off += int32(in)
	})
}

// eachEscape walks a quoted text: runs that stand for themselves, and escapes (and quotes) of out bytes that stand for in
// bytes of the text.
func eachEscape(s string, f func(out, in int)) {
	f(1, 0)
	run := 1
	for i := 1; i < len(s)-1; {
		if s[i] != '\\' {
			i++
			continue
		}
		if run < i {
			f(i-run, i-run)
		}
		out, in := escapeAt(s[i : len(s)-1])
		f(out, in)
		i += out
		run = i
	}
	if run < len(s)-1 {
		f(len(s)-1-run, len(s)-1-run)
	}
	if len(s) > 1 {
		f(1, 0)
	}
}

// escapeAt is the length of the escape s begins with, and of the UTF-8 it stands for.
func escapeAt(s string) (out, in int) {
	digits := 0
	if len(s) > 1 {
		digits = map[byte]int{'x': 2, 'u': 4, 'U': 8}[s[1]]
	}
	if digits == 0 || len(s) < 2+digits {
		return min(2, len(s)), 1
	}
	r, err := strconv.ParseUint(s[2:2+digits], 16, 32)
	if err != nil {
		return 2, 1
	}
	if r >= 0xd800 && r < 0xdc00 && len(s) >= 12 && s[6] == '\\' && s[7] == 'u' && (s[8] == 'd' || s[8] == 'D') && s[9] > 'b' {
		return 12, 4
	}
	return 2 + digits, len(pyvalue.AppendRune(nil, rune(r)))
}

// plain reports whether all that was collected is template text.
func (b *provBuilder) plain() bool {
	return len(b.segs) == 0 || len(b.segs) == 1 && b.segs[0].src == nil
}

// prov returns a copy of what was collected; nil if all of it is template text.
func (b *provBuilder) prov() *prov {
	switch {
	case b.plain():
		return nil
	case len(b.segs) == 1: // one allocation for the most common case
		one := &singleProv{prov: prov{escapes: b.escapes}, seg: [1]seg{b.segs[0]}}
		one.segs = one.seg[:]
		return &one.prov
	}
	return &prov{segs: append(make([]seg, 0, len(b.segs)), b.segs...), escapes: b.escapes}
}

// builder puts a text together with its provenance.
type builder struct {
	b []byte
	p provBuilder
}

// write appends a whole text.
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
	b.p.add(len(s), src, off, flat)
}

func (b *builder) value() val { return str(string(b.b), b.p.prov()) }

// reset empties b, and lets go of the sources.
func (b *builder) reset() {
	clear(b.p.segs)
	b.b, b.p.segs, b.p.n, b.p.escapes = b.b[:0], b.p.segs[:0], 0, false
}

// marker turns the calls of a pyvalue printer into segs. A text inside a container that was itself put together from
// several sources counts as its first one, whole: the printed bytes are not at hand to map each.
type marker struct {
	b    *builder
	st   *state
	base int // where in the printer's buffer the text starts

	open bool
	v    val
	dst  int
}

func (m *marker) mark(v val, dst int) {
	m.st.room(dst - m.base)
	m.flush(dst)
	m.open, m.v, m.dst = true, v, dst
}

// simple reports whether the pending leaf is a text that is a field, whole or from some byte on.
func (m *marker) simple() bool {
	p := rawProv(m.v)
	return p == nil || len(p.segs) == 0 || len(p.segs) == 1 && p.segs[0].mode == linear && !p.markup
}

// flush accounts for the bytes since the last mark.
func (m *marker) flush(dst int) {
	n := dst - m.dst
	if !m.open || n <= 0 {
		return
	}
	switch m.v.Kind() {
	case pyvalue.KindList, pyvalue.KindTuple, pyvalue.KindDict:
		src, _ := m.v.Tag().(*Source)
		m.b.p.add(n, src, 0, flat)
		return
	case pyvalue.KindStr:
		if p := rawProv(m.v); p != nil && len(p.segs) == 1 && m.simple() && p.segs[0].src != nil {
			m.b.p.add(n, p.segs[0].src, p.segs[0].off, quoted)
			return
		}
	}
	src, off := rawProv(m.v).at(0)
	m.b.p.add(n, src, off, flat)
}
