package main

import (
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// rate512 is the second pass, over kept exponentials, for a gradient that doesn't clip entries and a beta inside (0,1).
// x is D minus its value where both sides have the same share of the mixture. A table gives U for |x|: the student's
// rate is U - max(x, 0) and the teacher's U + min(x, 0), less a constant. Its 32 segments are chosen by the exponent
// and three fraction bits of 1+|x|. Two groups of four vectors are half a step apart. x is spilled to memory, because
// there are too few registers.
type rate512 struct {
	*generator
	d                   dtype
	p                   pointers
	ks, kt, odds        Register
	lo, hi, coefficient VecPhysical // scratch
	sum, sumG           VecPhysical // sums of the first group
	acc, accG, hk       VecPhysical
}

// rateGroup is a group of four vectors of x. Its fields are the argument within x's segment, the segment, and U. At the
// end they are the raw gradient, the teacher's rate and scratch.
type rateGroup struct{ argument, segment, u []VecPhysical }

func (g *generator) rate512(d dtype) {
	g.text("AVX512", "rate"+d.name)
	q := rate512{
		generator: g, d: d, p: g.loadPointers(), ks: R12, kt: R13, odds: R15,
		lo: Z24, hi: Z25, coefficient: Z26, sum: Z27, sumG: Z28, acc: Z29, accG: Z30, hk: Z31,
	}
	next, zero := R14, q.p.n // n's register is free, because the number of entries is read from memory
	g.move("kept keptT odds", q.ks, q.kt, q.odds)
	g.VBROADCASTSS(g.arg("hk"), q.hk)
	g.zero512(q.acc, q.accG)
	g.XORQ(zero, zero)
	groups := [2]rateGroup{{zmm[0:4], zmm[4:8], zmm[8:12]}, {zmm[12:16], zmm[16:20], zmm[20:24]}}
	q.head(groups[0], q.p.i, 0).write()
	g.loop(q.p.i, g.arg("n"), 128, func() {
		g.prefetch(2*linesAhead(d, true), q.p.step, q.p.pfs, q.p.pft)
		g.nextStep(q.p.i, g.arg("n"), next, zero, 128)
		interleave(append(q.polynomial(groups[0]), q.entries(groups[0], 0)...), q.head(groups[1], q.p.i, 64))
		interleave(append(q.polynomial(groups[1]), q.entries(groups[1], 64)...), q.head(groups[0], next, 0))
	})
	g.MOVQ(zero, g.arg("clipped"))
	g.storeSum512("sumG", q.accG)
	g.storeSum512("sum", q.acc)
	g.end()
}

// spill returns the memory slot for the x of a vector in a group.
func (g *rate512) spill(entry, j int) Mem { return Mem{Base: g.odds, Disp: 4*entry + 64*j} }

// head loads both sides, spills x and finds the segment and the argument within it.
func (g *rate512) head(q rateGroup, at Register, entry int) (st stream) {
	x, size := q.argument, q.argument
	g.loads512(&st, g.d, g.p.t, at, entry, q.u, true)
	g.loads512(&st, g.d, g.p.s, at, entry, x, true)
	st.each(4, func(j int) { g.VSUBPS_BCST(g.arg("rt"), q.u[j], q.u[j]) })
	st.each(4, func(j int) { g.VSUBPS_BCST(g.arg("rs"), x[j], x[j]) })
	st.each(4, func(j int) { g.VSUBPS(x[j], q.u[j], x[j]) })
	st.each(4, func(j int) { g.VFMADD213PS_BCST(g.arg("hd"), g.hk, x[j]) })
	st.each(4, func(j int) { g.VRANGEPS_BCST(Imm(0x2), g.arg("limit"), x[j], x[j]) }) // NaN becomes the limit
	st.each(4, func(j int) { g.VMOVUPS(x[j], g.spill(entry, j)) })
	st.each(4, func(j int) { g.VRANGEPS_BCST(Imm(0xa), g.wide.mem("geometricLimit"), x[j], size[j]) })
	st.each(4, func(j int) { g.VADDPS_BCST(g.wide.mem("1"), size[j], q.segment[j]) })
	st.each(4, func(j int) { g.VPSRLD(Imm(20), q.segment[j], q.segment[j]) })
	st.each(4, func(j int) {
		g.VMOVAPS(Mem{Base: g.p.tab}, q.u[j])
		g.VPERMT2PS(Mem{Base: g.p.tab, Disp: 64}, q.segment[j], q.u[j])
		g.VSUBPS(q.u[j], size[j], size[j])
	})
	return st
}

// polynomial evaluates U.
func (g *rate512) polynomial(q rateGroup) stream {
	row := func(degree int) {
		g.VMOVAPS(Mem{Base: g.p.tab, Disp: 128 * (1 + degree)}, g.lo)
		g.VMOVAPS(Mem{Base: g.p.tab, Disp: 128*(1+degree) + 64}, g.hi)
	}
	lookup := func(j int, to VecPhysical) {
		g.VMOVAPS(g.lo, to)
		g.VPERMT2PS(g.hi, q.segment[j], to)
	}
	return g.lookups512(g.number("rateDegree"), row, lookup, g.coefficient, q.argument, q.u)
}

// entries stores the raw gradient. It adds up eight vectors of the raw gradient, and of the teacher's side of the loss,
// over both groups, and adds the results to the float64 sums.
func (g *rate512) entries(q rateGroup, entry int) (st stream) {
	at := func(base Register, j int) Mem { return floats(wide, base, g.p.i, entry).at(j) }
	raw, teacher, u := q.argument, q.segment, q.u
	above, below := []OpmaskPhysical{K1, K2, K3, K4}, []OpmaskPhysical{K5, K6}
	nought := g.coefficient
	st.add(func() { g.zero512(nought) })
	st.each(4, func(j int) { g.VCMPPS(Imm(0x12), g.spill(entry, j), nought, above[j]) }) // 0 <= x
	st.each(4, func(j int) {
		g.VMOVAPS(u[j], raw[j])
		g.VSUBPS(g.spill(entry, j), u[j], above[j], raw[j])
		g.VMOVAPS(u[j], teacher[j])
		g.KNOTW(above[j], below[j%2])
		g.VADDPS(g.spill(entry, j), u[j], below[j%2], teacher[j])
	})
	st.each(4, func(j int) { g.VMULPS(at(g.ks, j), raw[j], raw[j]) })
	st.each(4, func(j int) { g.VMOVUPS(raw[j], at(g.p.g, j)) })
	first := 0
	if entry == 0 {
		first = 1
		st.add(func() { g.VMULPS(at(g.kt, 0), teacher[0], g.sum) })
	}
	for j := first; j < 4; j++ {
		st.add(func() { g.VFMADD231PS(at(g.kt, j), teacher[j], g.sum) })
	}
	st.add(func() { g.VADDPS(raw[1], raw[0], raw[0]) })
	st.add(func() { g.VADDPS(raw[3], raw[2], raw[2]) })
	if entry == 0 {
		st.add(func() { g.VADDPS(raw[2], raw[0], g.sumG) })
		return st
	}
	st.add(func() { g.VADDPS(raw[2], raw[0], raw[0]) })
	st.add(func() { g.VADDPS(raw[0], g.sumG, raw[0]) })
	st.add(func() { g.widen512(g.sum, g.acc, u[1]) })
	st.add(func() { g.widen512(raw[0], g.accG, u[2]) })
	return st
}
