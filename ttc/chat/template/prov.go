package template

import (
	"sort"
	"strconv"
	"strings"
	"unsafe"

	"github.com/nat-go/nat-go/ttc/internal/pytext"
	"github.com/nat-go/nat-go/ttc/pyvalue"
)

// Source identifies the message field (or tool definition) that text comes from.
type Source struct {
	Message int    // index of the message, or FromTools
	Field   string // "content", "content[0].text", "tool_calls[0].function.arguments.city"
}

// FromTools is Source.Message for text that comes from the tool definitions.
const FromTools = -2

// prov is the provenance of a text, as spans like a Result's. It is stored in the value's tag. A nil prov
// means template text. A leaf that isn't a text, such as a number or None, has a single empty span, whose Source is
// used for any text printed for the value.
type prov struct {
	pyvalue.Tag
	spans   []Span
	markup  bool // the text is a Markup object, which is HTML-safe
	escapes bool // some span is quoted
}

// rawProv returns v's provenance, which may contain quoted spans; use it to copy whole strings.
func rawProv(v val) *prov {
	if t := v.LeafTag(); t != nil {
		p, _ := t.Of.(*prov)
		return p
	}
	return nil
}

// provOf returns v's provenance without quoted spans, so that every part of the text can be located.
func provOf(v val) *prov {
	p := rawProv(v)
	if p == nil || !p.escapes {
		return p
	}
	var b provBuilder
	for i := range p.spans {
		s := &p.spans[i]
		b.n = s.Start
		if s.Mode == Quoted {
			b.unquote(v.Text()[s.Start:s.End], s.Source, s.Offset)
		} else {
			b.add(s.End-s.Start, s.Source, s.Offset, s.Mode)
		}
	}
	return &prov{spans: b.spans, markup: p.markup}
}

// ClassName returns the class name that repr shows around a text: "Markup" for a Markup, otherwise "".
func (p *prov) ClassName() string {
	if p != nil && p.markup {
		return "Markup"
	}
	return ""
}

func isMarkup(v val) bool {
	p := rawProv(v)
	return p != nil && p.markup
}

// asTag returns p as a value's tag. Concurrent renders share the provenances of their input. This is safe, because
// asTag has already been called on them, and writes to a provenance only once.
func (p *prov) asTag() *pyvalue.Tag {
	if p.Of == nil {
		p.Of = p
	}
	return &p.Tag
}

// str returns a str value.
func str(s string, p *prov) val {
	if p == nil {
		return pyvalue.Str(s)
	}
	return pyvalue.TaggedStr(s, p.asTag())
}

// plainProv returns p without the Markup flag.
func plainProv(p *prov) *prov {
	if p == nil || !p.markup {
		return p
	}
	if p.spans == nil {
		return nil
	}
	return &prov{spans: p.spans, escapes: p.escapes}
}

// markupProv returns p with the Markup flag.
func markupProv(p *prov) *prov {
	if p == nil {
		return &prov{markup: true}
	}
	return &prov{spans: p.spans, escapes: p.escapes, markup: true}
}

// at returns the source of byte i of the text. For byte 0 of an empty text, such as a number's, it returns the value's
// own source.
func (p *prov) at(i int) (*Source, int) {
	if p == nil || len(p.spans) == 0 {
		return nil, 0
	}
	k := 0
	if i > 0 {
		k = min(p.find(i), len(p.spans)-1)
	}
	s := &p.spans[k]
	switch {
	case i < s.Start || i >= s.End && s.End > 0:
		return nil, 0
	case s.Mode == Flat:
		return s.Source, s.Offset
	}
	return s.Source, s.Offset + i - s.Start
}

// find returns the index of the span that contains byte i, or of the next span.
func (p *prov) find(i int) int {
	return sort.Search(len(p.spans), func(k int) bool { return p.spans[k].End > i })
}

// provBuilder collects the spans of a text under construction.
type provBuilder struct {
	spans   []Span
	n       int // length of the text so far
	escapes bool
}

// add records that the next n bytes come from src, starting at byte off; a nil src means the template.
func (b *provBuilder) add(n int, src *Source, off int, m Mode) {
	start := b.n
	b.n += n
	if n == 0 || src == nil {
		return
	}
	if m == Quoted {
		b.escapes = true
	} else if k := len(b.spans) - 1; k >= 0 {
		last := &b.spans[k]
		if last.Source == src && last.End == start && last.Mode == m {
			to := last.Offset
			if m == Linear {
				to += start - last.Start
			}
			if to == off {
				last.End = b.n
				return
			}
		}
	}
	b.spans = append(b.spans, Span{})
	// assign field by field, because copying a whole Span from a temporary would stall
	s := &b.spans[len(b.spans)-1]
	s.Start, s.End, s.Source, s.Offset, s.Mode = start, b.n, src, off, m
}

// addSlice records that the next bytes are bytes i to j of a text with provenance p. A quoted
// span must lie completely inside or outside that range.
func (b *provBuilder) addSlice(p *prov, i, j int) {
	end := b.n + j - i
	if p != nil {
		k := 0
		if i > 0 {
			k = p.find(i)
		}
		for ; k < len(p.spans) && p.spans[k].Start < j; k++ {
			s := &p.spans[k]
			from, off := max(s.Start, i), s.Offset
			if s.Mode == Linear {
				off += from - s.Start
			}
			b.n = end - j + from
			b.add(min(s.End, j)-from, s.Source, off, s.Mode)
		}
	}
	b.n = end
}

