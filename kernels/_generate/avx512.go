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
	for i, v := range expFloor {
		c.add(fmt.Sprint("lifted e", i), bits(v*float64(g.klLift)))
	}
	c.add("magic", bits(1.5*(1<<23)))
	c.add("evenLimit", bits(31.99))
	c.add("limit", bits(15.99))
	c.add("far", bits(1e30))
	c.add("-far", bits(-1e30))
	c.add("one", U32(1))
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

// store64 stores the low float64 of z; VMOVSD of a high register is not an instruction that avo has.
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

// exp2_512 is p = 2^y; f, t0 and t1 are scratch. -Inf gives 0; +Inf and NaN are preserved.
func (g *generator) exp2_512(y, f, p []VecPhysical, t0, t1 VecPhysical) {
	g.fractions512(y, f)
	g.leading512("", t0, t1)
	g.powers512("", y, f, p, t0, t1)
}

// fractions512 is f = y - floor(y).
func (g *generator) fractions512(y, f []VecPhysical) {
	for j := range y {
		g.VREDUCEPS(Imm(9), y[j], f[j])
	}
}

// leading512 loads the two highest coefficients of 2^f. lifted is empty, or "lifted " for 2^f times klLift.
func (g *generator) leading512(lifted string, e5, e4 VecPhysical) {
	g.VBROADCASTSS(g.wide.mem(lifted+"e5"), e5)
	g.VBROADCASTSS(g.wide.mem(lifted+"e4"), e4)
}

// powers512 is p = 2^y of y and its fraction f.
func (g *generator) powers512(lifted string, y, f, p []VecPhysical, e5, e4 VecPhysical) {
	for j := range y {
		g.VMOVAPS(e5, p[j])
	}
	for j := range y {
		g.VFMADD213PS(e4, f[j], p[j])
	}
	for _, n := range []string{"e3", "e2", "e1", "e0"} {
		for j := range y {
			g.VFMADD213PS_BCST(g.wide.mem(lifted+n), f[j], p[j])
		}
	}
	for j := range y {
		g.VSCALEFPS(y[j], p[j], p[j])
	}
}

func (g *generator) max512(d dtype) {
	g.largest("AVX512", wide, d, zmm)
	g.maxLanes512(Z0, Z1)
	g.store32(Z0, g.arg("max"))
	g.VZEROUPPER()
	g.RET()
}

// second512 is the second pass: 64 entries a step, four vectors interleaved so that the scheduler sees four chains.
type second512 struct {
	*generator
	kind
	d dtype
	p pointers
	// Four vectors each. student becomes the larger side's log2 probability, then psi's derivative; teacher the index
	// of the segment; odds the argument within it; fraction that of exp2, then the raw gradient; larger is 2^hi.
	student, teacher, odds, fraction, larger, psi []VecPhysical
	studentLarger                                 []OpmaskPhysical
	lo, hi                                        VecPhysical   // scratch: constants, or the halves of a table row
	tmp                                           []VecPhysical // two vectors of scratch
	acc, accG, far, clipped                       VecPhysical
}

func (g *generator) jsd512(d dtype, k kind) {
	g.text("AVX512", k.name()+d.name)
	q := second512{
		generator: g, kind: k, d: d, p: g.loadPointers(),
		student: zmm[0:4], teacher: zmm[4:8], odds: zmm[8:12],
		fraction: zmm[12:16], larger: zmm[16:20], psi: zmm[20:24],
		studentLarger: []OpmaskPhysical{K1, K2, K3, K4},
		lo:            Z24, hi: Z25, tmp: zmm[26:28],
		acc: Z28, accG: Z29, far: Z30, clipped: Z31,
	}
	g.zero512(q.acc, q.accG, q.far, q.clipped)
	ks, kt := R12, R13
	if k.kept {
		g.MOVQ(g.arg("kept"), ks)
		g.MOVQ(g.arg("keptT"), kt)
	}
	g.align()
	g.Label("loop")
	if k.kept {
		q.keptOdds()
	} else {
		q.logProbabilities()
	}
	if k.even {
		q.evenSegment()
	} else {
		q.segment()
	}
	if k.kept {
		q.polynomial()
		q.keptLarger(ks, kt)
	} else {
		q.power()
		q.polynomial()
	}
	if k.grad {
		q.gradient()
		q.addGradient()
	} else {
		q.addEntries()
	}
	g.ADDQ(Imm(64), q.p.i)
	g.CMPQ(q.p.i, q.p.n)
	g.JLT(LabelRef("loop"))
	q.results()
	g.VZEROUPPER()
	g.RET()
}

