package template

import "unsafe"

// arena holds the texts and provenances that a render makes on its way. None outlives the render - a Result has copies - so
// the next render takes the same room again, and they cost the garbage collector nothing.
type arena struct {
	text  []byte
	provs []singleProv
	mine  int // how many of provs are taken
}

// singleProv is a prov of one seg.
type singleProv struct {
	prov
	seg [1]seg
}

const (
	textChunk = 64 << 10
	provChunk = 256
)

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
	return unsafe.String(&a.text[n], len(b)) // these bytes are not written again before reset
}

// single is a provenance of one seg.
func (a *arena) single(s seg, escapes bool) *prov {
	if a.mine == len(a.provs) {
		a.provs, a.mine = make([]singleProv, provChunk), 0
	}
	p := &a.provs[a.mine]
	a.mine++
	p.seg[0] = s
	p.prov = prov{segs: p.seg[:], escapes: escapes}
	return &p.prov
}

// reset takes everything back. Nothing that came from the arena may be used any more.
func (a *arena) reset() {
	a.text = a.text[:0]
	clear(a.provs[:a.mine])
	a.mine = 0
}

// value is what b holds.
func (a *arena) value(b *builder) val {
	segs := b.p.segs
	if len(segs) == 1 && segs[0].src != nil {
		return str(a.string(b.b), a.single(segs[0], b.p.escapes))
	}
	return str(a.string(b.b), b.p.prov())
}

// cut is bytes i to j of v; what is cut from a Markup is one.
func (a *arena) cut(v val, i, j int) val {
	p := rawProv(v)
	if p == nil {
		return str(v.Text()[i:j], nil)
	}
	if len(p.segs) == 1 && !p.escapes && !p.markup && i < j {
		if s := p.segs[0]; int(s.end) == len(v.Text()) && s.src != nil {
			if s.mode == linear {
				s.off += int32(i)
			}
			s.end = int32(j - i)
			return str(v.Text()[i:j], a.single(s, false))
		}
	}
	return cut(v, i, j)
}