// unquote records that the next bytes are s, which is src's text starting at byte off, escaped and in quotes.
func (b *provBuilder) unquote(s string, src *Source, off int) {
	eachEscape(s, func(out, in int) {
		if out == in && in > 0 {
			b.add(out, src, off, Linear)
		} else {
			b.add(out, src, off, Flat)
		}
		off += in
	})
}

// eachEscape walks a quoted string, calling f for each plain run, escape and quote. The first argument of f is the
// length of that part in s, and the second is the length of the text that it encodes, both in bytes.
func eachEscape(s string, f func(out, in int)) {
	f(1, 0)
	for i := 1; i < len(s)-1; {
		rest := s[i : len(s)-1]
		text, _, _ := strings.Cut(rest, `\`)
		out, in := len(text), len(text)
		if text == "" {
			out, in = escapeAt(rest)
		}
		f(out, in)
		i += out
	}
	if len(s) > 1 {
		f(1, 0)
	}
}

// escapeAt returns the length of the escape at the start of s, and of the UTF-8 it encodes.
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
	if r >= 0xd800 && r < 0xdc00 && len(s) >= 12 && s[6] == '\\' && s[7] == 'u' && (s[8] == 'd' || s[8] == 'D') &&
		s[9] > 'b' {
		return 12, 4
	}
	return 2 + digits, len(pytext.AppendRune(nil, rune(r)))
}

// newSingle returns a prov with a single span, in one allocation.
func newSingle(s Span) *prov {
	one := &struct {
		prov
		span [1]Span
	}{span: [1]Span{s}}
	one.spans = one.span[:]
	return &one.prov
}

// builder assembles a string along with its provenance.
type builder struct {
	b []byte
	p provBuilder
}

// write appends a whole text.
func (b *builder) write(s string, p *prov) {
	b.b = append(b.b, s...)
	switch {
	case p == nil:
		b.p.n += len(s)
	case len(p.spans) == 1 && p.spans[0].End == len(s) && p.spans[0].Start == 0: // one span covers the text
		one := &p.spans[0]
		b.p.add(len(s), one.Source, one.Offset, one.Mode)
	default:
		b.p.addSlice(p, 0, len(s))
	}
}

func (b *builder) writeSlice(s string, p *prov, i, j int) {
	b.b = append(b.b, s[i:j]...)
	b.p.addSlice(p, i, j)
}

// writeFrom appends s, all of which is derived from byte i of a text with provenance p.
func (b *builder) writeFrom(s []byte, p *prov, i int) {
	b.b = append(b.b, s...)
	src, off := p.at(i)
	b.p.add(len(s), src, off, Flat)
}

// size returns the size of b's text and spans, in bytes.
func (b *builder) size() int { return len(b.b) + spanSize*len(b.p.spans) }

// spanSize is the size of a span, in bytes.
const spanSize = int(unsafe.Sizeof(Span{}))

// reset empties b and drops its references to sources.
func (b *builder) reset() {
	clear(b.p.spans)
	b.b, b.p.spans, b.p.n, b.p.escapes = b.b[:0], b.p.spans[:0], 0, false
}

// marker turns a pyvalue printer's calls into spans. A text assembled from several sources that is printed inside
// a container is attributed as a whole to the source of its first byte, because the printed bytes cannot be mapped
// to the sources.
type marker struct {
	b     *builder
	st    *state
	base  int // where the text starts in the printer's buffer
	spans int // number of spans before the text

	at   int // start of the printer's output that comes from src
	src  *Source
	off  int
	mode Mode
}

// mark is called when the output starting at dst comes from v.
func (m *marker) mark(v val, dst int) {
	m.st.step()
	m.st.checkRoom(dst - m.base + spanSize*(len(m.b.p.spans)-m.spans))
	src, off, mode := origin(&v)
	if mode == Flat && m.mode == Flat && src == m.src && off == m.off {
		return // an object's braces, keys and commas form one run
	}
	m.b.p.add(dst-m.at, m.src, m.off, m.mode)
	m.at, m.src, m.off, m.mode = dst, src, off, mode
}

// origin returns the source of a printed value, with its offset and mode.
func origin(v *val) (src *Source, off int, mode Mode) {
	switch v.Kind() {
	case pyvalue.KindList, pyvalue.KindTuple, pyvalue.KindDict:
		src, _ = v.Tag().(*Source)
		return src, 0, Flat
	}
	p := rawProv(*v)
	if p == nil || len(p.spans) == 0 {
		return nil, 0, Flat
	}
	s := &p.spans[0]
	if mode = Flat; s.Start == 0 {
		src, off = s.Source, s.Offset
	}
	if v.Kind() == pyvalue.KindStr && len(p.spans) == 1 && s.Mode == Linear && s.End == len(v.Text()) && !p.markup {
		mode = Quoted
	}
	return src, off, mode
}

// end adds the span of the remaining output, which ends at byte dst.
func (m *marker) end(dst int) { m.b.p.add(dst-m.at, m.src, m.off, m.mode) }