// logProbabilities loads both sides and leaves D in odds and the larger side's log2 probability in student.
func (g *second512) logProbabilities() {
	g.load(wide, g.d, g.p.s, g.p.i, 0, g.student, g.grad)
	g.load(wide, g.d, g.p.t, g.p.i, 0, g.teacher, g.grad)
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
	if g.grad {
		for j, d := range g.odds {
			g.VPMOVD2M(d, g.studentLarger[j])
		}
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
		g.load(wide, g.d, g.p.s, g.p.i, 0, g.student, g.grad)
		g.load(wide, g.d, g.p.t, g.p.i, 0, g.odds, g.grad)
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
	if g.grad {
		for j, d := range g.odds {
			g.VPMOVD2M(d, g.studentLarger[j])
		}
	}
	g.VBROADCASTSS(g.wide.mem("magic"), g.hi)
}

// power leaves 2^hi in larger, lifted where the student's side is larger.
func (g *second512) power() {
	g.exp2_512(g.student, g.fraction, g.larger, g.lo, g.hi)
	if g.grad {
		for j, l := range g.larger {
			g.VMULPS_BCST(g.arg("lift"), l, g.studentLarger[j], l)
		}
	}
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

// evenSegment finds the segment of |D| and the argument within it. The segment is left in the low bits of teacher.
func (g *second512) evenSegment() {
	g.VBROADCASTSS(g.wide.mem("evenLimit"), g.lo)
	for _, d := range g.odds {
		g.VRANGEPS(Imm(0xa), g.lo, d, d) // |D| up to the limit; NaN becomes the limit
	}
	for j, d := range g.odds {
		g.VADDPS_RD_SAE(g.hi, d, g.teacher[j])
	}
	for _, d := range g.odds {
		g.VREDUCEPS(Imm(9), d, d) // |D| - floor
	}
}

// segment is evenSegment for the general table, by D, with the argument relative to the segment's centre and no limit.
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

// row loads a row of the table, lookup selects a vector's segments from it.
func (g *second512) row(r int) {
	g.VMOVAPS(Mem{Base: g.p.tab, Disp: r * 128}, g.lo)
	g.VMOVAPS(Mem{Base: g.p.tab, Disp: r*128 + 64}, g.hi)
}

func (g *second512) lookup(j int, dst VecPhysical) {
	g.VMOVAPS(g.lo, dst)
	g.VPERMT2PS(g.hi, g.teacher[j], dst)
}

// polynomial evaluates psi and, for the gradient, its derivative, which takes the place of student.
func (g *second512) polynomial() {
	top, first, slope := g.degree, 1, g.student
	if g.even {
		top, first = g.evenDegree, 0
	}
	g.row(first + top)
	for j, psi := range g.psi {
		g.lookup(j, psi)
	}
	for r := top - 1; r >= 0; r-- {
		g.row(first + r)
		for j, psi := range g.psi {
			c := g.tmp[j%2]
			g.lookup(j, c)
			switch {
			case g.grad && r == top-1:
				g.VMOVAPS(psi, slope[j])
			case g.grad:
				g.VFMADD213PS(psi, g.odds[j], slope[j])
			}
			g.VFMADD213PS(c, g.odds[j], psi)
		}
	}
}

// addEntries adds four vectors, then float64: with many equal terms, rounding against a large sum always errs the same
// way.
func (g *second512) addEntries() {
	g.VMULPS(g.larger[0], g.psi[0], g.accG)
	for j := 1; j < len(g.psi); j++ {
		g.VFMADD231PS(g.larger[j], g.psi[j], g.accG)
	}
	g.widen512(g.accG, g.acc, g.lo)
}

// gradient leaves the entries in psi and the raw gradient in fraction: slope*l + 2^hi psi' on the student's side,
// -2^hi psi' on the teacher's; psi' is by |D| for the even table. The general table clips.
func (g *second512) gradient() {
	entry, slope, raw := g.psi, g.student, g.fraction
	for j, l := range entry {
		g.VMULPS(g.larger[j], l, l)
	}
	for j, q := range slope {
		g.VMULPS(g.larger[j], q, q)
	}
	g.VBROADCASTSS(g.arg("slope"), g.lo)
	for j, q := range slope {
		g.VPXORD_BCST(g.wide.mem("sign"), q, raw[j])
	}
	if g.even {
		for j, q := range slope {
			g.VFMADD231PS(g.lo, entry[j], q)
		}
		for j, q := range slope {
			g.VBLENDMPS(q, raw[j], g.studentLarger[j], raw[j])
		}
		return
	}
	for j, l := range entry {
		g.VFMADD231PS(g.lo, l, g.studentLarger[j], raw[j])
	}
	over := g.studentLarger // no longer needed
	g.VBROADCASTSS(g.arg("clip"), g.hi)
	for j, l := range entry {
		g.VCMPPS(Imm(0x1e), g.hi, l, over[j]) // entry > clip
	}
	for j, l := range entry {
		g.VMOVAPS(g.hi, over[j], l)
	}
	for j, r := range raw {
		g.VPXORD(r, r, over[j], r)
	}
	for j := range raw {
		g.VPADDD_BCST(g.wide.mem("one"), g.clipped, over[j], g.clipped)
	}
}

// addGradient adds entries and raw gradient, pairwise, so that fewer additions round against a large sum, and stores
// the gradient.
func (g *second512) addGradient() {
	entry, raw, t := g.psi, g.fraction, g.tmp
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

// results stores the sums and the largest |D|.
func (g *second512) results() {
	if g.grad {
		g.VCVTDQ2PS(g.clipped, g.clipped)
		g.sumLanes512(g.clipped, Z1)
		g.VMOVAPD(g.clipped.AsX(), X0)
		g.VCVTTSD2SIQ(X0, RAX)
		g.MOVQ(RAX, g.arg("clipped"))
		g.zero512(Z0)
		g.storeFloat64(g.arg("sumG"), g.accG, Z0, Z1)
	}
	g.zero512(Z0)
	g.storeFloat64(g.arg("sum"), g.acc, Z0, Z1)
	g.maxLanes512(g.far, Z1)
	g.store32(g.far, g.arg("max"))
}

// finish512 computes out = q*qk + g*gk, where q = 2^(k(s-rs)+nls) or, if kept, what the first pass kept. The streaming
// version bypasses the caches, up to a 64-byte boundary: otherwise a large gradient would be read before it is written.
func (g *generator) finish512(d dtype, kept, stream bool) {
	name, from, of := "finish", "s", d.name
	if stream {
		name = "stream"
	}
	if kept {
		from, of = "kept", "Kept"
	}
	g.text("AVX512", name+of)
	s, raw, out, n, i := RDI, RSI, RBX, RCX, RAX
	g.MOVQ(g.arg(from), s)
	g.MOVQ(g.arg("g"), raw)
	g.MOVQ(g.arg("out"), out)
	g.MOVQ(g.arg("n"), n)
	g.XORQ(i, i)
	Y, F, P, G := zmm[0:4], zmm[4:8], zmm[8:12], zmm[12:16]
	rs, k, nls, qk, gk, top, qmax := Z16, Z17, Z18, Z19, Z20, Z21, Z22
	for i, field := range []string{"rs", "k", "nls", "qk", "gk"} {
		g.VBROADCASTSS(g.arg(field), []VecPhysical{rs, k, nls, qk, gk}[i])
	}
	g.zero512(top, qmax)
	g.align()
	g.Label("loop")
	for j := range G {
		g.VMULPS(Mem{Base: raw, Index: i, Scale: 4, Disp: 64 * j}, gk, G[j])
	}
	if kept {
		P = Y
		g.load(wide, f32, s, i, 0, P, true)
	} else {
		g.load(wide, d, s, i, 0, Y, true)
		g.exponent512(Y, rs, k, nls)
		g.exp2_512(Y, F, P, Z24, Z25)
	}
	for j := range P {
		g.VFMADD231PS(P[j], qk, G[j])
	}
	for j := range P {
		g.VMAXPS(P[j], qmax, qmax)
	}
	for j := range G {
		g.VRANGEPS(Imm(0xb), G[j], top, top)
	}
	for j := range G {
		g.store512(G[j], Mem{Base: out, Index: i, Scale: 4, Disp: 64 * j}, stream)
	}
	g.ADDQ(Imm(64), i)
	g.CMPQ(i, n)
	g.JLT(LabelRef("loop"))
	if stream {
		g.SFENCE()
	}
	g.maxLanes512(top, Z1)
	g.store32(top, g.arg("max"))
	g.maxLanes512(qmax, Z1)
	g.store32(qmax, g.arg("qmax"))
	g.VZEROUPPER()
	g.RET()
}

// exponent512 computes k(y-rs)+nls.
func (g *generator) exponent512(y []VecPhysical, rs, k, nls VecPhysical) {
	for j := range y {
		g.VSUBPS(rs, y[j], y[j])
	}
	for j := range y {
		g.VFMADD213PS(nls, k, y[j])
	}
}

// store512 stores a vector, past the caches if it is streamed.
func (g *generator) store512(v VecPhysical, to Mem, stream bool) {
	if stream {
		g.VMOVNTPS(v, to)
	} else {
		g.VMOVUPS(v, to)
	}
}

// kl512 is the one-pass Kullback-Leibler divergence: both normalisers and the weighted log-odds in one reading. Weights
// are lifted, so that one which float32 would round to 0 counts where the log-odds are huge. Infinite log-odds make the
// sum infinite or NaN.
func (g *generator) kl512(d dtype) {
	g.text("AVX512", "kl"+d.name)
	p := g.loadPointers()
	S, T, F, P, E := zmm[0:4], zmm[4:8], zmm[8:12], zmm[12:16], zmm[16:20]
	e5, e4, k, lowest, lifted5, lifted4 := Z20, Z21, Z22, Z23, Z28, Z29
	sums := []VecPhysical{Z24, Z25, Z26, Z27} // 2^yt, 2^ys, kl, klAbs in float64
	g.zero512(sums...)
	g.VBROADCASTSS(g.arg("k"), k)
	g.leading512("", e5, e4)
	g.leading512("lifted ", lifted5, lifted4)
	g.VBROADCASTSS(g.wide.mem("-far"), lowest)
	lines := 2
	if d == f32 {
		lines = 4
	}
	g.align()
	g.Label("loop")
	g.load(wide, d, p.s, p.i, 0, S, false)
	g.load(wide, d, p.t, p.i, 0, T, false)
	g.prefetch(lines, p.step, p.pfs, p.pft)
	for j := range S {
		g.VFMADD213PS_BCST(g.arg("nls"), k, S[j])
	}
	for j := range S {
		g.VFMADD213PS_BCST(g.arg("nlt"), k, T[j])
	}
	for j := range S {
		g.VSUBPS(S[j], T[j], E[j])
	}
	for j := range S {
		g.VMAXPS(lowest, E[j], E[j]) // masked: -Inf, or NaN on both sides, whose weight is 0, becomes finite
	}
	g.fractions512(S, F)
	g.powers512("", S, F, P, e5, e4)
	g.addFour(P, sums[1])
	g.fractions512(T, F)
	g.powers512("lifted ", T, F, P, lifted5, lifted4)
	for j := range S {
		g.VMULPS(P[j], E[j], E[j])
	}
	for j := range S {
		g.VPANDD_BCST(g.wide.mem("abs"), E[j], F[j])
	}
	g.addFour(P, sums[0])
	g.addFour(E, sums[2])
	g.addFour(F, sums[3])
	g.ADDQ(Imm(64), p.i)
	g.CMPQ(p.i, p.n)
	g.JLT(LabelRef("loop"))
	for i, field := range []string{"sum", "sumG", "kl", "klAbs"} {
		g.zero512(Z1)
		g.storeFloat64(g.arg(field), sums[i], Z1, Z2)
	}
	g.VZEROUPPER()
	g.RET()
}

// addFour adds four vectors pairwise, and their sum to a float64 accumulator.
func (g *generator) addFour(v []VecPhysical, to VecPhysical) {
	g.VADDPS(v[1], v[0], v[0])
	g.VADDPS(v[3], v[2], v[2])
	g.VADDPS(v[2], v[0], v[0])
	g.VEXTRACTF32X8(Imm(1), v[0], v[1].AsY())
	g.VCVTPS2PD(v[0].AsY(), v[0])
	g.VCVTPS2PD(v[1].AsY(), v[1])
	g.VADDPD(v[0], to, to)
	g.VADDPD(v[1], to, to)
}
