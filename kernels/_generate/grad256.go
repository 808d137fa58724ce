package main

import (
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// grad256 is the second pass for a gradient, over kept exponentials. psi and rate use the same segments. Two vectors
// are interleaved, twice per step.
type grad256 struct {
	// Each slice holds two vectors. odds becomes the argument within the segment, then the student's probability.
	// student becomes max(D, 0), which is subtracted twice from rate_1/2. segment has the sign of D in its top bit, and
	// then becomes the larger probability.
	table256
	d                  dtype
	p                  pointers
	ks, kt             Register
	student, psi, rate []VecPhysical
	late               VecPhysical // scratch
	far, acc, accG     VecPhysical
}

func (g *generator) grad256(d dtype, even bool) {
	g.text("AVX2", "grad"+choose(even, "Even", "")+d.name)
	p := g.loadPointers()
	q := grad256{
		table256: table256{g, even, p.tab, ymm[0:2], ymm[4:6], ymm[4:6], Y10},
		d:        d, p: p, ks: R14, kt: R15, student: ymm[2:4], psi: ymm[6:8], rate: ymm[8:10],
		late: Y11, far: Y12, acc: Y13, accG: Y14,
	}
	g.zero256(q.far, q.acc, q.accG)
	g.move("kept keptT", q.ks, q.kt)
	g.XORQ(R12, R12)
	top := g.degree256(even)
	g.twice256(d, p, func(entry int) {
		q.logOdds(entry)
		q.place()
		q.polynomial(q.psi, 1, top, q.late)
		q.polynomial(q.rate, 2+top, top, q.late)
		q.entries(entry)
		q.add(entry)
	})
	g.MOVQ(R12, g.arg("clipped"))
	g.store256(q.accG, g.arg("sumG"))
	g.store256(q.acc, g.arg("sum"))
	g.storeMax256(q.far)
	g.end()
}

// logOdds loads both sides, starting at an entry, and leaves D in odds, clamped to values that float32 can multiply.
func (g *grad256) logOdds(entry int) {
	g.load(narrow, g.d, g.p.t, g.p.i, entry, g.odds, true)
	g.load(narrow, g.d, g.p.s, g.p.i, entry, g.student, true)
	g.VBROADCASTSS(g.arg("rt"), g.tmp)
	each(g.VSUBPS, g.tmp, g.odds, g.odds)
	g.VBROADCASTSS(g.arg("rs"), g.tmp)
	each(g.VSUBPS, g.tmp, g.student, g.student)
	each(g.VSUBPS, g.student, g.odds, g.odds)
	g.broadcast("hk hd", g.tmp, g.late)
	each(g.VFMADD213PS, g.late, g.tmp, g.odds)
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
	g.fromCentre(g.late)
}

// entries leaves the entries in psi and the raw gradient in rate. The general table clips.
func (g *grad256) entries(entry int) {
	ks, kt := floats(narrow, g.ks, g.p.i, entry), floats(narrow, g.kt, g.p.i, entry)
	q, larger := g.odds, g.segment
	g.VBROADCASTSS(g.arg("ratio"), g.tmp)
	for j := range q {
		g.VMULPS(ks.at(j), g.tmp, q[j])
		g.VMAXPS(kt.at(j), q[j], larger[j])
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
	each(g.VMOVUPS, g.rate, floats(narrow, g.p.g, g.p.i, entry))
}

// finish256 computes out = (g + q*qk) * gk, where q was stored by the first pass.
func (g *generator) finish256() {
	G, qk, gk, top := ymm[0:4], Y11, Y12, Y13
	g.text("AVX2", "finish")
	g.finish(narrow, G, qk, gk, func() { g.zero256(top) }, func(out memory) {
		each(g.VMOVUPS, G, out)
		for _, v := range G {
			g.VANDPS(g.narrow.mem("abs"), v, v)
			g.VMAXPS(v, top, top)
		}
	})
	g.storeMax256(top)
	g.end()
}
