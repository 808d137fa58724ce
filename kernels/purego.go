package kernels

import (
	"math"
	"unsafe"
)

// The portable tiles perform the same steps as the assembly, one entry at a time, in float64.

func pureTiles() *tileSet {
	p := &tileSet{name: "purego", float64s: true, finish: pureFinish, totals: pureTotals}
	for _, d := range []DType{Float32, BFloat16, Float16} {
		p.max[d] = func(a *tileArgs) { pureMax(a, d) }
		p.sum[d] = func(a *tileArgs) { pureSum(a, d) }
		p.jsd[d] = func(a *tileArgs) { pureJSD(a, d) }
		p.grad[d] = func(a *tileArgs) { pureGrad(a, d) }
		p.keep[d] = func(a *tileArgs) { pureKeep(a, d) }
		p.exact[d] = func(a *tileArgs) { pureExact(a, d) }
	}
	return p
}

// decode widens n entries into buf; float32 entries are used in place.
func decode(p unsafe.Pointer, d DType, n int, buf *[tile]float32) []float32 {
	switch d {
	case Float32:
		return unsafe.Slice((*float32)(p), n)
	case BFloat16:
		for i, u := range unsafe.Slice((*uint16)(p), n) {
			buf[i] = math.Float32frombits(uint32(u) << 16)
		}
	default:
		for i, u := range unsafe.Slice((*uint16)(p), n) {
			buf[i] = float16ToFloat32(u)
		}
	}
	return buf[:n]
}

// exp2 returns 2^y for y <= 1000, with a relative error below 1e-13. It returns NaN for NaN, and 0 for y < -1000.
func exp2(y float64) float64 {
	if !(y >= -1000) {
		if y != y {
			return y
		}
		return 0
	}
	const magic = 3 << 51
	z := y + magic
	f := y - (z - magic)
	p := 1.0205905413765595e-07*f + 1.325964524488711e-06
	p = p*f + 1.5252672924850737e-05
	p = p*f + 0.0001540343375125101
	p = p*f + 0.0013333558200794592
	p = p*f + 0.009618129193934313
	p = p*f + 0.05550410866465167
	p = p*f + 0.2402265069564034
	p = p*f + 0.6931471805599462
	p = p*f + 1.0
	return p * math.Float64frombits((math.Float64bits(z)+1023)<<52)
}

func pureMax(a *tileArgs, d DType) {
	m := math.Inf(-1)
	for _, x := range decode(a.s, d, a.n, &a.wide[0]) {
		if v := float64(x); v > m {
			m = v
		}
	}
	a.max = float32(m)
}

func pureSum(a *tileArgs, d DType) {
	k, ref := a.dk, a.dref
	sum := 0.0
	for _, x := range decode(a.s, d, a.n, &a.wide[0]) {
		y := float64(x)*k - ref
		if y > 1000 {
			y = 1000
		}
		sum += exp2(y)
	}
	a.sum = sum
}

func pureKeep(a *tileArgs, d DType) {
	k, ref := a.dk, a.dref
	kept, sum := unsafe.Slice((*float32)(a.kept), a.n), 0.0
	for i, x := range decode(a.s, d, a.n, &a.wide[0]) {
		y := float64(x)*k - ref
		if y > 127 {
			y = 127
		}
		e := float32(exp2(y))
		kept[i] = e
		sum += float64(e)
	}
	a.sum = sum
}

func pureExact(a *tileArgs, d DType) {
	kept, sum := unsafe.Slice((*float32)(a.kept), a.n), 0.0
	for i, x := range decode(a.s, d, a.n, &a.wide[0]) {
		e := math.Exp2(float64(x)*a.dk - a.dref)
		kept[i] = float32(e)
		sum += e
	}
	a.sum = sum
}

