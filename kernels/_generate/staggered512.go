package main

import (
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// The forward tiles of AVX-512 process two groups of four vectors, half a step apart. While one group multiplies, the
// other adds, and processors have separate units for the two. Without this order, the processor's scheduler hardly
// overlaps the groups, because a group's next phase is too far ahead in the instruction stream.

// stream is a sequence of instructions still to be written.
type stream []func()

func (s *stream) add(f func()) { *s = append(*s, f) }

// each adds an instruction for each of n vectors.
func (s *stream) each(n int, f func(j int)) {
	for j := range n {
		s.add(func() { f(j) })
	}
}

// interleave writes two streams, spreading the shorter one across the longer one.
func interleave(a, b stream) {
	if len(a) < len(b) {
		a, b = b, a
	}
	done := 0
	for i, f := range a {
		f()
		for ; done < (i+1)*len(b)/len(a); done++ {
			b[done]()
		}
	}
}

func (s stream) write() { interleave(s, nil) }

// nextStep sets next to the index of the step after i or, after the last step, to 0. The values loaded at 0 go unused,
// but nothing beyond the tile is read.
func (g *generator) nextStep(i Register, n Op, next, zero Register, entries int) {
	g.LEAQ(Mem{Base: i, Disp: entries}, next)
	g.CMPQ(next, n)
	g.CMOVQGE(zero, next)
}

// sumGroup is a group of vectors in a first pass: the exponents, their fractions, and the powers of 2.
type sumGroup struct{ y, f, p []VecPhysical }

// sum512 is the first pass. If keep is set, it stores each 2^(k s - ref) in kept, for the later passes, and the largest
// in max. If order is set, bfloat16 entries are kept in order too.
func (g *generator) sum512(d dtype, keep, order bool) {
	g.text("AVX512", choose(keep, "keep", "sum")+choose(order, "Ordered", "")+d.name)
	s, n, i, pf, step, kept, next, zero := RDI, RCX, RAX, RSI, RDX, RBX, R12, R13
	g.move("s n pfs step kept", s, n, pf, step, kept)
	k, ref, e5, e4, total0, total1, half, top := Z28, Z29, Z30, Z31, Z24, Z25, Z26, Z27
	g.broadcast("k ref", k, ref)
	g.leading512(e5, e4)
	g.zero512(total0, total1, top)
	g.XORQ(i, i)
	g.XORQ(zero, zero)
	groups := [2]sumGroup{{zmm[0:4], zmm[4:8], zmm[8:12]}, {zmm[12:16], zmm[16:20], zmm[20:24]}}
	head := func(q sumGroup, at Register, entry int) (st stream) {
		g.loads512(&st, d, s, at, entry, q.y, order)
		st.each(4, func(j int) { g.VFMSUB213PS(ref, k, q.y[j]) })
		st.each(4, func(j int) { g.VREDUCEPS(Imm(9), q.y[j], q.f[j]) })
		return st
	}
	tail := func(q sumGroup, entry int, sum VecPhysical) (st stream) {
		st.each(4, func(j int) { g.VSCALEFPS(q.y[j], q.p[j], q.p[j]) })
		if keep {
			st.each(4, func(j int) { g.VMOVUPS(q.p[j], floats(wide, kept, i, entry).at(j)) })
			st.each(4, func(j int) { g.VMAXPS(q.p[j], top, top) })
		}
		st.add(func() { g.VADDPS(q.p[1], q.p[0], q.p[0]) })
		st.add(func() { g.VADDPS(q.p[3], q.p[2], q.p[2]) })
		st.add(func() { g.VADDPS(q.p[2], q.p[0], sum) })
		return st
	}
	head(groups[0], i, 0).write()
	g.loop(i, n, 128, func() {
		g.prefetch(linesAhead(d, false), step, pf)
		g.nextStep(i, n, next, zero, 128)
		interleave(g.polynomial512(groups[0], e5, e4), head(groups[1], i, 64))
		interleave(g.polynomial512(groups[1], e5, e4), append(tail(groups[0], 0, half), head(groups[0], next, 0)...))
		// Pairs of vectors go into the float64 sum, because a large float32 would lose small terms added one by one.
		sum := groups[1].p[0]
		tail(groups[1], 64, sum).write()
		g.VADDPS(sum, half, half)
		g.addFloat64(half, total0, total1, groups[1].p[1], groups[1].p[2])
	})
	g.storeSums512("sum", total0, total1, Z0)
	g.storeMax512(top)
	g.end()
}

// loads512 adds the instructions of load to a stream.
func (g *generator) loads512(st *stream, d dtype, base, i Register, entry int, v []VecPhysical, order bool) {
	for j := 0; j < len(v); j += 2 {
		st.add(func() { g.load(wide, d, base, i, entry+16*j, v[j:j+2], order) })
	}
}

// polynomial512 computes p = 2^f.
func (g *generator) polynomial512(q sumGroup, e5, e4 VecPhysical) (st stream) {
	for j, p := range q.p {
		st.add(func() {
			g.VMOVAPS(e5, p)
			g.VFMADD213PS(e4, q.f[j], p)
		})
	}
	for _, n := range []string{"e3", "e2", "e1", "e0"} {
		st.each(4, func(j int) { g.VFMADD213PS_BCST(g.wide.mem(n), q.f[j], q.p[j]) })
	}
	return st
}

// geometric512 is the second pass of psi_1/2, without a gradient, over kept exponentials: |D| selects one of 16
// segments by the exponent and two fraction bits of 1+|D|, so a lookup is a single permute.
type geometric512 struct {
	*generator
	d                           dtype
	p                           pointers
	ks, kt                      Register
	hk, limit, ratio, acc, row  VecPhysical
	centre, coefficient, widens VecPhysical // scratch
}

// oddsGroup is a group of four vectors. odds is |D|, and then the argument within its segment. segment selects the
// segment, and then holds the larger side's probability.
type oddsGroup struct{ odds, segment, psi []VecPhysical }

func (g *generator) jsdGeometric512(d dtype) {
	g.text("AVX512", "jsdKeptEven"+d.name)
	q := geometric512{
		generator: g, d: d, p: g.loadPointers(), ks: R12, kt: R13,
		hk: Z24, limit: Z25, ratio: Z26, acc: Z27, row: Z28, centre: Z29, coefficient: Z30, widens: Z31,
	}
	next, zero := R14, RBX
	g.move("kept keptT", q.ks, q.kt)
	g.VBROADCASTSS(g.arg("hk"), q.hk)
	g.VBROADCASTSS(g.wide.mem("geometricLimit"), q.limit)
	g.VBROADCASTSS(g.arg("ratio"), q.ratio)
	g.zero512(q.acc)
	g.XORQ(zero, zero)
	groups := [2]oddsGroup{{zmm[0:4], zmm[4:8], zmm[8:12]}, {zmm[12:16], zmm[16:20], zmm[20:24]}}
	q.head(groups[0], q.p.i, 0).write()
	g.loop(q.p.i, q.p.n, 128, func() {
		g.prefetch(2*linesAhead(d, true), q.p.step, q.p.pfs, q.p.pft)
		g.nextStep(q.p.i, q.p.n, next, zero, 128)
		interleave(append(q.polynomial(groups[0]), q.entries(groups[0], 0)...), q.head(groups[1], q.p.i, 64))
		interleave(append(q.polynomial(groups[1]), q.entries(groups[1], 64)...), q.head(groups[0], next, 0))
	})
	g.storeSum512("sum", q.acc)
	g.zero512(Z0)
	g.store32(Z0, "max")
	g.end()
}

// head loads both sides and finds |D|'s segment and the argument within it.
func (g *geometric512) head(q oddsGroup, at Register, entry int) (st stream) {
	if g.d == f32 {
		g.loads512(&st, g.d, g.p.t, at, entry, q.odds, false)
		st.each(4, func(j int) { g.VSUBPS(floats(wide, g.p.s, at, entry).at(j), q.odds[j], q.odds[j]) })
	} else {
		g.loads512(&st, g.d, g.p.s, at, entry, q.psi, false)
		g.loads512(&st, g.d, g.p.t, at, entry, q.odds, false)
		st.each(4, func(j int) { g.VSUBPS(q.psi[j], q.odds[j], q.odds[j]) })
	}
	st.each(4, func(j int) { g.VFMADD213PS_BCST(g.arg("hd"), g.hk, q.odds[j]) })
	st.each(4, func(j int) { g.VRANGEPS(Imm(0xa), g.limit, q.odds[j], q.odds[j]) }) // NaN becomes the limit
	st.each(4, func(j int) { g.VADDPS_BCST(g.wide.mem("1"), q.odds[j], q.segment[j]) })
	st.each(4, func(j int) { g.VPSRLD(Imm(21), q.segment[j], q.segment[j]) })
	st.add(func() { g.VMOVAPS(Mem{Base: g.p.tab}, g.widens) })
	st.each(4, func(j int) {
		g.VPERMPS(g.widens, q.segment[j], g.centre)
		g.VSUBPS(g.centre, q.odds[j], q.odds[j])
	})
	return st
}

// polynomial evaluates psi.
func (g *geometric512) polynomial(q oddsGroup) stream {
	row := func(degree int) { g.VMOVAPS(Mem{Base: g.p.tab, Disp: 64 * (1 + degree)}, g.row) }
	lookup := func(j int, to VecPhysical) { g.VPERMPS(g.row, q.segment[j], to) }
	return g.lookups512(g.number("geometricDegree"), row, lookup, g.coefficient, q.odds, q.psi)
}

// lookups512 evaluates a polynomial of degree top at each of x. row loads the table's row for a degree, and lookup
// selects a vector's coefficients from it.
func (g *generator) lookups512(
	top int, row func(degree int), lookup func(j int, to VecPhysical), coefficient VecPhysical, x, to []VecPhysical,
) (st stream) {
	st.add(func() { row(top) })
	st.each(4, func(j int) { lookup(j, to[j]) })
	for degree := top - 1; degree >= 0; degree-- {
		st.add(func() { row(degree) })
		st.each(4, func(j int) {
			lookup(j, coefficient)
			g.VFMADD213PS(coefficient, x[j], to[j])
		})
	}
	return st
}

// entries multiplies psi by the larger side's probability, which is relative to the teacher's normaliser. It adds up
// four vectors of products before it adds them to the float64 sum. In a large float32 sum, the additions of many equal
// terms would all be rounded in the same direction.
func (g *geometric512) entries(q oddsGroup, entry int) (st stream) {
	kept := func(base Register, j int) Mem { return floats(wide, base, g.p.i, entry).at(j) }
	larger := q.segment
	st.each(4, func(j int) { g.VMULPS(kept(g.ks, j), g.ratio, larger[j]) })
	st.each(4, func(j int) { g.VMAXPS(kept(g.kt, j), larger[j], larger[j]) })
	sum := q.psi[0]
	st.add(func() { g.VMULPS(larger[0], q.psi[0], sum) })
	for j := 1; j < 4; j++ {
		st.add(func() { g.VFMADD231PS(larger[j], q.psi[j], sum) })
	}
	st.add(func() { g.widen512(sum, g.acc, q.psi[1]) })
	return st
}
