package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

func (g *generator) wideConstants() {
	c := g.newConstants("one512", 1)
	for i, v := range expFloor {
		c.add(fmt.Sprint("e", i), bits(v))
	}
	c.add("lift", bits(float64(g.klLift)))
	c.add("magic", bits(1.5*(1<<23)))
	c.add("limit", bits(15.99))
	c.add("far", bits(1e30))
	c.add("-far", bits(-1e30))
	c.add("one", U32(1))
	c.add("16", U32(16))
	c.add("1", bits(1))
	c.add("geometricLimit", bits(14.999))
	c.add("sign", U32(1<<31))
	c.add("high", U32(0xffff0000))
	c.add("abs", U32(1<<31-1))
	g.wide = c
}

// sumLanes512 leaves the float64 sum of z's lanes in its low lane.
func (g *generator) sumLanes512(z, tmp VecPhysical) {
	g.VEXTRACTF32X8(Imm(1), z, tmp.AsY())
	g.VCVTPS2PD(z.AsY(), z)
	g.VCVTPS2PD(tmp.AsY(), tmp)
	g.VADDPD(tmp, z, z)
	g.VEXTRACTF64X4(Imm(1), z, tmp.AsY())
	g.VADDPD(tmp.AsY(), z.AsY(), z.AsY())
	g.VEXTRACTF64X2(Imm(1), z.AsY(), tmp.AsX())
	g.VADDPD(tmp.AsX(), z.AsX(), z.AsX())
	g.VPERMILPD(Imm(1), z.AsX(), tmp.AsX())
	g.VADDSD(tmp.AsX(), z.AsX(), z.AsX())
}

// addFloat64 adds v's lanes to two float64 accumulators.
func (g *generator) addFloat64(v, acc0, acc1, t0, t1 VecPhysical) {
	g.VEXTRACTF32X8(Imm(1), v, t0.AsY())
	g.VCVTPS2PD(v.AsY(), t1)
	g.VCVTPS2PD(t0.AsY(), t0)
	g.VADDPD(t1, acc0, acc0)
	g.VADDPD(t0, acc1, acc1)
}

// widen512 adds v's lanes, in pairs, to a float64 accumulator.
func (g *generator) widen512(v, acc, t VecPhysical) {
	g.VEXTRACTF32X8(Imm(1), v, t.AsY())
	g.VADDPS(t.AsY(), v.AsY(), v.AsY())
	g.VCVTPS2PD(v.AsY(), v)
	g.VADDPD(v, acc, acc)
}

// storeFloat64 stores the sum of two float64 accumulators.
func (g *generator) storeFloat64(to Mem, acc0, acc1, t VecPhysical) {
	g.VADDPD(acc1, acc0, acc0)
	g.VEXTRACTF64X4(Imm(1), acc0, t.AsY())
	g.VADDPD(t.AsY(), acc0.AsY(), acc0.AsY())
	g.VEXTRACTF64X2(Imm(1), acc0.AsY(), t.AsX())
	g.VADDPD(t.AsX(), acc0.AsX(), acc0.AsX())
	g.VPERMILPD(Imm(1), acc0.AsX(), t.AsX())
	g.VADDSD(t.AsX(), acc0.AsX(), acc0.AsX())
	g.store64(acc0, to)
}

func (g *generator) maxLanes512(z, tmp VecPhysical) {
	g.VEXTRACTF32X8(Imm(1), z, tmp.AsY())
	g.VMAXPS(tmp.AsY(), z.AsY(), z.AsY())
	g.VEXTRACTF32X4(Imm(1), z.AsY(), tmp.AsX())
	g.VMAXPS(tmp.AsX(), z.AsX(), z.AsX())
	g.VPERMILPS(Imm(0x4e), z.AsX(), tmp.AsX())
	g.VMAXPS(tmp.AsX(), z.AsX(), z.AsX())
	g.VPERMILPS(Imm(0xb1), z.AsX(), tmp.AsX())
	g.VMAXPS(tmp.AsX(), z.AsX(), z.AsX())
}