// segment returns the index of the pieces for D and the argument of their polynomials.
func segment(d float64) (int, float64) {
	const end, far, magic = segments/2 - 1.0/64, 1e30, 3 << 51
	if !(d > -far) { // also true of NaN, from -Inf - -Inf; any finite value will do, because the weight is 0
		d = -far
	} else if d > far {
		d = far
	}
	c := d
	if c < -end {
		c = -end
	} else if c > end {
		c = end
	}
	// Pieces are centred in their segments, except the two that touch 0.
	i := int(c + segments) // c+segments > 0, so truncation is floor
	centre := float64(i-segments) + 0.5
	if i == segments || i == segments-1 {
		centre = 0
	}
	return i & (segments - 1), d - centre
}

// at evaluates the piece's polynomial at f.
func (p *piece) at(f float64) float64 {
	c := &p.c
	return ((((((((c[8]*f+c[7])*f+c[6])*f+c[5])*f+c[4])*f+c[3])*f+c[2])*f + c[1]) * f) + c[0]
}

func pureJSD(a *tileArgs, d DType) {
	ts := decode(a.t, d, a.n, &a.wide[1])
	rs, rt, k, nls, nlt, hk, hd, tab := float64(a.rs), float64(a.rt), a.dk, a.dnls, a.dnlt, a.dhk, a.dhd, a.table
	sum, far := 0.0, 0.0
	for i, x := range decode(a.s, d, a.n, &a.wide[0]) {
		s, t := float64(x)-rs, float64(ts[i])-rt
		odds := (t-s)*hk + hd
		if m := math.Abs(odds); m > far {
			far = m
		}
		hi := s*k + nls
		if y := t*k + nlt; y > hi {
			hi = y
		}
		at, f := segment(odds)
		sum += tab.pieces[at].at(f) * exp2(hi)
	}
	a.sum, a.max = sum, float32(far)
}

func pureGrad(a *tileArgs, d DType) {
	ts := decode(a.t, d, a.n, &a.wide[1])
	g := unsafe.Slice((*float32)(a.g), a.n)
	qs, ps := unsafe.Slice((*float32)(a.kept), a.n), unsafe.Slice((*float32)(a.keptT), a.n)
	rs, rt, hk, hd, tab, ratio := float64(a.rs), float64(a.rt), a.dhk, a.dhd, a.table, float64(a.ratio)
	overLarger := a.teacher != 0
	sum, sumG, far := 0.0, 0.0, 0.0
	a.clipped = 0
	for i, x := range decode(a.s, d, a.n, &a.wide[0]) {
		odds := ((float64(ts[i])-rt)-(float64(x)-rs))*hk + hd
		if m := math.Abs(odds); m > far {
			far = m
		}
		q := float64(qs[i]) * ratio
		larger := max(q, float64(ps[i]))
		if overLarger {
			q = larger
		}
		at, f := segment(odds)
		l, free := tab.pieces[at].at(f)*larger, tab.rates[at].at(f)*q
		if l > a.dclip {
			l, free = a.dclip, 0
			a.clipped++
		}
		sum += l
		sumG += free
		g[i] = float32(free)
	}
	a.sum, a.sumG, a.max = sum, sumG, float32(far)
}

func pureFinish(a *tileArgs) {
	g, out, kept := unsafe.Slice((*float32)(a.g), a.n), unsafe.Slice((*float32)(a.out), a.n),
		unsafe.Slice((*float32)(a.kept), a.n)
	qk, gk, top := a.dqk, a.dgk, 0.0
	for i, q := range kept {
		v := (float64(g[i]) + float64(q)*qk) * gk
		out[i] = float32(v)
		if m := math.Abs(v); m > top {
			top = m
		}
	}
	a.max = float32(top)
}

// pureTotals adds up both sides' float32 values, each in eight independent chains.
func pureTotals(a *tileArgs) {
	total := func(p unsafe.Pointer) float64 {
		var sums [8]float64
		for x := unsafe.Slice((*float32)(p), a.n); len(x) > 0; x = x[8:] {
			for c, y := range (*[8]float32)(x) {
				sums[c] += float64(y)
			}
		}
		return (sums[0] + sums[1] + sums[2] + sums[3]) + (sums[4] + sums[5] + sums[6] + sums[7])
	}
	a.sum, a.sumG = total(a.s), total(a.t)
}
