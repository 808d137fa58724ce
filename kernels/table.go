package kernels

import (
	"math"
	"math/bits"
)

// segments is the number of pieces of a table, and degree is the degree of their polynomials.
const (
	segments = 32
	degree   = 8
)

// psi is a loss entry divided by the larger of the two probabilities, in log2 units, as a function of the log-odds D2 =
// log2 p - log2 q. The entry is 2^max(log2 p, log2 q) * psi(D2). For beta 0 and 1 it is the Bregman summand. psi and
// its derivative are 0 at D2 = 0. psi is never negative, constant for large |D2| if beta is inside (0,1), and at most
// linear at the ends.
func psi(d2, beta float64) float64 {
	d := d2 * math.Ln2
	a, b := 0.0, d
	if d > 0 {
		a, b = -d, 0
	}
	l, _ := entryTerms(a, b, d, beta, true)
	return l / math.Ln2
}

// piece is one segment of a table: psi(D*h) = sum c[i] (D-centre)^i.
type piece struct {
	centre float64
	c      [degree + 1]float64
}

// psiSlope returns the derivative of psi. An entry l(a, b) of the log-probabilities grows by a factor of e^c if both
// grow by c. psi is l where the larger of a and b is 0, and dl/da gives the slope on either side.
func psiSlope(d2, beta float64) float64 {
	d := d2 * math.Ln2
	if d > 0 {
		_, g := entryTerms(-d, 0, d, beta, true)
		return -g
	}
	l, g := entryTerms(0, d, d, beta, true)
	return l - g
}

// fitPiece fits a polynomial of degree deg to psi on [lo,hi]: it interpolates the slope at Chebyshev nodes and
// integrates. A segment that touches 0 is expanded about 0 with the first two coefficients exactly 0, since slope(D) =
// D h(D).
func fitPiece(f, slope func(float64) float64, lo, hi float64, deg int) piece {
	if lo == 0 || hi == 0 {
		return interpolate(slope, lo, hi, deg-1, true).integral(0)
	}
	p := interpolate(slope, lo, hi, deg-1, false)
	return p.integral(f(p.centre))
}

// interpolate fits a polynomial of degree deg to f on [lo,hi] at Chebyshev nodes. If zero is set, it expands f about 0,
// with the first coefficient exactly 0.
func interpolate(f func(float64) float64, lo, hi float64, deg int, zero bool) piece {
	fit, first := deg, 0
	if zero {
		fit, first = deg-1, 1
	}
	mono := monomials(chebyshev(f, lo, hi, fit, zero), fit)
	// mono is a polynomial in w = scale*(D-centre) + shift.
	p := piece{centre: (lo + hi) / 2}
	scale, shift := 2/(hi-lo), 0.0
	if zero {
		p.centre, shift = 0, -(lo+hi)/(hi-lo)
	}
	var q polynomial // Horner's method, with polynomials in D-centre instead of numbers
	for j := fit; j >= 0; j-- {
		var r polynomial
		for i := range r {
			r[i] = q[i] * shift
			if i > 0 {
				r[i] += q[i-1] * scale
			}
		}
		r[0] += mono[j]
		q = r
	}
	copy(p.c[first:], q[:fit+1])
	return p
}

// integral returns the antiderivative of p that has the given value at the centre.
func (p piece) integral(at float64) piece {
	q := piece{centre: p.centre}
	q.c[0] = at
	for i := range degree {
		q.c[1+i] = p.c[i] / float64(1+i)
	}
	return q
}

// polynomial holds coefficients, the constant first.
type polynomial [degree + 1]float64

