package kernels

import (
	"math"
	"slices"
	"unsafe"
)

// The functions below define every dense loss in float64. Tests compare the fast paths with them, and they compute the
// rows that no tile can. They are written for clarity and accuracy rather than speed.

// glNodes and glWeights are the 6-point Gauss-Legendre rule on [0,1]. On an interval of length 1/4 they integrate, to
// within 1e-20, a function whose nearest singularity is at a distance of pi.
var glNodes, glWeights = gaussLegendre()

func gaussLegendre() (x, w [6]float64) {
	const n = 6
	for i := range n {
		v := math.Cos(math.Pi * (float64(i) + 0.75) / (n + 0.5))
		var d float64
		for range 20 {
			p0, p1 := 1.0, v
			for k := 2; k <= n; k++ {
				p0, p1 = p1, (float64(2*k-1)*v*p1-float64(k-1)*p0)/float64(k)
			}
			d = n * (v*p1 - p0) / (v*v - 1)
			v -= p1 / d
		}
		x[i], w[i] = (v+1)/2, 1/((1-v*v)*d*d)
	}
	return x, w
}

// smallPhi returns phi(d), where l = q*phi(d), for |d| < 1/4. It computes phi as the integral of phi', which does not
// cancel.
func smallPhi(d, beta float64) float64 {
	acc := 0.0
	for i, x := range glNodes {
		u := d * x
		var f float64
		switch beta {
		case 0:
			f = u * math.Exp(u)
		case 1:
			f = math.Expm1(u)
		default:
			f = -beta * math.Exp(u) * math.Log1p((1-beta)*math.Expm1(-u))
		}
		acc += glWeights[i] * f
	}
	return acc * d
}

// entryTerms returns one entry of the loss and its free derivative G = dl/da, from log-probabilities a (student), b
// (teacher) and their accurately computed difference d = b - a. bregman selects, for beta 0 and 1, the summand p d - p
// + q or -q d - q + p, which is never negative and has the same sum as the plain one.
func entryTerms(a, b, d, beta float64, bregman bool) (l, g float64) {
	inf := math.Inf(1)
	noQ, noP := math.IsInf(a, -1), math.IsInf(b, -1)
	if noQ && noP {
		return 0, 0
	}
	q, p := math.Exp(a), math.Exp(b)
	switch {
	case noQ:
		d = inf
	case noP:
		d = -inf
	}
	near := math.Abs(d) < 0.25
	switch beta {
	case 0:
		return forwardTerms(q, p, d, near, bregman)
	case 1:
		return reverseTerms(q, p, d, near, bregman)
	}
	// lm = log M - a, h = b - log M
	var lm, h float64
	switch {
	case noP:
		lm = math.Log1p(-beta)
	case noQ:
		h = -math.Log(beta)
	case d <= 0:
		lm = math.Log1p(beta * math.Expm1(d))
		h = d - lm // this doesn't cancel unless d is small, in which case l comes from smallPhi
	default:
		h = -math.Log1p((1 - beta) * math.Expm1(-d))
		lm = d - h
	}
	if !noQ {
		g = -(1 - beta) * q * lm
	}
	switch {
	case near:
		l = q * smallPhi(d, beta)
	default:
		if !noP {
			l = beta * p * h
		}
		l += g
	}
	return l, g
}

// forwardTerms is like entryTerms, for beta 0, which gives KL(p||q). near is set if d is small.
func forwardTerms(q, p, d float64, near, bregman bool) (l, g float64) {
	if p > 0 { // log p is neither -Inf nor so low that p underflows to 0
		l = p * d
	}
	g = -p
	if bregman {
		switch {
		case near:
			l, g = q*smallPhi(d, 0), -q*math.Expm1(d)
		default:
			l, g = l-p+q, q-p
		}
	}
	return l, g
}

// reverseTerms is like entryTerms, for beta 1, which gives KL(q||p). near is set if d is small.
func reverseTerms(q, p, d float64, near, bregman bool) (l, g float64) {
	if q == 0 {
		if bregman {
			return p, 0
		}
		return 0, 0
	}
	l, g = -q*d, q*(1-d)
	if bregman {
		g = -q * d
		if near {
			l = q * smallPhi(d, 1)
		} else {
			l = l - q + p
		}
	}
	return l, g
}

// refRow holds the softmax statistics of one row over n entries: the maximum m of x/T and s = log sum exp(x/T - m).
// They are kept separate, because m may be 3e38.
type refRow struct {
	p      unsafe.Pointer
	dtype  DType
	n      int
	tau    float64
	m, s   float64
	finite bool
}

func newRefRow(p unsafe.Pointer, dtype DType, n int, tau float64) refRow {
	r := refRow{p: p, dtype: dtype, n: n, tau: tau, m: math.Inf(-1)}
	for i := range n {
		x := load(p, dtype, i)
		if x != x {
			r.m = x
			break
		}
		r.m = max(r.m, x/tau)
	}
	if math.IsNaN(r.m) || math.IsInf(r.m, 0) {
		r.s = math.NaN()
		return r
	}
	r.finite = true
	sum := 0.0
	for i := range n {
		sum += math.Exp(r.y(i))
	}
	r.s = math.Log(sum)
	return r
}

