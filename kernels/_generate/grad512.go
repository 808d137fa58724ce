package main

import (
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// grad512 is a second pass over kept exponentials. It is used if entries are clipped and, for a gradient, if beta is
// near 0 or 1 or the sides are nearly equal. psi and rate use the same 32 segments, chosen by the sign of D and the
// exponent and two fraction bits of 1+|D|.
type grad512 struct {
	table512                // its segment becomes the student's probability
	d                       dtype
	p                       pointers
	ks, kt                  Register
	student                 []VecPhysical // four vectors, like the following
	rate, larger, psi       []VecPhysical
	acc, accG, far, clipped VecPhysical
}

func (g *generator) grad512(d dtype) {
	g.text("AVX512", "grad"+d.name)
	p := g.loadPointers()
	q := grad512{
		table512: table512{g, p.tab, zmm[8:12], zmm[4:8], Z24, Z25, zmm[26:28]},
		d:        d, p: p, ks: R12, kt: R13, student: zmm[0:4], rate: zmm[12:16], larger: zmm[16:20], psi: zmm[20:24],
		acc: Z28, accG: Z29, far: Z30, clipped: Z31,
	}
	g.zero512(q.acc, q.accG, q.far, q.clipped)
	g.move("kept keptT", q.ks, q.kt)
	top := g.number("gradedDegree")
	g.MOVL(g.arg("teacher"), R14L)
	g.KMOVW(R14L, K7)
	g.loop(p.i, p.n, 64, func() {
		q.logOdds()
		q.place()
		q.polynomial(q.psi, 1, top)
		q.polynomial(q.rate, 2+top, top)
		q.entries()
		q.add()
	})
	q.results()
	g.end()
}

// logOdds loads both sides and leaves D in odds, clamped to values that float32 can multiply.
func (g *grad512) logOdds() {
	g.load(wide, g.d, g.p.t, g.p.i, 0, g.odds, true)
	g.load(wide, g.d, g.p.s, g.p.i, 0, g.student, true)
	g.prefetch(linesAhead(g.d, true), g.p.step, g.p.pfs, g.p.pft)
	each(g.VSUBPS_BCST, g.arg("rt"), g.odds, g.odds)
	each(g.VSUBPS_BCST, g.arg("rs"), g.student, g.student)
	g.broadcast("hk hd", g.lo, g.hi)
	each(g.VSUBPS, g.student, g.odds, g.odds)
	each(g.VFMADD213PS, g.hi, g.lo, g.odds)
	each(g.VRANGEPS, Imm(0xb), g.odds, g.far, g.far) // largest |D|, ignoring NaN
	g.VBROADCASTSS(g.wide.mem("far"), g.lo)
	each(g.VRANGEPS, Imm(0x2), g.lo, g.odds, g.odds) // NaN becomes the limit
}

// place finds the segment of D and the argument within it.
func (g *grad512) place() {
	g.VBROADCASTSS(g.wide.mem("geometricLimit"), g.lo)
	each(g.VRANGEPS, Imm(0xa), g.lo, g.odds, g.segment) // |D| up to the limit
	each(g.VADDPS_BCST, g.wide.mem("1"), g.segment, g.segment)
	each(g.VPSRLD, Imm(21), g.segment, g.segment)
	for j, d := range g.odds { // the sign of D becomes the bit above the segment's four bits
		sign := g.tmp[j%2]
		g.VPSRLD(Imm(27), d, sign)
		g.VPTERNLOGD_BCST(Imm(0xd8), g.wide.mem("16"), sign, g.segment[j])
	}
	g.fromCentre()
}

// entries leaves the entries in psi and the raw gradient in rate.
func (g *grad512) entries() {
	q := g.segment
	g.VBROADCASTSS(g.arg("ratio"), g.lo)
	each(g.VMULPS, floats(wide, g.ks, g.p.i, 0), g.lo, q)
	each(g.VMAXPS, floats(wide, g.kt, g.p.i, 0), q, g.larger)
	each(g.VMOVAPS, g.larger, K7, q)
	each(g.VMULPS, q, g.rate, g.rate)
	each(g.VMULPS, g.larger, g.psi, g.psi)
	over := []OpmaskPhysical{K1, K2, K3, K4}
	g.VBROADCASTSS(g.arg("clip"), g.hi)
	each(g.VCMPPS, Imm(0x1e), g.hi, g.psi, over) // entry > clip
	each(g.VMOVAPS, g.hi, over, g.psi)
	each(g.VPXORD, g.rate, g.rate, over, g.rate)
	for _, k := range over {
		g.VPADDD_BCST(g.wide.mem("one"), g.clipped, k, g.clipped)
	}
}

// add adds the entries and the raw gradients to their sums, and stores the raw gradients. It adds them in pairs first,
// so that fewer additions are rounded to the precision of a large sum.
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
	each(g.VMOVUPS, raw, floats(wide, g.p.g, g.p.i, 0))
}

// results stores the sums, the largest |D| and the number of entries clipped.
func (g *grad512) results() {
	g.VCVTDQ2PS(g.clipped, g.clipped)
	g.VEXTRACTF32X8(Imm(1), g.clipped, Y1)
	g.VCVTPS2PD(g.clipped.AsY(), g.clipped)
	g.VCVTPS2PD(Y1, Z1)
	g.VADDPD(Z1, g.clipped, g.clipped)
	g.sumLanes512(g.clipped, Z1)
	g.VCVTTSD2SIQ(X0, RAX)
	g.MOVQ(RAX, g.arg("clipped"))
	g.storeSum512("sumG", g.accG)
	g.storeSum512("sum", g.acc)
	g.storeMax512(g.far)
}
