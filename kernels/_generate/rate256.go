package main

import (
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// rate256 is like rate512, but with 8 segments, chosen by the exponent and first fraction bit of 1+|x|, and four
// vectors per step.
type rate256 struct {
	// Each slice holds four vectors. odds is x, then the argument within x's segment. segment becomes the raw gradient,
	// and u the teacher's rate.
	table256
	d              dtype
	p              pointers
	ks, kt, spills Register
	u              []VecPhysical
	other          VecPhysical // scratch
	acc, accG      VecPhysical
}

func (g *generator) rate256(d dtype) {
	g.text("AVX2", "rate"+d.name)
	p := g.loadPointers()
	q := rate256{
		table256: table256{generator: g, even: true, tab: p.tab, odds: ymm[0:4], segment: ymm[4:8], tmp: Y12},
		d:        d, p: p, ks: R12, kt: R13, spills: R15, u: ymm[8:12], other: Y13, acc: Y14, accG: Y15,
	}
	g.zero256(q.acc, q.accG)
	g.move("kept keptT odds", q.ks, q.kt, q.spills)
	g.loop(p.i, p.n, 32, func() {
		g.prefetch256(d, p)
		q.place()
		q.polynomial(q.u, 1, g.number("narrowRateDegree"), q.tmp)
		q.entries()
	})
	g.XORQ(R14, R14)
	g.MOVQ(R14, g.arg("clipped"))
	g.store256(q.accG, g.arg("sumG"))
	g.store256(q.acc, g.arg("sum"))
	g.end()
}

// spill returns the memory slot of a vector's x.
func (g *rate256) spill(j int) Mem { return Mem{Base: g.spills, Disp: 32 * j} }

// place loads both sides, spills x and finds the segment and the argument within it.
func (g *rate256) place() {
	x, t := g.odds, g.u
	g.load(narrow, g.d, g.p.t, g.p.i, 0, t, true)
	g.load(narrow, g.d, g.p.s, g.p.i, 0, x, true)
	g.broadcast("rt rs", g.tmp, g.other)
	for j := range x {
		g.VSUBPS(g.tmp, t[j], t[j])
		g.VSUBPS(g.other, x[j], x[j])
		g.VSUBPS(x[j], t[j], x[j])
	}
	g.broadcast("hk hd", g.tmp, g.other)
	each(g.VFMADD213PS, g.other, g.tmp, x)
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
	g.fromCentre(g.other)
}

// entries stores the raw gradient. It adds up four vectors of the raw gradient, and of the teacher's side of the loss,
// and adds the results to the float64 sums.
func (g *rate256) entries() {
	ks, kt, out := floats(narrow, g.ks, g.p.i, 0), floats(narrow, g.kt, g.p.i, 0), floats(narrow, g.p.g, g.p.i, 0)
	raw, teacher, zero := g.segment, g.u, g.other
	g.VXORPS(zero, zero, zero)
	for j := range raw {
		g.VMAXPS(g.spill(j), zero, g.tmp)
		g.VSUBPS(g.tmp, g.u[j], raw[j])
		g.VMINPS(g.spill(j), zero, g.tmp)
		g.VADDPS(g.tmp, g.u[j], teacher[j])
	}
	for j, r := range raw {
		g.VMULPS(ks.at(j), r, r)
		g.VMOVUPS(r, out.at(j))
	}
	sum := g.tmp
	g.VMULPS(kt.at(0), teacher[0], sum)
	for j := 1; j < len(teacher); j++ {
		g.VFMADD231PS(kt.at(j), teacher[j], sum)
	}
	g.widen256(sum, g.acc, sum, g.other)
	g.VADDPS(raw[1], raw[0], raw[0])
	g.VADDPS(raw[3], raw[2], raw[2])
	g.VADDPS(raw[2], raw[0], raw[0])
	g.widen256(raw[0], g.accG, raw[0], raw[1])
}