// store64 stores the low float64 of z; avo lacks VMOVSD for high registers.
func (g *generator) store64(z VecPhysical, to Mem) {
	g.VMOVAPD(z.AsX(), X0)
	g.VMOVSD(X0, to)
}

func (g *generator) store32(z VecPhysical, to Mem) {
	g.VMOVAPS(z.AsX(), X0)
	g.VMOVSS(X0, to)
}

func (g *generator) zero512(z ...VecPhysical) {
	for _, v := range z {
		g.VPXORD(v, v, v)
	}
}

// exp2_512 computes p = 2^y; f, t0 and t1 are scratch. -Inf gives 0; +Inf and NaN are preserved.
func (g *generator) exp2_512(y, f, p []VecPhysical, t0, t1 VecPhysical) {
	for j := range y {
		g.VREDUCEPS(Imm(9), y[j], f[j]) // y - floor(y)
	}
	g.leading512(t0, t1)
	for j := range y {
		g.VMOVAPS(t0, p[j])
	}
	for j := range y {
		g.VFMADD213PS(t1, f[j], p[j])
	}
	for _, n := range []string{"e3", "e2", "e1", "e0"} {
		for j := range y {
			g.VFMADD213PS_BCST(g.wide.mem(n), f[j], p[j])
		}
	}
	for j := range y {
		g.VSCALEFPS(y[j], p[j], p[j])
	}
}

// leading512 loads the two highest coefficients of 2^f.
func (g *generator) leading512(e5, e4 VecPhysical) {
	g.VBROADCASTSS(g.wide.mem("e5"), e5)
	g.VBROADCASTSS(g.wide.mem("e4"), e4)
}

func (g *generator) max512(d dtype) {
	g.largest("AVX512", wide, d, zmm)
	g.maxLanes512(Z0, Z1)
	g.store32(Z0, g.arg("max"))
	g.VZEROUPPER()
	g.RET()
}

// second512 is the second pass without a gradient: 64 entries a step, four vectors interleaved so that the scheduler
// sees four chains.
type second512 struct {
	*generator
	d dtype
	p pointers
	// Each slice holds four vectors. student becomes the larger side's log2 probability, teacher the index of the
	// segment, and odds the argument within it. fraction is scratch of exp2, and larger the larger side's probability.
	student, teacher, odds, fraction, larger, psi []VecPhysical
	lo, hi                                        VecPhysical   // scratch: constants, or the halves of a table row
	tmp                                           []VecPhysical // two vectors of scratch
	acc, far                                      VecPhysical
}

func (g *generator) jsd512(d dtype, kept bool) {
	g.text("AVX512", kind{kept: kept}.name()+d.name)
	q := second512{
		generator: g, d: d, p: g.loadPointers(),
		student: zmm[0:4], teacher: zmm[4:8], odds: zmm[8:12],
		fraction: zmm[12:16], larger: zmm[16:20], psi: zmm[20:24],
		lo: Z24, hi: Z25, tmp: zmm[26:28],
		acc: Z28, far: Z30,
	}
	g.zero512(q.acc, q.far)
	ks, kt := R12, R13
	if kept {
		g.MOVQ(g.arg("kept"), ks)
		g.MOVQ(g.arg("keptT"), kt)
	}
	g.align()
	g.Label("loop")
	if kept {
		q.keptOdds()
		q.segment()
		q.polynomial()
		q.keptLarger(ks, kt)
	} else {
		q.logProbabilities()
		q.segment()
		g.exp2_512(q.student, q.fraction, q.larger, q.lo, q.hi)
		q.polynomial()
	}
	q.addEntries()
	g.ADDQ(Imm(64), q.p.i)
	g.CMPQ(q.p.i, q.p.n)
	g.JLT(LabelRef("loop"))
	g.zero512(Z0)
	g.storeFloat64(g.arg("sum"), q.acc, Z0, Z1)
	g.maxLanes512(q.far, Z1)
	g.store32(q.far, g.arg("max"))
	g.VZEROUPPER()
	g.RET()
}

