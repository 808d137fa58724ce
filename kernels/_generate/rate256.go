package main

import (
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// rate256 is like rate512, but with 8 segments, chosen by the exponent and first fraction bit of 1+|x|, and four
// vectors per step.
type rate256 struct {
	*generator
	d            dtype
	p            pointers
	ks, kt, odds Register
	// Each slice holds four vectors. argument is x, then the argument within x's segment. segment becomes the raw
	// gradient, and u the teacher's rate.
	argument, segment, u []VecPhysical
	tmp, other           VecPhysical // scratch
	acc, accG            VecPhysical
}

func (g *generator) rate256(d dtype) {
	g.text("AVX2", "rate"+d.name)
	q := rate256{
		generator: g, d: d, p: g.loadPointers(), ks: R12, kt: R13, odds: R15,
		argument: ymm[0:4], segment: ymm[4:8], u: ymm[8:12], tmp: Y12, other: Y13, acc: Y14, accG: Y15,
	}
	g.VXORPS(q.acc, q.acc, q.acc)
	g.VXORPS(q.accG, q.accG, q.accG)
	g.MOVQ(g.arg("kept"), q.ks)
	g.MOVQ(g.arg("keptT"), q.kt)
	g.MOVQ(g.arg("odds"), q.odds)
	g.align()
	g.Label("loop")
	g.prefetch256(d, q.p)
	q.place()
	q.polynomial()
	q.entries()
	g.ADDQ(Imm(32), q.p.i)
	g.CMPQ(q.p.i, q.p.n)
	g.JLT(LabelRef("loop"))
	g.XORQ(R14, R14)
	g.MOVQ(R14, g.arg("clipped"))
	g.store256(q.accG, g.arg("sumG"))
	g.store256(q.acc, g.arg("sum"))
	g.VZEROUPPER()
	g.RET()
}

// spill returns the memory slot of a vector's x.
func (g *rate256) spill(j int) Mem { return Mem{Base: g.odds, Disp: 32 * j} }

// place loads both sides, spills x and finds the segment and the argument within it.
func (g *rate256) place() {
	x, t := g.argument, g.u
	g.load(narrow, g.d, g.p.t, g.p.i, 0, t, true)
	g.load(narrow, g.d, g.p.s, g.p.i, 0, x, true)
	g.VBROADCASTSS(g.arg("rt"), g.tmp)
	g.VBROADCASTSS(g.arg("rs"), g.other)
	for j := range x {
		g.VSUBPS(g.tmp, t[j], t[j])
		g.VSUBPS(g.other, x[j], x[j])
		g.VSUBPS(x[j], t[j], x[j])
	}
	g.VBROADCASTSS(g.arg("hk"), g.tmp)
	g.VBROADCASTSS(g.arg("hd"), g.other)
	for j := range x {
		g.VFMADD213PS(g.other, g.tmp, x[j])
	}
	g.VBROADCASTSS(g.arg("limit"), g.tmp)
	g.VXORPS(g.narrow.mem("sign"), g.tmp, g.other)
	for j := range x {
		g.VMINPS(g.tmp, x[j], x[j]) // NaN becomes the limit
		g.VMAXPS(g.other, x[j], x[j])
		g.VMOVUPS(x[j], g.spill(j))
		g.VANDPS(g.narrow.mem("abs"), x[j], x[j])
		g.VMINPS(g.narrow.mem("narrowLimit"), x[j], x[j])
		g.index256(x[j], g.segment[j])
	}
	for j := range x {
		g.VPERMPS(Mem{Base: g.p.tab}, g.segment[j], g.tmp)
		g.VSUBPS(g.tmp, x[j], x[j])
	}
}

// polynomial evaluates U.
func (g *rate256) polynomial() {
	row := func(degree int) Mem { return Mem{Base: g.p.tab, Disp: 32 * (1 + degree)} }
	for j, u := range g.u {
		g.VPERMPS(row(g.narrowRateDegree), g.segment[j], u)
	}
	for degree := g.narrowRateDegree - 1; degree >= 0; degree-- {
		for j, u := range g.u {
			g.VPERMPS(row(degree), g.segment[j], g.tmp)
			g.VFMADD213PS(g.tmp, g.argument[j], u)
		}
	}
}

// entries stores the raw gradient. It adds up four vectors of the raw gradient, and of the teacher's side of the loss,
// and adds the results to the float64 sums.
func (g *rate256) entries() {
	at := func(base Register, j int) Mem { return Mem{Base: base, Index: g.p.i, Scale: 4, Disp: 32 * j} }
	raw, teacher, zero := g.segment, g.u, g.other
	g.VXORPS(zero, zero, zero)
	for j := range raw {
		g.VMAXPS(g.spill(j), zero, g.tmp)
		g.VSUBPS(g.tmp, g.u[j], raw[j])
		g.VMINPS(g.spill(j), zero, g.tmp)
		g.VADDPS(g.tmp, g.u[j], teacher[j])
	}
	for j, r := range raw {
		g.VMULPS(at(g.ks, j), r, r)
		g.VMOVUPS(r, at(g.p.g, j))
	}
	sum := g.tmp
	g.VMULPS(at(g.kt, 0), teacher[0], sum)
	for j := 1; j < len(teacher); j++ {
		g.VFMADD231PS(at(g.kt, j), teacher[j], sum)
	}
	g.widen256(sum, g.acc, sum, g.other)
	g.VADDPS(raw[1], raw[0], raw[0])
	g.VADDPS(raw[3], raw[2], raw[2])
	g.VADDPS(raw[2], raw[0], raw[0])
	g.widen256(raw[0], g.accG, raw[0], raw[1])
}
