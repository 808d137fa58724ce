package kernels

import (
	"math"
	"unsafe"
)

// The portable tiles: the same steps as the assembly, one entry at a time, in float64.

func pureTiles() *tileSet {
	p := &tileSet{name: "purego", float64s: true, tab: func(*table) unsafe.Pointer { return nil }}
	for _, d := range []DType{Float32, BFloat16, Float16} {
		p.max[d] = func(a *tileArgs) { pureMax(a, d) }
		p.sum[d] = func(a *tileArgs) { pureSum(a, d) }
		p.sumShift[d] = p.sum[d]
		p.jsd[d] = func(a *tileArgs) { pureJSD(a, d) }
		p.grad[d] = func(a *tileArgs) { pureGrad(a, d) }
		p.finish[d] = func(a *tileArgs) { pureFinish(a, d) }
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
			buf[i] = Float16ToFloat32(u)
		}
	}
	return buf[:n]
}

// exp2 is 2^y for y <= 1000, relative error below 1e-13; NaN stays, below -1000 is 0.
func exp2(y float64) float64 {
	if !(y >= -1000) {
		if y != y {
			return y
		}
		return 0
	}
	const magic = 3 << 51
	z := y + magic
	f := (y - (z - magic)) * math.Ln2
	p := 1.0 / 39916800
	p = p*f + 1.0/3628800
	p = p*f + 1.0/362880
	p = p*f + 1.0/40320
	p = p*f + 1.0/5040
	p = p*f + 1.0/720
	p = p*f + 1.0/120
	p = p*f + 1.0/24
	p = p*f + 1.0/6
	p = p*f + 0.5
	p = p*f + 1
	p = p*f + 1
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
	k, r, ref := a.dk, float64(a.rs), a.dref
	sum := 0.0
	for _, x := range decode(a.s, d, a.n, &a.wide[0]) {
		sum += exp2(min((float64(x)-r)*k-ref, 1000))
	}
	a.sum = sum
}

// segment finds the piece of D and the argument of its polynomial.
func (t *table) segment(d float64) (*piece, float64) {
	const end = segments/2 - 1.0/64
	c := d
	switch {
	case !(d > -end): // NaN from -Inf - -Inf too: any finite value serves, the weight is 0
		c = -end
	case d > end:
		c = end
	}
	p := &t.pieces[int(math.Floor(c))&(segments-1)]
	const far = 1e30
	if !(d > -far) {
		d = -far
	} else if d > far {
		d = far
	}
	return p, d - p.centre
}

func pureJSD(a *tileArgs, d DType) {
	ts := decode(a.t, d, a.n, &a.wide[1])
	rs, rt := float64(a.rs), float64(a.rt)
	sum, far := 0.0, 0.0
	for i, x := range decode(a.s, d, a.n, &a.wide[0]) {
		s, t := float64(x)-rs, float64(ts[i])-rt
		odds := (t-s)*a.dhk + a.dhd
		if m := math.Abs(odds); m > far {
			far = m
		}
		p, f := a.table.segment(odds)
		v := p.c[degree]
		for j := degree - 1; j >= 0; j-- {
			v = v*f + p.c[j]
		}
		sum += v * exp2(max(s*a.dk+a.dnls, t*a.dk+a.dnlt))
	}
	a.sum, a.max = sum, float32(far)
}

func pureGrad(a *tileArgs, d DType) {
	ts := decode(a.t, d, a.n, &a.wide[1])
	g := unsafe.Slice((*float32)(a.g), a.n)
	rs, rt := float64(a.rs), float64(a.rt)
	sum, sumG, far := 0.0, 0.0, 0.0
	a.clipped = 0
	for i, x := range decode(a.s, d, a.n, &a.wide[0]) {
		s, t := float64(x)-rs, float64(ts[i])-rt
		odds := (t-s)*a.dhk + a.dhd
		if m := math.Abs(odds); m > far {
			far = m
		}
		p, f := a.table.segment(odds)
		v, dv := p.c[degree], 0.0
		for j := degree - 1; j >= 0; j-- {
			dv = dv*f + v
			v = v*f + p.c[j]
		}
		hi := exp2(max(s*a.dk+a.dnls, t*a.dk+a.dnlt))
		l, free := v*hi, -dv
		if odds < 0 {
			free += v * a.dslope
		}
		free *= hi
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

func pureFinish(a *tileArgs, d DType) {
	g, out := unsafe.Slice((*float32)(a.g), a.n), unsafe.Slice((*float32)(a.out), a.n)
	rs := float64(a.rs)
	top, qmax := 0.0, 0.0
	for i, x := range decode(a.s, d, a.n, &a.wide[0]) {
		q := exp2((float64(x)-rs)*a.dk + a.dnls)
		v := q*a.dqk + float64(g[i])*a.dgk
		out[i] = float32(v)
		top, qmax = max(top, math.Abs(v)), max(qmax, q)
	}
	a.max, a.qmax = float32(top), float32(qmax)
}
