package main

import (
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// grad512 is the second pass, over kept exponentials, if entries are clipped, or for a gradient if beta is near 0 or 1
// or the sides are nearly equal. psi and rate use the same 32 segments, chosen by the sign of D and the exponent and
// two fraction bits of 1+|D|.
type grad512 struct {
	*generator
	d      dtype
	p      pointers
	ks, kt Register
	// Each slice holds four vectors. segment becomes the student's probability, odds the argument within the segment.
	student, segment, odds, rate, larger, psi []VecPhysical
	lo, hi                                    VecPhysical   // scratch: constants, or the halves of a table row
	tmp                                       []VecPhysical // two vectors of scratch
	acc, accG, far, clipped                   VecPhysical
}

func (g *generator) grad512(d dtype) {
	g.text("AVX512", kind{grad: true}.name()+d.name)
	q := grad512{
		generator: g, d: d, p: g.loadPointers(), ks: R12, kt: R13,
		student: zmm[0:4], segment: zmm[4:8], odds: zmm[8:12], rate: zmm[12:16], larger: zmm[16:20], psi: zmm[20:24],
		lo: Z24, hi: Z25, tmp: zmm[26:28], acc: Z28, accG: Z29, far: Z30, clipped: Z31,
	}
	g.zero512(q.acc, q.accG, q.far, q.clipped)
	g.MOVQ(g.arg("kept"), q.ks)
	g.MOVQ(g.arg("keptT"), q.kt)
	top := g.gradedDegree
	g.MOVL(g.arg("teacher"), R14L)
	g.KMOVW(R14L, K7)
	g.align()
	g.Label("loop")
	q.logOdds()
	q.place()
	q.polynomial(q.psi, 1, top)
	q.polynomial(q.rate, 2+top, top)
	q.entries()
	q.add()
	g.ADDQ(Imm(64), q.p.i)
	g.CMPQ(q.p.i, q.p.n)
	g.JLT(LabelRef("loop"))
	q.results()
	g.VZEROUPPER()
	g.RET()
}

// logOdds loads both sides and leaves D in odds, clamped to values that float32 can multiply.
func (g *grad512) logOdds() {
	g.load(wide, g.d, g.p.t, g.p.i, 0, g.odds, true)
	g.load(wide, g.d, g.p.s, g.p.i, 0, g.student, true)
	g.prefetch(linesAhead(g.d, true), g.p.step, g.p.pfs, g.p.pft)
	for _, t := range g.odds {
		g.VSUBPS_BCST(g.arg("rt"), t, t)
	}
	for _, s := range g.student {
		g.VSUBPS_BCST(g.arg("rs"), s, s)
	}
	g.VBROADCASTSS(g.arg("hk"), g.lo)
	g.VBROADCASTSS(g.arg("hd"), g.hi)
	for j, d := range g.odds {
		g.VSUBPS(g.student[j], d, d)
	}
	for _, d := range g.odds {
		g.VFMADD213PS(g.hi, g.lo, d)
	}
	for _, d := range g.odds {
		g.VRANGEPS(Imm(0xb), d, g.far, g.far) // largest |D|, ignoring NaN
	}
	g.VBROADCASTSS(g.wide.mem("far"), g.lo)
	for _, d := range g.odds {
		g.VRANGEPS(Imm(0x2), g.lo, d, d) // NaN becomes the limit
	}
}

// place finds the segment of D and the argument within it.
func (g *grad512) place() {
	g.VBROADCASTSS(g.wide.mem("geometricLimit"), g.lo)
	for j, d := range g.odds {
		g.VRANGEPS(Imm(0xa), g.lo, d, g.segment[j]) // |D| up to the limit
	}
	for _, s := range g.segment {
		g.VADDPS_BCST(g.wide.mem("1"), s, s)
	}
	for _, s := range g.segment {
		g.VPSRLD(Imm(21), s, s)
	}
	for j, d := range g.odds { // the sign of D becomes the bit above the segment's four bits
		sign := g.tmp[j%2]
		g.VPSRLD(Imm(27), d, sign)
		g.VPTERNLOGD_BCST(Imm(0xd8), g.wide.mem("16"), sign, g.segment[j])
	}
	g.row(0)
	for j, d := range g.odds {
		centre := g.tmp[j%2]
		g.lookup(j, centre)
		g.VSUBPS(centre, d, d)
	}
}

// row loads a row of the table; lookup selects a vector's segments from it.
func (g *grad512) row(r int) {
	g.VMOVAPS(Mem{Base: g.p.tab, Disp: r * 128}, g.lo)
	g.VMOVAPS(Mem{Base: g.p.tab, Disp: r*128 + 64}, g.hi)
}

func (g *grad512) lookup(j int, dst VecPhysical) {
	g.VMOVAPS(g.lo, dst)
	g.VPERMT2PS(g.hi, g.segment[j], dst)
}

// polynomial evaluates a polynomial of degree top, whose coefficients begin at row first of the table.
func (g *grad512) polynomial(dst []VecPhysical, first, top int) {
	g.row(first + top)
	for j, v := range dst {
		g.lookup(j, v)
	}
	for r := top - 1; r >= 0; r-- {
		g.row(first + r)
		for j, v := range dst {
			c := g.tmp[j%2]
			g.lookup(j, c)
			g.VFMADD213PS(c, g.odds[j], v)
		}
	}
}

// entries leaves the entries in psi and the raw gradient in rate.
func (g *grad512) entries() {
	kept := func(base Register, j int) Mem { return Mem{Base: base, Index: g.p.i, Scale: 4, Disp: 64 * j} }
	q := g.segment
	g.VBROADCASTSS(g.arg("ratio"), g.lo)
	for j := range q {
		g.VMULPS(kept(g.ks, j), g.lo, q[j])
	}
	for j := range q {
		g.VMAXPS(kept(g.kt, j), q[j], g.larger[j])
	}
	for j := range q {
		g.VMOVAPS(g.larger[j], K7, q[j])
	}
	for j, r := range g.rate {
		g.VMULPS(q[j], r, r)
	}
	for j, l := range g.psi {
		g.VMULPS(g.larger[j], l, l)
	}
	over := []OpmaskPhysical{K1, K2, K3, K4}
	g.VBROADCASTSS(g.arg("clip"), g.hi)
	for j, l := range g.psi {
		g.VCMPPS(Imm(0x1e), g.hi, l, over[j]) // entry > clip
	}
	for j, l := range g.psi {
		g.VMOVAPS(g.hi, over[j], l)
	}
	for j, r := range g.rate {
		g.VPXORD(r, r, over[j], r)
	}
	for j := range g.rate {
		g.VPADDD_BCST(g.wide.mem("one"), g.clipped, over[j], g.clipped)
	}
}

// add adds the entries and raw gradients to their sums, pairwise, so that fewer additions round against a large sum,
// and stores the raw gradients.
func (g *grad512) add() {
	entry, raw, t := g.psi, g.rate, g.tmp
	g.VADDPS(entry[1], entry[0], entry[0])
	g.VADDPS(entry[3], entry[2], entry[2])
	g.VADDPS(raw[1], raw[0], t[0])
	g.VADDPS(raw[3], raw[2], t[1])
	g.VADDPS(entry[2], entry[0], entry[0])
	g.VADDPS(t[1], t[0], t[0])
	g.widen512(entry[0], g.acc, entry[1])
	g.VEXTRACTF32X8(Imm(1), t[0], entry[1].AsY())
	g.VCVTPS2PD(t[0].AsY(), entry[2])
	g.VCVTPS2PD(entry[1].AsY(), entry[1])
	g.VADDPD(entry[1], g.accG, g.accG)
	g.VADDPD(entry[2], g.accG, g.accG)
	for j, r := range raw {
		g.VMOVUPS(r, Mem{Base: g.p.g, Index: g.p.i, Scale: 4, Disp: 64 * j})
	}
}

// results stores the sums, the largest |D| and the number of entries clipped.
func (g *grad512) results() {
	g.VCVTDQ2PS(g.clipped, g.clipped)
	g.sumLanes512(g.clipped, Z1)
	g.VMOVAPD(g.clipped.AsX(), X0)
	g.VCVTTSD2SIQ(X0, RAX)
	g.MOVQ(RAX, g.arg("clipped"))
	g.zero512(Z0)
	g.storeFloat64(g.arg("sumG"), g.accG, Z0, Z1)
	g.zero512(Z0)
	g.storeFloat64(g.arg("sum"), g.acc, Z0, Z1)
	g.maxLanes512(g.far, Z1)
	g.store32(g.far, g.arg("max"))
}
