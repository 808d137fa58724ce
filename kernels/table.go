package kernels

import "math"

// segments is the number of pieces of a table, degree that of each piece.
const (
	segments = 32
	degree   = 8
)

// psi is the loss entry over the larger of the two probabilities, in log2 units, as a function of the log-odds
// difference D2 = log2 p - log2 q. The entry is 2^max(log2 p, log2 q) * psi(D2). For beta 0 and 1 it is the Bregman
// summand. psi is 0 with its derivative at D2 = 0, never negative, constant for large |D2| inside (0,1) and at most
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

// psiSlope is the derivative of psi. With an entry l(a, b) of the log-probabilities, which grows by e^c where both do
// by c, psi is l at a or b = 0, whichever is the larger, and dl/da gives the slope on either side.
func psiSlope(d2, beta float64) float64 {
	d := d2 * math.Ln2
	if d > 0 {
		_, g := entryTerms(-d, 0, d, beta, true)
		return -g
	}
	l, g := entryTerms(0, d, d, beta, true)
	return l - g
}

// fitPiece fits a polynomial of degree deg on [lo,hi]: it interpolates the slope at Chebyshev nodes and integrates, so
// that the gradient, which is made of both, is as accurate as the loss; differentiating instead would cost two digits.
// A segment that touches 0 is expanded about 0 with the first two coefficients exactly 0: slope(D) = D h(D).
func fitPiece(f, slope func(float64) float64, lo, hi float64, deg int) piece {
	double := lo == 0 || hi == 0
	fit := deg - 1
	if double {
		fit = deg - 2
	}
	mono := monomials(chebyshev(slope, lo, hi, fit, double), fit)
	// mono is in w = scale*(D-centre) + shift.
	p := piece{centre: (lo + hi) / 2}
	scale, shift := 2/(hi-lo), 0.0
	if double {
		p.centre, shift = 0, -(lo+hi)/(hi-lo)
	}
	var q polynomial // Horner in w with polynomial coefficients
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
	first := 1
	if double {
		first = 2
	} else {
		p.c[0] = f(p.centre)
	}
	for i := 0; i <= fit; i++ {
		p.c[first+i] = q[i] / float64(first+i)
	}
	return p
}

// polynomial holds coefficients, the constant first.
type polynomial [degree + 1]float64

// chebyshev interpolates the slope on [lo,hi], divided by D if double is set, by Chebyshev polynomials up to fit.
func chebyshev(slope func(float64) float64, lo, hi float64, fit int, double bool) (c polynomial) {
	const nodes = 32
	for k := range nodes {
		th := math.Pi * (float64(k) + 0.5) / nodes
		d := (lo+hi)/2 + math.Cos(th)*(hi-lo)/2
		y := slope(d)
		if double {
			y /= d
		}
		for j := 0; j <= fit; j++ {
			c[j] += y * math.Cos(float64(j)*th) * 2 / nodes
		}
	}
	c[0] /= 2
	return c
}

// monomials turns a sum of Chebyshev polynomials up to fit into one of powers.
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

// scaledPsi is psi and its slope as functions of D in units of h, which may be negative.
func scaledPsi(beta, h float64) (f, slope func(float64) float64) {
	return func(d float64) float64 { return psi(d*h, beta) }, func(d float64) float64 { return h * psiSlope(d*h, beta) }
}

// flatPiece carries a table beyond its range: constant, or linear where psi grows.
func flatPiece(f func(float64) float64, at float64, linear bool) piece {
	p := piece{centre: at}
	p.c[0] = f(at)
	if linear {
		p.c[1] = f(at+0.5) - f(at-0.5)
	}
	return p
}

// table is psi_beta in the layouts of all paths. h is the width of a segment in log2 units of odds.
type table struct {
	h float64
	// symmetric is true for beta 1/2, where psi is even.
	symmetric bool
	pieces    [segments]piece
	// rows, for assembly: rows[0] the centres, rows[1+i] the coefficients of degree i, each indexed by segment&31.
	// 64-byte alignment comes from alignedRows.
	rows *[degree + 2][segments]float32
	// packed is the same by segment: centre, c0..c8, 0, 0.
	packed *[segments][12]float32
	// signed is the same with wider segments on each side of 0, selected by the sign of D and by the exponent and first
	// fraction bit of 1+|D|: signed[0] holds the centres, signed[1+i] degree i, 8 for D >= 0 before 8 for D < 0. Its D
	// is in units of signedH.
	signed *[signedDegree + 2][16]float32
	even   *evenTable
}

// evenTable is psi_1/2 over |D|.
type evenTable struct {
	// wide has 32 segments of one log2 unit, expanded about their left edges; wide[i] holds degree i.
	wide *[evenDegree + 1][segments]float32
	// geometric has 16 segments, chosen by the exponent and two fraction bits of 1+|D2|/2: geometric[0] holds the
	// centres in units of D2/2, geometric[1+i] the coefficients of degree i. psi is accurate to within 4e-7 of its own
	// value.
	geometric *[geometricDegree + 2][16]float32
	// narrow has 8 segments, chosen by the exponent and first fraction bit of 1+|D2|/4: narrow[0] the centres in units
	// of D2/4, narrow[1+i] degree i.
	narrow *[narrowDegree + 2][8]float32
}

