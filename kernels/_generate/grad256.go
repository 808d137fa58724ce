package main

import (
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// grad256 is the second pass for a gradient, over kept exponentials. psi and rate use the same segments. Two vectors
// are interleaved, twice per step.
type grad256 struct {
	*generator
	even   bool
	d      dtype
	p      pointers
	ks, kt Register
	// Each slice holds two vectors. odds becomes the argument within the segment, then the student's probability.
	// student becomes max(D, 0), which is subtracted twice from rate_1/2. segment has the sign of D in its top bit, and
	// then becomes the larger probability.
	odds, student, segment, psi, rate []VecPhysical
	tmp, late                         VecPhysical // scratch
	far, acc, accG                    VecPhysical
}

func (g *generator) grad256(d dtype, even bool) {
	g.text("AVX2", kind{even: even, grad: true}.name()+d.name)
	q := grad256{
		generator: g, even: even, d: d, p: g.loadPointers(), ks: R14, kt: R15,
		odds: ymm[0:2], student: ymm[2:4], segment: ymm[4:6], psi: ymm[6:8], rate: ymm[8:10],
		tmp: Y10, late: Y11, far: Y12, acc: Y13, accG: Y14,
	}
	for _, y := range []VecPhysical{q.far, q.acc, q.accG} {
		g.VXORPS(y, y, y)
	}
	g.MOVQ(g.arg("kept"), q.ks)
	g.MOVQ(g.arg("keptT"), q.kt)
	g.XORQ(R12, R12)
	top := g.signedDegree
	if even {
		top = g.narrowDegree
	}
	g.align()
	g.Label("loop")
	g.prefetch256(d, q.p)
	for u := range 2 {
		q.logOdds(entries256 * u)
		q.place()
		q.polynomial(q.psi, 1, top)
		q.polynomial(q.rate, 2+top, top)
		q.entries(entries256 * u)
		q.add(entries256 * u)
	}
	g.ADDQ(Imm(2*entries256), q.p.i)
	g.CMPQ(q.p.i, q.p.n)
	g.JLT(LabelRef("loop"))
	g.MOVQ(R12, g.arg("clipped"))
	g.store256(q.accG, g.arg("sumG"))
	g.store256(q.acc, g.arg("sum"))
	g.maxLanes256(q.far, Y1)
	g.VMOVSS(q.far.AsX(), g.arg("max"))
	g.VZEROUPPER()
	g.RET()
}

// logOdds loads both sides, starting at an entry, and leaves D in odds, clamped to values that float32 can multiply.
func (g *grad256) logOdds(entry int) {
	g.load(narrow, g.d, g.p.t, g.p.i, entry, g.odds, true)
	g.load(narrow, g.d, g.p.s, g.p.i, entry, g.student, true)
	g.VBROADCASTSS(g.arg("rt"), g.tmp)
	for _, t := range g.odds {
		g.VSUBPS(g.tmp, t, t)
	}
	g.VBROADCASTSS(g.arg("rs"), g.tmp)
	for _, s := range g.student {
		g.VSUBPS(g.tmp, s, s)
	}
	for j, d := range g.odds {
		g.VSUBPS(g.student[j], d, d)
	}
	g.VBROADCASTSS(g.arg("hk"), g.tmp)
	g.VBROADCASTSS(g.arg("hd"), g.late)
	for _, d := range g.odds {
		g.VFMADD213PS(g.late, g.tmp, d)
	}
	if !g.even {
		for j, d := range g.odds {
			g.VANDPS(g.narrow.mem("abs"), d, g.segment[j])
			g.VMAXPS(g.far, g.segment[j], g.far) // NaN leaves far unchanged
		}
	}
	for _, d := range g.odds {
		g.VMINPS(g.narrow.mem("far"), d, d) // NaN becomes the limit
		g.VMAXPS(g.narrow.mem("-far"), d, d)
	}
}

// place finds the segment of D and the argument within it.
func (g *grad256) place() {
	for j, d := range g.odds {
		size := g.segment[j]
		g.VANDPS(g.narrow.mem("abs"), d, size)
		g.VMINPS(g.narrow.mem("narrowLimit"), size, size)
	}
	if g.even {
		g.VXORPS(g.tmp, g.tmp, g.tmp)
		for j, d := range g.odds {
			g.VMAXPS(g.tmp, d, g.student[j])
			g.VMOVAPS(g.segment[j], d)
		}
	}
	for j, d := range g.odds {
		g.index256(g.segment[j], g.segment[j])
		if !g.even {
			g.VANDPS(g.narrow.mem("sign"), d, g.tmp)
			g.VPOR(g.tmp, g.segment[j], g.segment[j])
		}
	}
	for j, d := range g.odds {
		g.lookup(0, j, g.tmp)
		g.VSUBPS(g.tmp, d, d)
	}
}

func (g *grad256) lookup(r, j int, dst VecPhysical) {
	g.lookup256(g.even, g.p.tab, r, g.segment[j], g.segment[j], dst, g.late)
}

// polynomial evaluates a polynomial of degree top, whose coefficients begin at row first of the table.
func (g *grad256) polynomial(dst []VecPhysical, first, top int) {
	for j, v := range dst {
		g.lookup(first+top, j, v)
	}
	for r := top - 1; r >= 0; r-- {
		for j, v := range dst {
			g.lookup(first+r, j, g.tmp)
			g.VFMADD213PS(g.tmp, g.odds[j], v)
		}
	}
}

// entries leaves the entries in psi and the raw gradient in rate. The general table clips.
func (g *grad256) entries(entry int) {
	kept := func(base Register, j int) Mem { return Mem{Base: base, Index: g.p.i, Scale: 4, Disp: 4*entry + 32*j} }
	q, larger := g.odds, g.segment
	g.VBROADCASTSS(g.arg("ratio"), g.tmp)
	for j := range q {
		g.VMULPS(kept(g.ks, j), g.tmp, q[j])
		g.VMAXPS(kept(g.kt, j), q[j], larger[j])
	}
	if !g.even {
		g.VBROADCASTSS(g.arg("teacher"), g.tmp)
	}
	for j, r := range g.rate {
		if g.even {
			g.VFNMADD231PS(g.narrow.mem("two"), g.student[j], r)
		} else {
			g.VBLENDVPS(g.tmp, larger[j], q[j], q[j])
		}
	}
	for j, r := range g.rate {
		g.VMULPS(q[j], r, r)
		g.VMULPS(larger[j], g.psi[j], g.psi[j])
	}
	if g.even {
		return
	}
	over := q
	g.VBROADCASTSS(g.arg("clip"), g.tmp)
	for j, l := range g.psi {
		g.VCMPPS(Imm(0x1e), g.tmp, l, over[j]) // entry > clip
		g.VMINPS(g.tmp, l, l)
		g.VANDNPS(g.rate[j], over[j], g.rate[j])
		g.VMOVMSKPS(over[j], R13L)
		g.POPCNTL(R13L, R13L)
		g.ADDQ(R13, R12)
	}
}

// add adds the entries and raw gradients to their sums, and stores the raw gradients starting at the given entry.
func (g *grad256) add(entry int) {
	g.VADDPS(g.psi[1], g.psi[0], g.psi[0])
	g.VADDPS(g.rate[1], g.rate[0], g.tmp)
	g.widen256(g.psi[0], g.acc, g.psi[0], g.late)
	g.widen256(g.tmp, g.accG, g.tmp, g.late)
	for j, r := range g.rate {
		g.VMOVUPS(r, Mem{Base: g.p.g, Index: g.p.i, Scale: 4, Disp: 4*entry + 32*j})
	}
}

// finish256 computes out = (g + q*qk) * gk, where q was stored by the first pass.
func (g *generator) finish256() {
	g.text("AVX2", "finish")
	kept, raw, out, n, i := RDI, RSI, RBX, RCX, RAX
	g.MOVQ(g.arg("kept"), kept)
	g.MOVQ(g.arg("g"), raw)
	g.MOVQ(g.arg("out"), out)
	g.MOVQ(g.arg("n"), n)
	g.XORQ(i, i)
	G := ymm[0:4]
	qk, gk, top := Y11, Y12, Y13
	g.VBROADCASTSS(g.arg("qk"), qk)
	g.VBROADCASTSS(g.arg("gk"), gk)
	g.VXORPS(top, top, top)
	at := func(base Register, j int) Mem { return Mem{Base: base, Index: i, Scale: 4, Disp: 32 * j} }
	g.align()
	g.Label("loop")
	for j := range G {
		g.VMOVUPS(at(raw, j), G[j])
	}
	for j := range G {
		g.VFMADD231PS(at(kept, j), qk, G[j])
	}
	for j := range G {
		g.VMULPS(G[j], gk, G[j])
	}
	for j := range G {
		g.VMOVUPS(G[j], at(out, j))
	}
	for j := range G {
		g.VANDPS(g.narrow.mem("abs"), G[j], G[j])
		g.VMAXPS(G[j], top, top)
	}
	g.ADDQ(Imm(32), i)
	g.CMPQ(i, n)
	g.JLT(LabelRef("loop"))
	g.maxLanes256(top, Y1)
	g.VMOVSS(top.AsX(), g.arg("max"))
	g.VZEROUPPER()
	g.RET()
}
