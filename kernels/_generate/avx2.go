package main

import (
	"fmt"
	"math"

	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// narrowConstants defines the constants, each repeated over a vector because AVX2 lacks broadcast operands.
func (g *generator) narrowConstants() {
	c := g.newConstants("each256", 8)
	for i, v := range expNear {
		c.add(fmt.Sprint("e", i), bits(v))
	}
	c.add("biased", bits(1.5*(1<<23)+127)) // adding this rounds to an integer, which a shift moves into the exponent
	c.add("low", bits(-127))
	c.add("high", bits(127))
	c.add("abs", U32(1<<31-1))
	c.add("narrowLimit", bits(14.99))
	c.add("one", bits(1))
	c.add("two", bits(2))
	c.add("upper", U32(0xffff0000))
	c.add("far", bits(1e30))
	c.add("-far", bits(-1e30))
	c.add("sign", U32(1<<31))
	c.add("lift", bits(math.Log2(float64(g.klLift))))
	c.add("lifted low", bits(-127-math.Log2(float64(g.klLift))))
	c.add("lifted high", bits(127-math.Log2(float64(g.klLift))))
	g.narrow = c
}

// widen256 adds the lanes of v to a float64 accumulator. t0 may be v.
func (g *generator) widen256(v, acc, t0, t1 VecPhysical) {
	g.VEXTRACTF128(Imm(1), v, t1.AsX())
	g.VCVTPS2PD(v.AsX(), t0)
	g.VCVTPS2PD(t1.AsX(), t1)
	g.VADDPD(t0, acc, acc)
	g.VADDPD(t1, acc, acc)
}

// store256 stores the sum of a float64 accumulator's lanes.
func (g *generator) store256(acc VecPhysical, to Mem) {
	g.VEXTRACTF128(Imm(1), acc, X1)
	g.VADDPD(X1, acc.AsX(), acc.AsX())
	g.VPERMILPD(Imm(1), acc.AsX(), X1)
	g.VADDSD(X1, acc.AsX(), acc.AsX())
	g.VMOVSD(acc.AsX(), to)
}

func (g *generator) maxLanes256(y, tmp VecPhysical) {
	g.VEXTRACTF128(Imm(1), y, tmp.AsX())
	g.VMAXPS(tmp.AsX(), y.AsX(), y.AsX())
	g.VPERMILPS(Imm(0x4e), y.AsX(), tmp.AsX())
	g.VMAXPS(tmp.AsX(), y.AsX(), y.AsX())
	g.VPERMILPS(Imm(0xb1), y.AsX(), tmp.AsX())
	g.VMAXPS(tmp.AsX(), y.AsX(), y.AsX())
}

// exp2_256 leaves 2^y as p times z; y is clobbered. The caller has clamped y to [-127, 127]: outside this range the
// shifted exponent would wrap to a finite wrong number. At -127 z is exactly 0. Memory operands keep NaN in y. If
// lifted is set, the result is 2^y times klLift, and the limits are lower by log2 klLift.
func (g *generator) exp2_256(y, z, p []VecPhysical, lifted bool) {
	for j := range y {
		g.VADDPS(g.narrow.mem("biased"), y[j], z[j])
	}
	for j := range y {
		g.VSUBPS(g.narrow.mem("biased"), z[j], p[j])
	}
	for j := range y {
		g.VSUBPS(p[j], y[j], y[j])
	}
	for j := range y {
		g.VMOVUPS(g.narrow.mem("e6"), p[j])
	}
	for _, n := range []string{"e5", "e4", "e3", "e2", "e1", "e0"} {
		for j := range y {
			g.VFMADD213PS(g.narrow.mem(n), y[j], p[j])
		}
	}
	if lifted {
		for j := range y {
			g.VADDPS(g.narrow.mem("lift"), z[j], z[j])
		}
	}
	for j := range y {
		g.VPSLLD(Imm(23), z[j], z[j])
	}
}

func (g *generator) max256(d dtype) {
	g.largest("AVX2", narrow, d, ymm)
	g.maxLanes256(Y0, Y1)
	g.VMOVSS(X0, g.arg("max"))
	g.VZEROUPPER()
	g.RET()
}

// sum256 is the first pass. If keep is set, it stores each 2^(k s - ref) in kept, in order.
func (g *generator) sum256(d dtype, keep bool) {
	name := "sum"
	if keep {
		name = "keep"
	}
	g.text("AVX2", name+d.name)
	s, n, i, pf, step, kept := RDI, RCX, RAX, RSI, RDX, RBX
	g.MOVQ(g.arg("kept"), kept)
	g.MOVQ(g.arg("s"), s)
	g.MOVQ(g.arg("n"), n)
	g.MOVQ(g.arg("pfs"), pf)
	g.MOVQ(g.arg("step"), step)
	g.VBROADCASTSS(g.arg("k"), Y14)
	g.VBROADCASTSS(g.arg("ref"), Y15)
	g.VXORPS(Y12, Y12, Y12)
	g.VXORPS(Y13, Y13, Y13)
	g.XORQ(i, i)
	y, z, p := ymm[0:4], ymm[4:8], ymm[8:12]
	g.align()
	g.Label("loop")
	g.prefetch(1, step, pf)
	for u := range 2 {
		g.load(narrow, d, s, i, 32*u, y, keep)
		for j := range y {
			g.VFMSUB213PS(Y15, Y14, y[j])
		}
		g.limit256(y, z[0], "")
		g.exp2_256(y, z, p, false)
		// Vectors are added up in pairs before they are added to the float64 sum: many small terms added one by one to
		// a large float32 would be lost.
		if keep {
			for j := range p {
				g.VMULPS(p[j], z[j], p[j])
			}
			for j := range p {
				g.VMOVUPS(p[j], Mem{Base: kept, Index: i, Scale: 4, Disp: 4 * (32*u + 8*j)})
			}
			g.VADDPS(p[1], p[0], p[0])
			g.VADDPS(p[3], p[2], p[2])
		} else {
			g.VMULPS(p[0], z[0], p[0])
			g.VMULPS(p[2], z[2], p[2])
			g.VFMADD231PS(p[1], z[1], p[0])
			g.VFMADD231PS(p[3], z[3], p[2])
		}
		g.VADDPS(p[2], p[0], p[0])
		g.VEXTRACTF128(Imm(1), p[0], p[1].AsX())
		g.VCVTPS2PD(p[0].AsX(), p[0])
		g.VCVTPS2PD(p[1].AsX(), p[1])
		g.VADDPD(p[0], Y12, Y12)
		g.VADDPD(p[1], Y13, Y13)
	}
	g.ADDQ(Imm(64), i)
	g.CMPQ(i, n)
	g.JLT(LabelRef("loop"))
	g.VADDPD(Y13, Y12, Y12)
	g.store256(Y12, g.arg("sum"))
	g.VZEROUPPER()
	g.RET()
}

// limit256 limits y to the range of exp2_256. If an operand is NaN, MAXPS and MINPS return their second source. That is
// y, so a NaN in y reaches the sum.
func (g *generator) limit256(y []VecPhysical, tmp VecPhysical, lifted string) {
	g.VMOVUPS(g.narrow.mem(lifted+"low"), tmp)
	for j := range y {
		g.VMAXPS(y[j], tmp, y[j])
	}
	g.VMOVUPS(g.narrow.mem(lifted+"high"), tmp)
	for j := range y {
		g.VMINPS(y[j], tmp, y[j])
	}
}

// kl256 is like kl512, but handles two vectors at a time.
func (g *generator) kl256(d dtype, gradient string) {
	g.text("AVX2", "kl"+gradient+d.name)
	p := g.loadPointers()
	g.MOVQ(g.arg("kept"), R12)
	g.MOVQ(g.arg("keptT"), R13)
	sums := ymm[12:16] // 2^yt, 2^ys, kl, klAbs in float64
	for _, y := range sums {
		g.VXORPS(y, y, y)
	}
	g.align()
	g.Label("loop")
	g.prefetch256(d, p)
	for u := range 2 {
		g.klVectors256(d, gradient, p, u, sums)
	}
	g.ADDQ(Imm(2*entries256), p.i)
	g.CMPQ(p.i, p.n)
	g.JLT(LabelRef("loop"))
	for i, field := range []string{"sum", "sumG", "kl", "klAbs"} {
		g.store256(sums[i], g.arg(field))
	}
	g.VZEROUPPER()
	g.RET()
}

// klVectors256 adds the terms of two vectors to the sums, and stores the values needed for the gradient at the
// addresses in R12 and R13.
func (g *generator) klVectors256(d dtype, gradient string, p pointers, u int, sums []VecPhysical) {
	ks, kt := R12, R13
	S, T, E, P, f, tmp, other := ymm[0:2], ymm[2:4], ymm[4:6], ymm[6:8], ymm[8:10], Y10, Y11
	add := func(v []VecPhysical, to VecPhysical) {
		g.VADDPS(v[1], v[0], tmp)
		g.widen256(tmp, to, tmp, other)
	}
	keep := func(v []VecPhysical, base Register) {
		for j := range v {
			g.VMOVUPS(v[j], Mem{Base: base, Index: p.i, Scale: 4, Disp: 4*entries256*u + 32*j})
		}
	}
	weigh := func(y []VecPhysical, lifted string) {
		g.limit256(y, tmp, lifted)
		g.exp2_256(y, P, f, lifted != "")
		for j := range P {
			g.VMULPS(f[j], P[j], P[j])
		}
	}
	g.load(narrow, d, p.s, p.i, entries256*u, S, gradient != "")
	g.load(narrow, d, p.t, p.i, entries256*u, T, gradient != "")
	g.VBROADCASTSS(g.arg("k"), tmp)
	for i, side := range [][]VecPhysical{S, T} {
		g.VBROADCASTSS(g.arg([]string{"nls", "nlt"}[i]), other)
		for _, y := range side {
			g.VFMADD213PS(other, tmp, y)
		}
	}
	for j := range E {
		g.VSUBPS(S[j], T[j], E[j])
		// Where t is masked, its weight is 0 and the log-odds are -Inf or, if s is masked too, NaN. Make them finite.
		g.VMAXPS(g.narrow.mem("-far"), E[j], E[j])
	}
	weigh(S, "")
	if gradient == "Forward" {
		keep(P, ks)
	}
	add(P, sums[1])
	weigh(T, "lifted ")
	add(P, sums[0])
	for j := range E {
		g.VMULPS(P[j], E[j], E[j])
	}
	switch gradient {
	case "Forward":
		keep(P, kt)
	case "Reverse":
		keep(P, ks)
		keep(E, kt)
	}
	add(E, sums[2])
	for _, e := range E {
		g.VANDPS(g.narrow.mem("abs"), e, e)
	}
	add(E, sums[3])
}

// second256 is the second pass without a gradient: two vectors interleaved, twice per step.
type second256 struct {
	*generator
	even bool
	d    dtype
	p    pointers
	// Each slice holds two vectors. student becomes the larger side's log2 probability, teacher the index of the
	// segment, and odds the argument within it. larger is scratch, then the larger side's probability.
	student, teacher, odds, larger, psi []VecPhysical
	sign                                []VecPhysical // the original D, for its sign
	early, late                         VecPhysical   // scratch for lookups before and after exp2
	tmp, far, acc, sum                  VecPhysical
}

// entries256 is the number of entries in the two vectors that a second pass processes at a time.
const entries256 = 16

func (g *generator) jsd256(d dtype, even bool) {
	g.text("AVX2", kind{even: even}.name()+d.name)
	q := second256{
		generator: g, even: even, d: d, p: g.loadPointers(),
		student: ymm[0:2], teacher: ymm[2:4], odds: ymm[4:6], larger: ymm[6:8], psi: ymm[8:10], sign: ymm[10:12],
		tmp: Y12, far: Y13, acc: Y14, sum: Y15,
	}
	q.early, q.late = q.larger[0], q.student[0]
	for _, y := range []VecPhysical{q.far, q.acc} {
		g.VXORPS(y, y, y)
	}
	g.align()
	g.Label("loop")
	g.prefetch256(d, q.p)
	for u := range 2 {
		q.logProbabilities(entries256 * u)
		if even {
			q.evenSegment()
		} else {
			q.segment()
		}
		q.fromCentre()
		g.exp2_256(q.student, q.larger, q.psi, false)
		for j, e := range q.larger {
			g.VMULPS(q.psi[j], e, e)
		}
		q.polynomial()
		q.addEntries(u == 1)
	}
	g.ADDQ(Imm(2*entries256), q.p.i)
	g.CMPQ(q.p.i, q.p.n)
	g.JLT(LabelRef("loop"))
	g.store256(q.acc, g.arg("sum"))
	g.maxLanes256(q.far, Y1)
	g.VMOVSS(q.far.AsX(), g.arg("max"))
	g.VZEROUPPER()
	g.RET()
}

// prefetch256 fetches the next row in a second pass.
func (g *generator) prefetch256(d dtype, p pointers) {
	lines := 1 // 32 entries take 1 cache line
	if d == f32 {
		lines = 2 // 32 entries take 2 cache lines, slightly more than the first pass leaves unfetched
	}
	g.prefetch(lines, p.step, p.pfs, p.pft)
}

// logProbabilities loads both sides, starting at an entry, and leaves D in odds and the larger side's log2 probability
// in student.
func (g *second256) logProbabilities(entry int) {
	g.load(narrow, g.d, g.p.s, g.p.i, entry, g.student, false)
	g.load(narrow, g.d, g.p.t, g.p.i, entry, g.teacher, false)
	g.VBROADCASTSS(g.arg("rs"), g.tmp)
	for _, s := range g.student {
		g.VSUBPS(g.tmp, s, s)
	}
	g.VBROADCASTSS(g.arg("rt"), g.tmp)
	for _, t := range g.teacher {
		g.VSUBPS(g.tmp, t, t)
	}
	for j, d := range g.odds {
		g.VSUBPS(g.student[j], g.teacher[j], d)
	}
	c := g.larger[0]
	g.VBROADCASTSS(g.arg("hk"), g.tmp)
	g.VBROADCASTSS(g.arg("hd"), c)
	for _, d := range g.odds {
		g.VFMADD213PS(c, g.tmp, d)
	}
	g.VBROADCASTSS(g.arg("k"), g.tmp)
	g.VBROADCASTSS(g.arg("nls"), c)
	for _, s := range g.student {
		g.VFMADD213PS(c, g.tmp, s)
	}
	g.VBROADCASTSS(g.arg("nlt"), c)
	for _, t := range g.teacher {
		g.VFMADD213PS(c, g.tmp, t)
	}
	for j, s := range g.student {
		g.VMAXPS(g.teacher[j], s, s)
	}
	for _, s := range g.student {
		g.VMAXPS(g.narrow.mem("low"), s, s)
	}
}

// evenSegment finds which of 8 segments contains |D|. It leaves the segment in teacher and the clamped |D| in odds.
func (g *second256) evenSegment() {
	for _, d := range g.odds {
		g.VANDPS(g.narrow.mem("abs"), d, d)
	}
	for _, d := range g.odds {
		g.VMINPS(g.narrow.mem("narrowLimit"), d, d) // NaN becomes the limit
	}
	for j, d := range g.odds {
		g.index256(d, g.teacher[j])
	}
}

// segment is like evenSegment, but for the general table, which has 8 segments on each side of 0. It leaves D in odds,
// clamped only to values that float32 can multiply.
func (g *second256) segment() {
	for j, d := range g.odds {
		size := g.teacher[j]
		g.VANDPS(g.narrow.mem("abs"), d, size)
		g.VMAXPS(g.far, size, g.far) // NaN leaves far unchanged
	}
	for j, d := range g.odds {
		size := g.teacher[j]
		g.VMINPS(g.narrow.mem("far"), d, d)
		g.VMAXPS(g.narrow.mem("-far"), d, d)
		g.VMINPS(g.narrow.mem("narrowLimit"), size, size) // NaN becomes the limit
	}
	for j, d := range g.odds {
		g.index256(g.teacher[j], g.teacher[j])
		g.VMOVAPS(d, g.sign[j])
	}
}

// index256 computes the index of the segment that contains size from the exponent and first fraction bit of 1+size.
func (g *generator) index256(size, dst VecPhysical) {
	g.VADDPS(g.narrow.mem("one"), size, dst)
	g.VPSRLD(Imm(22), dst, dst)
}

func (g *second256) fromCentre() {
	for j, d := range g.odds {
		g.lookup(0, j, g.tmp, g.early)
		g.VSUBPS(g.tmp, d, d)
	}
}

func (g *second256) lookup(r, j int, dst, tmp VecPhysical) {
	g.lookup256(g.even, g.p.tab, r, g.teacher[j], g.sign[j], dst, tmp)
}

// lookup256 looks up a vector's segments in row r of a table: with one permute or, in the general table, with one for
// each sign of D and a blend.
func (g *generator) lookup256(even bool, tab Register, r int, segment, sign, dst, tmp VecPhysical) {
	if even {
		g.VPERMPS(Mem{Base: tab, Disp: 32 * r}, segment, dst)
		return
	}
	g.VPERMPS(Mem{Base: tab, Disp: 64 * r}, segment, dst)
	g.VPERMPS(Mem{Base: tab, Disp: 64*r + 32}, segment, tmp)
	g.VBLENDVPS(sign, tmp, dst, dst)
}

// polynomial evaluates psi.
func (g *second256) polynomial() {
	top := g.signedDegree
	if g.even {
		top = g.narrowDegree
	}
	for j, psi := range g.psi {
		g.lookup(1+top, j, psi, g.late)
	}
	for r := top - 1; r >= 0; r-- {
		for j, psi := range g.psi {
			g.lookup(1+r, j, g.tmp, g.late)
			g.VFMADD213PS(g.tmp, g.odds[j], psi)
		}
	}
}

// addEntries adds two vectors and, if last is set, adds the sum of the step's four vectors to the float64 accumulator.
// In a large float32 sum, the additions of many equal terms would all be rounded in the same direction.
func (g *second256) addEntries(last bool) {
	if !last {
		g.VMULPS(g.larger[0], g.psi[0], g.sum)
	} else {
		g.VFMADD231PS(g.larger[0], g.psi[0], g.sum)
	}
	g.VFMADD231PS(g.larger[1], g.psi[1], g.sum)
	if last {
		g.widen256(g.sum, g.acc, g.psi[0], g.psi[1])
	}
}