// chebyshev interpolates f, or f(D)/D if zero is set, on [lo,hi] by Chebyshev polynomials up to degree fit.
func chebyshev(f func(float64) float64, lo, hi float64, fit int, zero bool) (c polynomial) {
	const nodes = 32
	for k := range nodes {
		th := math.Pi * (float64(k) + 0.5) / nodes
		d := (lo+hi)/2 + math.Cos(th)*(hi-lo)/2
		y := f(d)
		if zero {
			y /= d
		}
		for j := 0; j <= fit; j++ {
			c[j] += y * math.Cos(float64(j)*th) * 2 / nodes
		}
	}
	c[0] /= 2
	return c
}

// monomials turns a sum of Chebyshev polynomials up to degree fit into a sum of powers.
func monomials(c polynomial, fit int) (mono polynomial) {
	var t0, t1 polynomial
	t0[0], t1[1] = 1, 1
	mono[0], mono[1] = c[0], c[1]
	for j := 2; j <= fit; j++ {
		var t2 polynomial
		for i := range degree {
			t2[i+1] = 2 * t1[i]
		}
		for i := range t2 {
			t2[i] -= t0[i]
			mono[i] += c[j] * t2[i]
		}
		t0, t1 = t1, t2
	}
	return mono
}

// rate is an entry's share of the free gradient, in log2 units, divided by the student's probability. Beyond a few log2
// units of odds it is constant where the student's side is the larger and linear where the teacher's is, so it keeps
// its relative accuracy however far apart the sides are. For beta 0 the divisor is the larger probability.
func rate(d2, beta float64) float64 {
	d := d2 * math.Ln2
	a, b := 0.0, d
	if beta == 0 && d > 0 {
		a, b = -d, 0
	}
	_, g := entryTerms(a, b, d, beta, true)
	return g / math.Ln2
}

// fitRate fits a polynomial of degree deg to rate on [lo,hi]. It is exactly 0 at 0.
func fitRate(f func(float64) float64, lo, hi float64, deg int) piece {
	return interpolate(f, lo, hi, deg, lo == 0 || hi == 0)
}

// scaled returns psi, its slope and rate as functions of D in units of h, which may be negative.
func scaled(beta, h float64) (f, slope, r func(float64) float64) {
	f = func(d float64) float64 { return psi(d*h, beta) }
	slope = func(d float64) float64 { return h * psiSlope(d*h, beta) }
	return f, slope, func(d float64) float64 { return rate(d*h, beta) }
}

// growing reports whether psi and rate grow without bound for positive D, or for negative D if positive is false.
func growing(beta float64, positive bool) (psi, rate bool) {
	if positive {
		return beta == 0, beta > 0
	}
	return beta == 1, beta == 1
}

// flatPiece extends a table of f beyond its range, as a constant or, where f grows, linearly.
func flatPiece(f func(float64) float64, at float64, linear bool) piece {
	p := piece{centre: at}
	p.c[0] = f(at)
	if linear {
		p.c[1] = f(at+0.5) - f(at-0.5)
	}
	return p
}

// table holds psi_beta and, for gradients, rate, in the layouts of all paths. h is the width of a segment in log2 units
// of odds.
type table struct {
	h float64
	// symmetric is true for beta 1/2, where psi is even.
	symmetric     bool
	pieces, rates [segments]piece
	// rows is read by assembly: rows[0] holds the centres, rows[1+i] the coefficients of degree i, each indexed by
	// segment&31.
	rows [][]float32
	// packed holds the same values by segment, with rate: centre, c0..c8, 0, 0, r0..r7.
	packed [][]float32
	// signed has 8 wide segments for D >= 0 and then 8 for D < 0, selected by the sign of D and by the exponent and
	// first fraction bit of 1+|D|. signed[0] holds the centres, signed[1+i] the coefficients of degree i of psi; the
	// coefficients of rate follow. D is in units of signedH.
	signed [][]float32
	// graded is like signed, but with 16 segments on either side, selected by the exponent and two fraction bits of
	// 1+|D|. Its D is in units of gradedH.
	graded [][]float32

	// The tables of a symmetric psi, as a function of |D|. rate isn't even: it is tabulated for D < 0, and rate(D) =
	// rate(-D) - D/2.

	// geometric has 16 segments, chosen by the exponent and two fraction bits of 1+|D2|/2: geometric[0] holds the
	// centres in units of D2/2, geometric[1+i] the coefficients of degree i. psi is accurate to within 4e-7 of its own
	// value.
	geometric [][]float32
	// narrow has 8 segments, chosen by the exponent and first fraction bit of 1+|D2|/4: narrow[0] holds the centres in
	// units of D2/4, narrow[1+i] the coefficients of degree i of psi; the coefficients of rate follow.
	narrow [][]float32
}