const (
	evenDegree      = 6
	geometricDegree = 5
	narrowDegree    = 8
	signedDegree    = 8
	geometricH      = 2
	signedH         = 3 // beyond 15 of them, 45 log2 units of odds, psi equals its limit
)

// narrowEdges are where the segments found by slot begin.
var narrowEdges = [9]float64{0, 0.5, 1, 2, 3, 5, 7, 11, 15}

// slot returns the segment that begins at |D| = edge: the exponent and first fraction bit of 1+|D|.
func slot(edge float64) int { return int(math.Float32bits(float32(1+edge))>>22) & 7 }

// newTable fits psi_beta. It takes about half a millisecond.
func newTable(beta float64) *table {
	t := &table{h: 2, symmetric: beta == 0.5}
	// A beta near 0 or 1 moves the bend of psi outwards, to log2(1/beta) for a small one, so the table must reach
	// further.
	if interior := min(beta, 1-beta); interior > 0 && interior < 0.01 {
		t.h = 2.5
	}
	f, slope := scaledPsi(beta, t.h)
	for n := -segments / 2; n < segments/2; n++ {
		lo := float64(n)
		var p piece
		switch n {
		case -segments / 2:
			p = flatPiece(f, lo+0.5, beta == 1)
		case segments/2 - 1:
			p = flatPiece(f, lo+0.5, beta == 0)
		default:
			p = fitPiece(f, slope, lo, lo+1, degree)
		}
		t.pieces[n&(segments-1)] = p
	}
	t.rows = alignedRows[[degree + 2][segments]float32]()
	t.packed = alignedRows[[segments][12]float32]()
	for i, p := range t.pieces {
		t.rows[0][i], t.packed[i][0] = float32(p.centre), float32(p.centre)
		for j, c := range p.c {
			t.rows[1+j][i], t.packed[i][1+j] = float32(c), float32(c)
		}
	}
	t.signed = newSignedTable(beta)
	if t.symmetric {
		t.even = newEvenTable()
	}
	return t
}

func newEvenTable() *evenTable {
	e := &evenTable{
		wide:      alignedRows[[evenDegree + 1][segments]float32](),
		narrow:    alignedRows[[narrowDegree + 2][8]float32](),
		geometric: alignedRows[[geometricDegree + 2][16]float32](),
	}
	f, slope := scaledPsi(0.5, 1)
	for n := range segments {
		lo := float64(n)
		p := fitPiece(f, slope, lo, lo+1, evenDegree)
		if n == segments-1 {
			p = flatPiece(f, lo, false)
		}
		c := p.c
		if p.centre != lo {
			c = recentre(p.c, lo-p.centre)
		}
		for j := range e.wide {
			e.wide[j][n] = float32(c[j])
		}
	}
	f, slope = scaledPsi(0.5, geometricH)
	for i := range 16 {
		edge := func(i int) float64 { return math.Ldexp(1+float64(i%4)/4, i/4) - 1 }
		lo := edge(i)
		p := fitPiece(f, slope, lo, edge(i+1), geometricDegree)
		s := math.Float32bits(float32(1+lo)) >> 21 & 15
		e.geometric[0][s] = float32(p.centre)
		for j := range geometricDegree + 1 {
			e.geometric[1+j][s] = float32(p.c[j])
		}
	}
	f, slope = scaledPsi(0.5, 4)
	for i := range 8 {
		p := fitPiece(f, slope, narrowEdges[i], narrowEdges[i+1], narrowDegree)
		if i == 7 {
			p = flatPiece(f, narrowEdges[i], false)
		}
		s := slot(narrowEdges[i])
		e.narrow[0][s] = float32(p.centre)
		for j := range narrowDegree + 1 {
			e.narrow[1+j][s] = float32(p.c[j])
		}
	}
	return e
}

func newSignedTable(beta float64) *[signedDegree + 2][16]float32 {
	t := alignedRows[[signedDegree + 2][16]float32]()
	for _, sign := range []float64{1, -1} {
		f, slope := scaledPsi(beta, sign*signedH)
		for i := range 8 {
			p := fitPiece(f, slope, narrowEdges[i], narrowEdges[i+1], signedDegree)
			if i == 7 {
				p = flatPiece(f, narrowEdges[i], beta == 0 && sign > 0 || beta == 1 && sign < 0)
			}
			at := slot(narrowEdges[i])
			if sign < 0 {
				at += 8
			}
			t[0][at] = float32(sign * p.centre)
			odd := 1.0 // fitted in |D|, looked up by D
			for j := range signedDegree + 1 {
				t[1+j][at] = float32(odd * p.c[j])
				odd *= sign
			}
		}
	}
	return t
}

// recentre rewrites sum c[i] x^i in powers of x-by.
func recentre(c [degree + 1]float64, by float64) [degree + 1]float64 {
	var q [degree + 1]float64
	for j := degree; j >= 0; j-- {
		var r [degree + 1]float64
		for i := range r {
			r[i] = q[i] * by
			if i > 0 {
				r[i] += q[i-1]
			}
		}
		r[0] += c[j]
		q = r
	}
	return q
}
