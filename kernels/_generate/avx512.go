package main

import (
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

func (g *generator) wideConstants() {
	g.wide = g.newConstants("one512", 1, append(expConstants(expFloor), []datum{
		{"magic", bits(1.5 * (1 << 23))}, {"limit", bits(15.99)},
		{"far", bits(1e30)}, {"-far", bits(-1e30)}, {"one", 1}, {"16", 16}, {"1", bits(1)},
		{"geometricLimit", bits(14.999)}, {"sign", 1 << 31}, {"high", 0xffff0000}, {"abs", 1<<31 - 1},
	}...))
}

// sumLanes512 leaves the sum of z's float64 lanes in X0; avo lacks VMOVSD for high registers.
func (g *generator) sumLanes512(z, tmp VecPhysical) {
	g.VEXTRACTF64X4(Imm(1), z, tmp.AsY())
	g.VADDPD(tmp.AsY(), z.AsY(), z.AsY())
	g.VEXTRACTF64X2(Imm(1), z.AsY(), tmp.AsX())
	g.VADDPD(tmp.AsX(), z.AsX(), z.AsX())
	g.VPERMILPD(Imm(1), z.AsX(), tmp.AsX())
	g.VADDSD(tmp.AsX(), z.AsX(), z.AsX())
	g.VMOVAPD(z.AsX(), X0)
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

// storeSums512 stores the sum of two float64 accumulators.
func (g *generator) storeSums512(field string, acc0, acc1, tmp VecPhysical) {
	g.VADDPD(acc1, acc0, acc0)
	g.sumLanes512(acc0, tmp)
	g.VMOVSD(X0, g.arg(field))
}

// storeSum512 stores the sum of a float64 accumulator.
func (g *generator) storeSum512(field string, acc VecPhysical) {
	g.zero512(Z0)
	g.storeSums512(field, acc, Z0, Z1)
}

// storeMax512 stores the maximum of a vector's lanes.
func (g *generator) storeMax512(z VecPhysical) {
	g.VEXTRACTF32X8(Imm(1), z, Y1)
	g.VMAXPS(Y1, z.AsY(), z.AsY())
	g.VEXTRACTF32X4(Imm(1), z.AsY(), X1)
	g.VMAXPS(X1, z.AsX(), z.AsX())
	g.VPERMILPS(Imm(0x4e), z.AsX(), X1)
	g.VMAXPS(X1, z.AsX(), z.AsX())
	g.VPERMILPS(Imm(0xb1), z.AsX(), X1)
	g.VMAXPS(X1, z.AsX(), z.AsX())
	g.store32(z, "max")
}

func (g *generator) store32(z VecPhysical, field string) {
	g.VMOVAPS(z.AsX(), X0)
	g.VMOVSS(X0, g.arg(field))
}

func (g *generator) zero512(z ...VecPhysical) {
	each(g.VPXORD, z, z, z)
}

// exp2_512 computes p = 2^y; f, t0 and t1 are scratch. -Inf gives 0; +Inf and NaN are preserved.
func (g *generator) exp2_512(y, f, p []VecPhysical, t0, t1 VecPhysical) {
	each(g.VREDUCEPS, Imm(9), y, f) // y - floor(y)
	g.leading512(t0, t1)
	each(g.VMOVAPS, t0, p)
	each(g.VFMADD213PS, t1, f, p)
	for _, n := range []string{"e3", "e2", "e1", "e0"} {
		each(g.VFMADD213PS_BCST, g.wide.mem(n), f, p)
	}
	each(g.VSCALEFPS, y, p, p)
}

// leading512 loads the two highest coefficients of 2^f.
func (g *generator) leading512(e5, e4 VecPhysical) {
	g.VBROADCASTSS(g.wide.mem("e5"), e5)
	g.VBROADCASTSS(g.wide.mem("e4"), e4)
}

func (g *generator) max512(d dtype) {
	g.largest("AVX512", wide, d, zmm)
	g.storeMax512(Z0)
	g.end()
}

// second512 is the second pass without a gradient: 64 entries a step, four vectors interleaved so that the scheduler
// sees four chains.
type second512 struct {
	table512
	d dtype
	p pointers
	// Each slice holds four vectors. student becomes the larger side's log2 probability, and teacher the segment.
	// fraction is scratch of exp2, and larger the larger side's probability.
	student, teacher, fraction, larger, psi []VecPhysical
	acc, far                                VecPhysical
}

// table512 looks up vectors' segments in a table of 32 columns.
type table512 struct {
	*generator
	tab           Register
	odds, segment []VecPhysical // four vectors each; odds becomes the argument within the segment
	lo, hi        VecPhysical   // scratch: constants, or the halves of a table row
	tmp           []VecPhysical // two vectors of scratch
}

// row loads a row of the table; lookup selects a vector's segments from it.
func (g *table512) row(r int) {
	g.VMOVAPS(Mem{Base: g.tab, Disp: r * 128}, g.lo)
	g.VMOVAPS(Mem{Base: g.tab, Disp: r*128 + 64}, g.hi)
}

func (g *table512) lookup(j int, dst VecPhysical) {
	g.VMOVAPS(g.lo, dst)
	g.VPERMT2PS(g.hi, g.segment[j], dst)
}

// fromCentre turns D into the argument within the segment.
func (g *table512) fromCentre() {
	g.row(0)
	for j, d := range g.odds {
		centre := g.tmp[j%2]
		g.lookup(j, centre)
		g.VSUBPS(centre, d, d)
	}
}

// polynomial evaluates a polynomial of degree top, whose coefficients begin at row first of the table.
func (g *table512) polynomial(dst []VecPhysical, first, top int) {
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

func (g *generator) jsd512(d dtype, kept bool) {
	g.text("AVX512", "jsd"+choose(kept, "Kept", "")+d.name)
	p := g.loadPointers()
	q := second512{
		table512: table512{g, p.tab, zmm[8:12], zmm[4:8], Z24, Z25, zmm[26:28]},
		d:        d, p: p, student: zmm[0:4], teacher: zmm[4:8],
		fraction: zmm[12:16], larger: zmm[16:20], psi: zmm[20:24], acc: Z28, far: Z30,
	}
	g.zero512(q.acc, q.far)
	ks, kt := R12, R13
	if kept {
		g.move("kept keptT", ks, kt)
	}
	g.loop(p.i, p.n, 64, func() {
		if kept {
			q.keptOdds()
			q.place()
			q.polynomial(q.psi, 1, g.number("degree"))
			q.keptLarger(ks, kt)
		} else {
			q.logProbabilities()
			q.place()
			g.exp2_512(q.student, q.fraction, q.larger, q.lo, q.hi)
			q.polynomial(q.psi, 1, g.number("degree"))
		}
		q.addEntries()
	})
	g.storeSum512("sum", q.acc)
	g.storeMax512(q.far)
	g.end()
}

// logProbabilities loads both sides and leaves D in odds and the larger side's log2 probability in student.
func (g *second512) logProbabilities() {
	g.load(wide, g.d, g.p.s, g.p.i, 0, g.student, false)
	g.load(wide, g.d, g.p.t, g.p.i, 0, g.teacher, false)
	g.prefetch(linesAhead(g.d, true), g.p.step, g.p.pfs, g.p.pft)
	g.broadcast("rs rt", g.lo, g.hi)
	each(g.VSUBPS, g.lo, g.student, g.student)
	each(g.VSUBPS, g.hi, g.teacher, g.teacher)
	g.broadcast("hk hd", g.lo, g.hi)
	each(g.VSUBPS, g.student, g.teacher, g.odds)
	each(g.VFMADD213PS, g.hi, g.lo, g.odds) // D = (t'-s')*hk + hd
	g.VBROADCASTSS(g.arg("k"), g.lo)
	each(g.VFMADD213PS_BCST, g.arg("nls"), g.lo, g.student)
	each(g.VFMADD213PS_BCST, g.arg("nlt"), g.lo, g.teacher)
	each(g.VMAXPS, g.teacher, g.student, g.student)
	g.VBROADCASTSS(g.wide.mem("magic"), g.hi)
}

// keptOdds loads both sides and leaves D in odds.
func (g *second512) keptOdds() {
	if g.d == f32 {
		each(g.VMOVUPS, floats(wide, g.p.t, g.p.i, 0), g.odds)
		each(g.VSUBPS, floats(wide, g.p.s, g.p.i, 0), g.odds, g.odds)
	} else {
		g.load(wide, g.d, g.p.s, g.p.i, 0, g.student, false)
		g.load(wide, g.d, g.p.t, g.p.i, 0, g.odds, false)
		each(g.VSUBPS, g.student, g.odds, g.odds)
	}
	g.prefetch(linesAhead(g.d, true), g.p.step, g.p.pfs, g.p.pft)
	g.broadcast("hk hd", g.lo, g.hi)
	each(g.VFMADD213PS, g.hi, g.lo, g.odds)
	g.VBROADCASTSS(g.wide.mem("magic"), g.hi)
}

// keptLarger leaves the larger side's probability, relative to the teacher's normaliser, in larger.
func (g *second512) keptLarger(ks, kt Register) {
	g.VBROADCASTSS(g.arg("ratio"), g.lo)
	each(g.VMULPS, floats(wide, ks, g.p.i, 0), g.lo, g.larger)
	each(g.VMAXPS, floats(wide, kt, g.p.i, 0), g.larger, g.larger)
}

// place finds the segment of D and the argument within it. The segment is left in the low bits of teacher.
func (g *second512) place() {
	each(g.VRANGEPS, Imm(0xb), g.odds, g.far, g.far) // largest |D|, ignoring NaN
	g.VBROADCASTSS(g.wide.mem("far"), g.lo)
	each(g.VRANGEPS, Imm(0x2), g.lo, g.odds, g.odds)
	g.VBROADCASTSS(g.wide.mem("limit"), g.lo)
	each(g.VRANGEPS, Imm(0x2), g.lo, g.odds, g.teacher)
	each(g.VADDPS_RD_SAE, g.hi, g.teacher, g.teacher)
	g.fromCentre()
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
	G, qk, gk, top := zmm[0:4], Z19, Z20, Z21
	store := g.VMOVUPS
	if stream {
		store = func(ops ...Op) { g.VMOVNTPS(ops[0], ops[1]) }
	}
	g.text("AVX512", choose(stream, "stream", "finish"))
	g.finish(wide, G, qk, gk, func() { g.zero512(top) }, func(out memory) {
		each(g.VRANGEPS, Imm(0xb), G, top, top)
		each(store, G, out)
	})
	if stream {
		g.SFENCE()
	}
	g.storeMax512(top)
	g.end()
}