// sharedRate is U(x) = 1 - log2(1 + 2^-x), in units of geometricH. Let x be the log-odds minus bend(beta). The
// student's rate is U(|x|) - max(x, 0) and the teacher's U(|x|) + min(x, 0), each up to a constant.
func sharedRate(x float64) float64 {
	return -math.Log1p(math.Expm1(-x*geometricH*math.Ln2)/2) / math.Ln2 / geometricH
}

// rateTable tabulates sharedRate for tiles. It is the same for every beta inside (0,1), and has a row of segments'
// centres, followed by a row for the coefficients of each degree. Subtracting a constant from the student's rates
// subtracts a multiple of the student's probability from all raw gradients. The constant terms are kept in float64,
// too, so that plus can add such a constant before rounding.
type rateTable struct {
	rows     []float32
	constant []float64
}

// rates makes a table of 8 or 32 segments, which are chosen by the exponent and the first fraction bits of 1+x.
func rates(width, degree int) *rateTable {
	t := &rateTable{rows: make([]float32, width*(degree+2)), constant: make([]float64, width)}
	for i := range width {
		at, p := slot(i, width), fitRate(sharedRate, edge(i, width), edge(i+1, width), degree)
		t.rows[at], t.constant[at] = float32(p.centre), p.c[0]
		for j := range degree + 1 {
			t.rows[(1+j)*width+at] = float32(p.c[j])
		}
	}
	return t
}

var wideRates, narrowRates = rates(segments, rateDegree), rates(8, narrowRateDegree)

// plus stores the table of U + c in to.
func (t *rateTable) plus(c float64, to []float32) {
	copy(to, t.rows)
	for i, u := range t.constant {
		to[len(t.constant)+i] = float32(u + c)
	}
}

// bend returns the D at which both sides have the same share of the mixture, in log2 units.
func bend(beta float64) float64 { return math.Log2((1 - beta) / beta) }

// limitD is the largest |D| that matters, in log2 units. Beyond it, the smaller side's weight is 0.
const limitD = 40

const (
	geometricDegree  = 5
	narrowDegree     = 8
	signedDegree     = 8
	gradedDegree     = 7
	geometricH       = 2
	narrowH          = 4
	signedH          = 3 // beyond 15 units, or 45 log2 units of odds, psi equals its limit
	gradedH          = 2.5
	rateDegree       = 5  // degree with 32 segments
	narrowRateDegree = 8  // degree with 8 segments
	packedRate       = 12 // offset of a segment's rate in packed
)

// edge returns the |D| at which segment i of n begins: each exponent of 1+|D| has n/4 segments.
func edge(i, n int) float64 { return math.Ldexp(1+float64(i%(n/4))/float64(n/4), i/(n/4)) - 1 }

// slot returns the place of segment i of n in a table. It is computed from the exponent and the first fraction bits of
// 1+|D|.
func slot(i, n int) int {
	return int(math.Float32bits(float32(1+edge(i, n)))>>(25-bits.Len(uint(n/2)))) & (n - 1)
}

