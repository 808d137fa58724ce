package main

import (
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// rate512 is the second pass of a gradient without clips of entries, over kept exponentials. One polynomial U is the
// student's rate where D is below fold, and the teacher's where it isn't; the two differ by D. Segments are chosen by the
// exponent and two fraction bits of 1+|D|; where beta isn't 1/2, also by the sign of D. Two groups of four vectors are half
// a step apart. D waits in memory, because registers don't suffice.
type rate512 struct {
	*generator
	even                     bool
	d                        dtype
	p                        pointers
	ks, kt, odds             Register
	lo, hi, coefficient      VecPhysical // scratch
	far, acc, accG, hk, fold VecPhysical
}

// rateGroup is a group of four vectors: the argument in its segment, the segment, and U. In the end they are the raw
// gradient, the teacher's rate and scratch.
type rateGroup struct{ argument, segment, u []VecPhysical }

func (g *generator) rate512(d dtype, even bool) {
	g.text("AVX512", kind{even: even, rate: true}.name()+d.name)
	q := rate512{
		generator: g, even: even, d: d, p: g.loadPointers(), ks: R12, kt: R13, odds: R15,
		lo: Z24, hi: Z25, coefficient: Z26, far: Z27, acc: Z28, accG: Z29, hk: Z30, fold: Z31,
	}
	next, zero := R14, q.p.n // the number of entries is read from memory
	g.MOVQ(g.arg("kept"), q.ks)
	g.MOVQ(g.arg("keptT"), q.kt)
	g.MOVQ(g.arg("odds"), q.odds)
	g.VBROADCASTSS(g.arg("hk"), q.hk)
	g.VBROADCASTSS(g.arg("fold"), q.fold)
	g.zero512(q.far, q.acc, q.accG)
	g.XORQ(zero, zero)
	groups := [2]rateGroup{{zmm[0:4], zmm[4:8], zmm[8:12]}, {zmm[12:16], zmm[16:20], zmm[20:24]}}
	q.head(groups[0], q.p.i, 0).write()
	g.align()
	g.Label("loop")
	g.prefetch(2*linesAhead(d, true), q.p.step, q.p.pfs, q.p.pft)
	g.LEAQ(Mem{Base: q.p.i, Disp: 128}, next)
	g.CMPQ(next, g.arg("n"))
	g.CMOVQGE(zero, next)
	interleave(append(q.polynomial(groups[0]), q.entries(groups[0], 0)...), q.head(groups[1], q.p.i, 64))
	interleave(append(q.polynomial(groups[1]), q.entries(groups[1], 64)...), q.head(groups[0], next, 0))
	g.ADDQ(Imm(128), q.p.i)
	g.CMPQ(q.p.i, g.arg("n"))
	g.JLT(LabelRef("loop"))
	g.MOVQ(zero, g.arg("clipped"))
	g.zero512(Z0)
	g.storeFloat64(g.arg("sumG"), q.accG, Z0, Z1)
	g.zero512(Z0)
	g.storeFloat64(g.arg("sum"), q.acc, Z0, Z1)
	g.maxLanes512(q.far, Z1)
	g.store32(q.far, g.arg("max"))
	g.VZEROUPPER()
	g.RET()
}

// spill is where the D of a group's vector waits.
func (g *rate512) spill(entry, j int) Mem { return Mem{Base: g.odds, Disp: 4*entry + 64*j} }

// head loads both sides, spills D and finds the segment and the argument within it.
func (g *rate512) head(q rateGroup, at Register, entry int) (st stream) {
	d := q.argument
	g.loads512(&st, g.d, g.p.t, at, entry, q.u, true)
	g.loads512(&st, g.d, g.p.s, at, entry, d, true)
	st.each(4, func(j int) { g.VSUBPS_BCST(g.arg("rt"), q.u[j], q.u[j]) })
	st.each(4, func(j int) { g.VSUBPS_BCST(g.arg("rs"), d[j], d[j]) })
	st.each(4, func(j int) { g.VSUBPS(d[j], q.u[j], d[j]) })
	st.each(4, func(j int) { g.VFMADD213PS_BCST(g.arg("hd"), g.hk, d[j]) })
	if !g.even {
		st.each(4, func(j int) { g.VRANGEPS(Imm(0xb), d[j], g.far, g.far) }) // largest |D|, ignoring NaN
	}
	st.each(4, func(j int) { g.VRANGEPS_BCST(Imm(0x2), g.arg("limit"), d[j], d[j]) }) // NaN becomes the limit
	st.each(4, func(j int) { g.VMOVUPS(d[j], g.spill(entry, j)) })
	size := q.segment
	if g.even {
		size = d // U is constant beyond the limit
	}
	st.each(4, func(j int) { g.VRANGEPS_BCST(Imm(0xa), g.wide.mem("geometricLimit"), d[j], size[j]) })
	st.each(4, func(j int) { g.VADDPS_BCST(g.wide.mem("1"), size[j], q.segment[j]) })
	st.each(4, func(j int) { g.VPSRLD(Imm(21), q.segment[j], q.segment[j]) })
	if !g.even { // the sign is added on top of the four bits
		st.each(4, func(j int) { g.VPSRLD(Imm(27), d[j], q.u[j]) })
		st.each(4, func(j int) { g.VPTERNLOGD_BCST(Imm(0xd8), g.wide.mem("16"), q.u[j], q.segment[j]) })
	}
	st.each(4, func(j int) {
		if g.even {
			g.VPERMPS(Mem{Base: g.p.tab}, q.segment[j], g.coefficient)
		} else {
			g.VMOVAPS(Mem{Base: g.p.tab}, g.coefficient)
			g.VPERMT2PS(Mem{Base: g.p.tab, Disp: 64}, q.segment[j], g.coefficient)
		}
		g.VSUBPS(g.coefficient, d[j], d[j])
	})
	return st
}

// polynomial evaluates U.
func (g *rate512) polynomial(q rateGroup) (st stream) {
	row := func(degree int) {
		st.add(func() {
			if g.even {
				g.VMOVAPS(Mem{Base: g.p.tab, Disp: 64 * (1 + degree)}, g.lo)
				return
			}
			g.VMOVAPS(Mem{Base: g.p.tab, Disp: 128 * (1 + degree)}, g.lo)
			g.VMOVAPS(Mem{Base: g.p.tab, Disp: 128*(1+degree) + 64}, g.hi)
		})
	}
	lookup := func(j int, to VecPhysical) {
		if g.even {
			g.VPERMPS(g.lo, q.segment[j], to)
			return
		}
		g.VMOVAPS(g.lo, to)
		g.VPERMT2PS(g.hi, q.segment[j], to)
	}
	top := g.rateDegree
	if g.even {
		top = g.evenRateDegree
	}
	row(top)
	st.each(4, func(j int) { lookup(j, q.u[j]) })
	for degree := top - 1; degree >= 0; degree-- {
		row(degree)
		st.each(4, func(j int) {
			lookup(j, g.coefficient)
			g.VFMADD213PS(g.coefficient, q.argument[j], q.u[j])
		})
	}
	return st
}

// entries stores the raw gradient, and adds it and the teacher's side of the loss: pairs of vectors, then float64.
func (g *rate512) entries(q rateGroup, entry int) (st stream) {
	at := func(base Register, j int) Mem { return Mem{Base: base, Index: g.p.i, Scale: 4, Disp: 4*entry + 64*j} }
	raw, teacher, u := q.argument, q.segment, q.u
	above, below := []OpmaskPhysical{K1, K2, K3, K4}, []OpmaskPhysical{K5, K6}
	st.each(4, func(j int) { g.VCMPPS(Imm(0x12), g.spill(entry, j), g.fold, above[j]) }) // fold <= D
	st.each(4, func(j int) {
		odds := g.coefficient // with the pivot, which the student's U lacks; with psi_1/2's table, either side's
		g.VMOVUPS(g.spill(entry, j), odds)
		if g.even {
			g.VADDPS_BCST(g.arg("pivot"), u[j], teacher[j])
		} else {
			g.VADDPS_BCST(g.arg("pivot"), odds, odds)
			g.VMOVAPS(u[j], teacher[j])
		}
		g.VMOVAPS(u[j], raw[j])
		g.VSUBPS(odds, u[j], above[j], raw[j])
		g.KNOTW(above[j], below[j%2])
		g.VADDPS(odds, teacher[j], below[j%2], teacher[j])
	})
	st.each(4, func(j int) { g.VMULPS(at(g.ks, j), raw[j], raw[j]) })
	st.add(func() { g.VMULPS(at(g.kt, 0), teacher[0], u[0]) })
	for j := 1; j < 4; j++ {
		st.add(func() { g.VFMADD231PS(at(g.kt, j), teacher[j], u[0]) })
	}
	st.each(4, func(j int) { g.VMOVUPS(raw[j], at(g.p.g, j)) })
	st.add(func() { g.widen512(u[0], g.acc, u[1]) })
	st.add(func() { g.VADDPS(raw[1], raw[0], raw[0]) })
	st.add(func() { g.VADDPS(raw[3], raw[2], raw[2]) })
	st.add(func() { g.VADDPS(raw[2], raw[0], raw[0]) })
	st.add(func() { g.VEXTRACTF32X8(Imm(1), raw[0], u[2].AsY()) })
	st.add(func() { g.VCVTPS2PD(raw[0].AsY(), u[3]) })
	st.add(func() { g.VCVTPS2PD(u[2].AsY(), u[2]) })
	st.add(func() { g.VADDPD(u[2], g.accG, g.accG) })
	st.add(func() { g.VADDPD(u[3], g.accG, g.accG) })
	return st
}