// y returns x/T - m for entry i.
func (r *refRow) y(i int) float64 { return load(r.p, r.dtype, i)/r.tau - r.m }

func (r *refRow) lse() float64 { return r.m + r.s }

// rowResult is a row's result before weight and denominator.
type rowResult struct {
	loss       float64
	lseZ, lseT float64
	clipped    int
	exact      bool // took the float64 path
	// massClamped reports whether a sparse row's teacher probabilities summed to more than 1, with RestBucket.
	massClamped bool
}

// refJSD is the definition of the dense row loss. If put is not nil, it receives every entry of the gradient dL/dz.
func (o *Options) refJSD(s, t unsafe.Pointer, ds, dt DType, n int, put func(i int, g float64)) rowResult {
	z, w := newRefRow(s, ds, n, o.Temperature), newRefRow(t, dt, n, o.Temperature)
	res := rowResult{lseZ: z.lse(), lseT: w.lse()}
	if put == nil {
		put = func(int, float64) {}
	}
	if !z.finite || !w.finite {
		res.loss = math.NaN()
		for i := range n {
			put(i, math.NaN())
		}
		return res
	}
	x := refPair{o: o, z: &z, w: &w}
	x.choosePivot(n)
	var sumG float64
	for i := range n {
		a, l, g, cut := x.term(i)
		res.loss += l
		sumG += x.pivot(i, a, g)
		if cut {
			res.clipped++
		}
	}
	if o.Clip == ClipElement && res.clipped == 0 {
		// Nothing was clipped: the Bregman summands give the same sum without cancelling.
		res.loss = 0
		for i := range n {
			_, l, _ := x.plainTerm(i, true)
			res.loss += l
		}
	}
	flat := o.clipToken(&res)
	res.loss *= o.normFactor()
	for i := range n {
		switch {
		case math.IsInf(res.loss, 1):
			put(i, math.NaN())
		case flat:
			put(i, 0)
		default:
			a, _, g, _ := x.term(i)
			put(i, (x.pivot(i, a, g)-math.Exp(a)*sumG)*o.normFactor()/o.Temperature)
		}
	}
	return res
}

// refPair is a row of both sides. The gradient G_j - q_j sum G cancels if one entry, top, holds nearly all of q.
// Subtracting c*q_j from every G_j, where c is G/q of that entry, doesn't change the gradient, and makes that entry's
// own G exactly 0.
type refPair struct {
	o    *Options
	z, w *refRow // student, teacher
	top  int
	c    float64
}

func (x *refPair) choosePivot(n int) {
	best := math.Inf(-1)
	for i := range n {
		if y := x.z.y(i); y > best {
			x.top, best = i, y
		}
	}
	a, _, g, _ := x.term(x.top)
	x.c = g / math.Exp(a)
}

func (x *refPair) pivot(i int, a, g float64) float64 {
	if i == x.top {
		return 0
	}
	return g - float64(x.c*math.Exp(a)) // not fused, because equal entries must cancel
}

// term returns an entry's log-probability for the student, its loss and the loss's free derivative; cut reports whether
// it is clipped.
func (x *refPair) term(i int) (a, l, g float64, cut bool) {
	a, l, g = x.plainTerm(i, x.o.Clip != ClipElement)
	if x.o.clipsElements() && l > x.o.ClipValue {
		return a, x.o.ClipValue, 0, true
	}
	return a, l, g, false
}

// plainTerm is like term, but without clipping.
func (x *refPair) plainTerm(i int, bregman bool) (a, l, g float64) {
	yz, yt := x.z.y(i), x.w.y(i)
	a = yz - x.z.s
	l, g = entryTerms(a, yt-x.w.s, (yt-yz)-(x.w.s-x.z.s), x.o.Beta, bregman)
	return a, l, g
}

// ReferenceJSD returns the float64 loss of one row. If grad is not nil, it receives the gradient with respect to the
// student's logits. Tests compare the fast paths with this definition. It doesn't validate its input.
func ReferenceJSD(student, teacher []float64, o Options, grad []float64) float64 {
	if len(student) == 0 {
		return 0
	}
	var put func(int, float64)
	if grad != nil {
		put = func(i int, g float64) { grad[i] = g }
	}
	return o.refJSD(unsafe.Pointer(&student[0]), unsafe.Pointer(&teacher[0]), float64s, float64s, len(student),
		put).loss
}

// complement returns the log-mass of a row outside ids, which may be in any order.
func (r *refRow) complement(ids []int32) float64 {
	sorted := slices.Clone(ids)
	slices.Sort(sorted)
	m := math.Inf(-1)
	each := func(f func(y float64)) {
		next := 0
		for i := range r.n {
			if next < len(sorted) && int(sorted[next]) == i {
				next++
				continue
			}
			f(r.y(i))
		}
	}
	each(func(y float64) { m = max(m, y) })
	if math.IsInf(m, -1) {
		return m
	}
	s := 0.0
	each(func(y float64) { s += math.Exp(y - m) })
	return m + math.Log(s) - r.s
}