// newTable fits psi_beta. It takes about a millisecond.
func newTable(beta float64) *table {
	t := &table{h: 2, symmetric: beta == 0.5}
	// A beta near 0 or 1 moves the bend of psi outwards, to log2(1/beta) for a small one, so the table must reach
	// further.
	if interior := min(beta, 1-beta); interior > 0 && interior < 0.01 {
		t.h = 2.5
	}
	f, slope, r := scaled(beta, t.h)
	for n := -segments / 2; n < segments/2; n++ {
		lo := float64(n)
		p, q := fitPiece(f, slope, lo, lo+1, degree), fitRate(r, lo, lo+1, degree)
		if n == -segments/2 || n == segments/2-1 {
			psi, rate := growing(beta, n > 0)
			p, q = flatPiece(f, lo+0.5, psi), flatPiece(r, lo+0.5, rate)
		}
		t.pieces[n&(segments-1)], t.rates[n&(segments-1)] = p, q
	}
	t.rows, t.packed = alignedRows(degree+2, segments), alignedRows(segments, 20)
	for i, p := range t.pieces {
		t.rows[0][i], t.packed[i][0] = float32(p.centre), float32(p.centre)
		for j, c := range p.c {
			t.rows[1+j][i], t.packed[i][1+j] = float32(c), float32(c)
		}
		n := float64(i)
		if i >= segments/2 {
			n -= segments
		}
		q := t.rates[i]
		if n > -segments/2 && n < segments/2-1 {
			q = fitRate(r, n, n+1, 7)
		}
		for j := range 8 {
			t.packed[i][packedRate+j] = float32(q.c[j])
		}
	}
	t.signed = newSignedTable(beta, signedH, 8, signedDegree)
	t.graded = newSignedTable(beta, gradedH, 16, gradedDegree)
	if t.symmetric {
		t.geometric, t.narrow = newGeometricTable(), alignedRows(2*(narrowDegree+1)+1, 8)
		f, slope, _ := scaled(0.5, narrowH)
		_, _, r := scaled(0.5, -narrowH)
		tabulate(t.narrow, 8, f, slope, r, false, false, 1) // r is the rate for negative D, which doesn't grow
	}
	return t
}

// newSignedTable tabulates psi and rate, with n segments for either sign of D, in units of h.
func newSignedTable(beta, h float64, n, degree int) [][]float32 {
	t := alignedRows(2*(degree+1)+1, 2*n)
	for _, sign := range []float64{1, -1} {
		f, slope, r := scaled(beta, sign*h)
		psi, rate := growing(beta, sign > 0)
		tabulate(t, n, f, slope, r, psi, rate, sign)
	}
	return t
}

// tabulate fits psi, its slope and rate, as functions of |D|, in n segments. Each has a column of the table: the
// centre, then the coefficients of psi and of rate. The last segment is extended linearly where psi or rate grows. sign
// is -1 for pieces that are looked up by D < 0, which have the second half of the columns.
func tabulate(t [][]float32, n int, f, slope, r func(float64) float64, psi, rate bool, sign float64) {
	coefficients := len(t) / 2
	for i := range n {
		lo, hi, at := edge(i, n), edge(i+1, n), slot(i, n)
		p, q := fitPiece(f, slope, lo, hi, coefficients-1), fitRate(r, lo, hi, coefficients-1)
		if i == n-1 {
			p, q = flatPiece(f, lo, psi), flatPiece(r, lo, rate)
		}
		if sign < 0 {
			at += n
		}
		t[0][at] = float32(sign * p.centre)
		odd := 1.0
		for j := range coefficients {
			t[1+j][at], t[1+coefficients+j][at] = float32(odd*p.c[j]), float32(odd*q.c[j])
			odd *= sign
		}
	}
}

func newGeometricTable() [][]float32 {
	t := alignedRows(geometricDegree+2, 16)
	f, slope, _ := scaled(0.5, geometricH)
	for i := range 16 {
		at, p := slot(i, 16), fitPiece(f, slope, edge(i, 16), edge(i+1, 16), geometricDegree)
		t[0][at] = float32(p.centre)
		for j := range geometricDegree + 1 {
			t[1+j][at] = float32(p.c[j])
		}
	}
	return t
}