// logProbabilities loads both sides and leaves D in odds and the larger side's log2 probability in student.
func (g *second512) logProbabilities() {
	g.load(wide, g.d, g.p.s, g.p.i, 0, g.student, false)
	g.load(wide, g.d, g.p.t, g.p.i, 0, g.teacher, false)
	g.prefetch(linesAhead(g.d, true), g.p.step, g.p.pfs, g.p.pft)
	g.VBROADCASTSS(g.arg("rs"), g.lo)
	g.VBROADCASTSS(g.arg("rt"), g.hi)
	for _, s := range g.student {
		g.VSUBPS(g.lo, s, s)
	}
	for _, t := range g.teacher {
		g.VSUBPS(g.hi, t, t)
	}
	g.VBROADCASTSS(g.arg("hk"), g.lo)
	g.VBROADCASTSS(g.arg("hd"), g.hi)
	for j, d := range g.odds {
		g.VSUBPS(g.student[j], g.teacher[j], d)
	}
	for _, d := range g.odds {
		g.VFMADD213PS(g.hi, g.lo, d) // D = (t'-s')*hk + hd
	}
	g.VBROADCASTSS(g.arg("k"), g.lo)
	for _, s := range g.student {
		g.VFMADD213PS_BCST(g.arg("nls"), g.lo, s)
	}
	for _, t := range g.teacher {
		g.VFMADD213PS_BCST(g.arg("nlt"), g.lo, t)
	}
	for j, s := range g.student {
		g.VMAXPS(g.teacher[j], s, s)
	}
	g.VBROADCASTSS(g.wide.mem("magic"), g.hi)
}

// keptOdds loads both sides and leaves D in odds.
func (g *second512) keptOdds() {
	if g.d == f32 {
		for j, d := range g.odds {
			g.VMOVUPS(Mem{Base: g.p.t, Index: g.p.i, Scale: 4, Disp: 64 * j}, d)
		}
		for j, d := range g.odds {
			g.VSUBPS(Mem{Base: g.p.s, Index: g.p.i, Scale: 4, Disp: 64 * j}, d, d)
		}
	} else {
		g.load(wide, g.d, g.p.s, g.p.i, 0, g.student, false)
		g.load(wide, g.d, g.p.t, g.p.i, 0, g.odds, false)
		for j, d := range g.odds {
			g.VSUBPS(g.student[j], d, d)
		}
	}
	g.prefetch(linesAhead(g.d, true), g.p.step, g.p.pfs, g.p.pft)
	g.VBROADCASTSS(g.arg("hk"), g.lo)
	g.VBROADCASTSS(g.arg("hd"), g.hi)
	for _, d := range g.odds {
		g.VFMADD213PS(g.hi, g.lo, d)
	}
	g.VBROADCASTSS(g.wide.mem("magic"), g.hi)
}

// keptLarger leaves the larger side's probability, relative to the teacher's normaliser, in larger.
func (g *second512) keptLarger(ks, kt Register) {
	g.VBROADCASTSS(g.arg("ratio"), g.lo)
	for j, l := range g.larger {
		g.VMULPS(Mem{Base: ks, Index: g.p.i, Scale: 4, Disp: 64 * j}, g.lo, l)
	}
	for j, l := range g.larger {
		g.VMAXPS(Mem{Base: kt, Index: g.p.i, Scale: 4, Disp: 64 * j}, l, l)
	}
}

// segment finds the segment of D and the argument within it. The segment is left in the low bits of teacher.
func (g *second512) segment() {
	for _, d := range g.odds {
		g.VRANGEPS(Imm(0xb), d, g.far, g.far) // largest |D|, ignoring NaN
	}
	g.VBROADCASTSS(g.wide.mem("far"), g.lo)
	for _, d := range g.odds {
		g.VRANGEPS(Imm(0x2), g.lo, d, d)
	}
	g.VBROADCASTSS(g.wide.mem("limit"), g.lo)
	for j, d := range g.odds {
		g.VRANGEPS(Imm(0x2), g.lo, d, g.teacher[j])
	}
	for _, t := range g.teacher {
		g.VADDPS_RD_SAE(g.hi, t, t)
	}
	g.row(0)
	for j, d := range g.odds {
		centre := g.tmp[j%2]
		g.lookup(j, centre)
		g.VSUBPS(centre, d, d)
	}
}

// row loads a row of the table; lookup selects a vector's segments from it.
func (g *second512) row(r int) {
	g.VMOVAPS(Mem{Base: g.p.tab, Disp: r * 128}, g.lo)
	g.VMOVAPS(Mem{Base: g.p.tab, Disp: r*128 + 64}, g.hi)
}

func (g *second512) lookup(j int, dst VecPhysical) {
	g.VMOVAPS(g.lo, dst)
	g.VPERMT2PS(g.hi, g.teacher[j], dst)
}

// polynomial evaluates psi.
func (g *second512) polynomial() {
	g.row(1 + g.degree)
	for j, psi := range g.psi {
		g.lookup(j, psi)
	}
	for r := g.degree; r >= 1; r-- {
		g.row(r)
		for j, psi := range g.psi {
			c := g.tmp[j%2]
			g.lookup(j, c)
			g.VFMADD213PS(c, g.odds[j], psi)
		}
	}
}

// addEntries adds up four vectors, then adds their sum to the float64 accumulator. In a large float32 sum, the
// additions of many equal terms would all be rounded in the same direction.
func (g *second512) addEntries() {
	sum := g.tmp[0]
	g.VMULPS(g.larger[0], g.psi[0], sum)
	for j := 1; j < len(g.psi); j++ {
		g.VFMADD231PS(g.larger[j], g.psi[j], sum)
	}
	g.widen512(sum, g.acc, g.lo)
}

// finish512 computes out = (g + q*qk) * gk, where q was stored by the first pass. The streaming version, for an out on
// a 64-byte boundary, bypasses the caches: otherwise a large gradient would be read before it is written.
func (g *generator) finish512(stream bool) {
	name := "finish"
	if stream {
		name = "stream"
	}
	g.text("AVX512", name)
	kept, raw, out, n, i := RDI, RSI, RBX, RCX, RAX
	g.MOVQ(g.arg("kept"), kept)
	g.MOVQ(g.arg("g"), raw)
	g.MOVQ(g.arg("out"), out)
	g.MOVQ(g.arg("n"), n)
	g.XORQ(i, i)
	G := zmm[0:4]
	qk, gk, top := Z19, Z20, Z21
	g.VBROADCASTSS(g.arg("qk"), qk)
	g.VBROADCASTSS(g.arg("gk"), gk)
	g.zero512(top)
	at := func(base Register, j int) Mem { return Mem{Base: base, Index: i, Scale: 4, Disp: 64 * j} }
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
		g.VRANGEPS(Imm(0xb), G[j], top, top)
	}
	for j := range G {
		g.store512(G[j], at(out, j), stream)
	}
	g.ADDQ(Imm(64), i)
	g.CMPQ(i, n)
	g.JLT(LabelRef("loop"))
	if stream {
		g.SFENCE()
	}
	g.maxLanes512(top, Z1)
	g.store32(top, g.arg("max"))
	g.VZEROUPPER()
	g.RET()
}

// store512 stores a vector, bypassing the caches if it is streamed.
func (g *generator) store512(v VecPhysical, to Mem, stream bool) {
	if stream {
		g.VMOVNTPS(v, to)
	} else {
		g.VMOVUPS(v, to)
	}
}
