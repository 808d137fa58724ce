package main

import (
	"math"

	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// narrowConstants defines the constants, each repeated over a vector because AVX2 lacks broadcast operands.
func (g *generator) narrowConstants() {
	lift := math.Log2(float64(g.number("klLift")))
	g.narrow = g.newConstants("each256", 8, append(expConstants(expNear), []datum{
		{"biased", bits(1.5*(1<<23) + 127)}, // adding this rounds to an integer, which a shift moves into the exponent
		{"low", bits(-127)}, {"high", bits(127)}, {"abs", 1<<31 - 1}, {"narrowLimit", bits(14.99)}, {"one", bits(1)},
		{"two", bits(2)}, {"upper", 0xffff0000}, {"far", bits(1e30)}, {"-far", bits(-1e30)}, {"sign", 1 << 31},
		{"lift", bits(lift)}, {"lifted low", bits(-127 - lift)}, {"lifted high", bits(127 - lift)},
	}...))
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

// storeMax256 stores the maximum of a vector's lanes.
func (g *generator) storeMax256(y VecPhysical) {
	g.VEXTRACTF128(Imm(1), y, X1)
	g.VMAXPS(X1, y.AsX(), y.AsX())
	g.VPERMILPS(Imm(0x4e), y.AsX(), X1)
	g.VMAXPS(X1, y.AsX(), y.AsX())
	g.VPERMILPS(Imm(0xb1), y.AsX(), X1)
	g.VMAXPS(X1, y.AsX(), y.AsX())
	g.VMOVSS(y.AsX(), g.arg("max"))
}

// exp2_256 leaves 2^y as p times z; y is clobbered. The caller has clamped y to [-127, 127]: outside this range the
// shifted exponent would wrap to a finite wrong number. At -127 z is exactly 0. Memory operands keep NaN in y. If
// lifted is set, the result is 2^y times klLift, and the limits are lower by log2 klLift.
func (g *generator) exp2_256(y, z, p []VecPhysical, lifted bool) {
	each(g.VADDPS, g.narrow.mem("biased"), y, z)
	each(g.VSUBPS, g.narrow.mem("biased"), z, p)
	each(g.VSUBPS, p, y, y)
	each(g.VMOVUPS, g.narrow.mem("e6"), p)
	for _, n := range []string{"e5", "e4", "e3", "e2", "e1", "e0"} {
		each(g.VFMADD213PS, g.narrow.mem(n), y, p)
	}
	if lifted {
		each(g.VADDPS, g.narrow.mem("lift"), z, z)
	}
	each(g.VPSLLD, Imm(23), z, z)
}

// totals256 adds up both sides' float32 values in the order of pureTotals.
func (g *generator) totals256() {
	g.text("AVX2", "totals")
	s, t, n, i := RDI, RSI, RCX, RAX
	g.move("s t n", s, t, n)
	sums, values := ymm[0:4], ymm[4:8]
	g.zero256(sums...)
	g.XORQ(i, i)
	g.loop(i, n, 32, func() {
		for entry := 0; entry < 32; entry += 8 {
			each(g.VCVTPS2PD, memory{floats(narrow, s, i, entry).first, 16}, values[0:2])
			each(g.VCVTPS2PD, memory{floats(narrow, t, i, entry).first, 16}, values[2:4])
			each(g.VADDPD, values, sums, sums)
		}
	})
	for side, field := range []string{"sum", "sumG"} {
		for _, v := range sums[2*side : 2*side+2] {
			g.VEXTRACTF128(Imm(1), v, X8)
			g.VPERMILPD(Imm(1), v.AsX(), X9)
			g.VADDSD(X9, v.AsX(), v.AsX())
			g.VADDSD(X8, v.AsX(), v.AsX())
			g.VPERMILPD(Imm(1), X8, X8)
			g.VADDSD(X8, v.AsX(), v.AsX())
		}
		g.VADDSD(sums[2*side+1].AsX(), sums[2*side].AsX(), X8)
		g.VMOVSD(X8, g.arg(field))
	}
	g.end()
}

func (g *generator) max256(d dtype) {
	g.largest("AVX2", narrow, d, ymm)
	g.storeMax256(Y0)
	g.end()
}

// sum256 is the first pass. If keep is set, it stores each 2^(k s - ref) in kept, in order.
func (g *generator) sum256(d dtype, keep bool) {
	g.text("AVX2", choose(keep, "keep", "sum")+d.name)
	s, n, i, pf, step, kept := RDI, RCX, RAX, RSI, RDX, RBX
	g.move("kept s n pfs step", kept, s, n, pf, step)
	g.broadcast("k ref", Y14, Y15)
	g.zero256(Y12, Y13)
	g.XORQ(i, i)
	y, z, p := ymm[0:4], ymm[4:8], ymm[8:12]
	g.loop(i, n, 64, func() {
		g.prefetch(1, step, pf)
		for entry := 0; entry < 64; entry += 32 {
			g.load(narrow, d, s, i, entry, y, keep)
			each(g.VFMSUB213PS, Y15, Y14, y)
			g.limit256(y, z[0], "")
			g.exp2_256(y, z, p, false)
			// Vectors are added up in pairs before they are added to the float64 sum: many small terms added one by one
			// to a large float32 would be lost.
			if keep {
				each(g.VMULPS, p, z, p)
				each(g.VMOVUPS, p, floats(narrow, kept, i, entry))
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
	})
	g.VADDPD(Y13, Y12, Y12)
	g.store256(Y12, g.arg("sum"))
	g.end()
}

func (g *generator) zero256(y ...VecPhysical) { each(g.VXORPS, y, y, y) }

// limit256 limits y to the range of exp2_256. If an operand is NaN, MAXPS and MINPS return their second source. That is
// y, so a NaN in y reaches the sum.
func (g *generator) limit256(y []VecPhysical, tmp VecPhysical, lifted string) {
	g.VMOVUPS(g.narrow.mem(lifted+"low"), tmp)
	each(g.VMAXPS, y, tmp, y)
	g.VMOVUPS(g.narrow.mem(lifted+"high"), tmp)
	each(g.VMINPS, y, tmp, y)
}

// kl256 is like kl512, but handles two vectors at a time.
func (g *generator) kl256(d dtype, gradient string) {
	g.text("AVX2", "kl"+gradient+d.name)
	p := g.loadPointers()
	g.move("kept keptT", R12, R13)
	sums := ymm[12:16] // 2^yt, 2^ys, kl, klAbs in float64
	g.zero256(sums...)
	g.twice256(d, p, func(entry int) { g.klVectors256(d, gradient, p, entry, sums) })
	for i, field := range []string{"sum", "sumG", "kl", "klAbs"} {
		g.store256(sums[i], g.arg(field))
	}
	g.end()
}

// klVectors256 adds the terms of two vectors to the sums, and stores the values needed for the gradient at the
// addresses in R12 and R13.
func (g *generator) klVectors256(d dtype, gradient string, p pointers, entry int, sums []VecPhysical) {
	ks, kt := R12, R13
	S, T, E, P, f, tmp, other := ymm[0:2], ymm[2:4], ymm[4:6], ymm[6:8], ymm[8:10], Y10, Y11
	add := func(v []VecPhysical, to VecPhysical) {
		g.VADDPS(v[1], v[0], tmp)
		g.widen256(tmp, to, tmp, other)
	}
	keep := func(v []VecPhysical, base Register) { each(g.VMOVUPS, v, floats(narrow, base, p.i, entry)) }
	weigh := func(y []VecPhysical, lifted string) {
		g.limit256(y, tmp, lifted)
		g.exp2_256(y, P, f, lifted != "")
		if lifted != "" {
			g.VBROADCASTSS(g.arg("drop"), tmp)
			each(g.VMULPS, tmp, f, f)
		}
		each(g.VMULPS, f, P, P)
	}
	g.load(narrow, d, p.s, p.i, entry, S, gradient != "")
	g.load(narrow, d, p.t, p.i, entry, T, gradient != "")
	g.VBROADCASTSS(g.arg("k"), tmp)
	for i, side := range [][]VecPhysical{S, T} {
		g.VBROADCASTSS(g.arg([]string{"nls", "nlt"}[i]), other)
		each(g.VFMADD213PS, other, tmp, side)
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
	each(g.VMULPS, P, E, E)
	switch gradient {
	case "Forward":
		keep(P, kt)
	case "Reverse":
		keep(P, ks)
		keep(E, kt)
	}
	add(E, sums[2])
	each(g.VANDPS, g.narrow.mem("abs"), E, E)
	add(E, sums[3])
}

// second256 is the second pass without a gradient: two vectors interleaved, twice per step.
type second256 struct {
	table256 // odds becomes the argument within the segment, and sign holds the original D
	d        dtype
	p        pointers
	// Each slice holds two vectors. student becomes the larger side's log2 probability, and teacher the segment. larger
	// is scratch, then the larger side's probability.
	student, teacher, larger, psi []VecPhysical
	far, acc, sum                 VecPhysical
}

// table256 looks up vectors' segments in a table: with one permute or, in the general table, with one for each sign of
// D and a blend.
type table256 struct {
	*generator
	even                bool
	tab                 Register
	odds, segment, sign []VecPhysical
	tmp                 VecPhysical // scratch
}

// lookup looks up a vector's segments in row r.
func (g *table256) lookup(r, j int, dst, scratch VecPhysical) {
	if g.even {
		g.VPERMPS(Mem{Base: g.tab, Disp: 32 * r}, g.segment[j], dst)
		return
	}
	g.VPERMPS(Mem{Base: g.tab, Disp: 64 * r}, g.segment[j], dst)
	g.VPERMPS(Mem{Base: g.tab, Disp: 64*r + 32}, g.segment[j], scratch)
	g.VBLENDVPS(g.sign[j], scratch, dst, dst)
}

// fromCentre turns D into the argument within the segment.
func (g *table256) fromCentre(scratch VecPhysical) {
	for j, d := range g.odds {
		g.lookup(0, j, g.tmp, scratch)
		g.VSUBPS(g.tmp, d, d)
	}
}

// polynomial evaluates a polynomial of degree top, whose coefficients begin at row first of the table.
func (g *table256) polynomial(dst []VecPhysical, first, top int, scratch VecPhysical) {
	for j, v := range dst {
		g.lookup(first+top, j, v, scratch)
	}
	for r := top - 1; r >= 0; r-- {
		for j, v := range dst {
			g.lookup(first+r, j, g.tmp, scratch)
			g.VFMADD213PS(g.tmp, g.odds[j], v)
		}
	}
}

// degree256 returns the degree of psi and rate in a table.
func (g *generator) degree256(even bool) int {
	if even {
		return g.number("narrowDegree")
	}
	return g.number("signedDegree")
}

// twice256 writes the loop of a second pass. body handles two vectors, starting at an entry, and each step runs it
// twice.
func (g *generator) twice256(d dtype, p pointers, body func(entry int)) {
	g.loop(p.i, p.n, 32, func() {
		g.prefetch256(d, p)
		body(0)
		body(16)
	})
}

func (g *generator) jsd256(d dtype, even bool) {
	g.text("AVX2", "jsd"+choose(even, "Even", "")+d.name)
	p := g.loadPointers()
	q := second256{
		table256: table256{g, even, p.tab, ymm[4:6], ymm[2:4], ymm[10:12], Y12},
		d:        d, p: p, student: ymm[0:2], teacher: ymm[2:4], larger: ymm[6:8], psi: ymm[8:10],
		far: Y13, acc: Y14, sum: Y15,
	}
	g.zero256(q.far, q.acc)
	g.twice256(d, p, func(entry int) {
		q.logProbabilities(entry)
		if even {
			q.evenSegment()
		} else {
			q.generalSegment()
		}
		q.fromCentre(q.larger[0])
		g.exp2_256(q.student, q.larger, q.psi, false)
		each(g.VMULPS, q.psi, q.larger, q.larger)
		q.polynomial(q.psi, 1, g.degree256(even), q.student[0])
		q.addEntries(entry > 0)
	})
	g.store256(q.acc, g.arg("sum"))
	g.storeMax256(q.far)
	g.end()
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
	each(g.VSUBPS, g.tmp, g.student, g.student)
	g.VBROADCASTSS(g.arg("rt"), g.tmp)
	each(g.VSUBPS, g.tmp, g.teacher, g.teacher)
	each(g.VSUBPS, g.student, g.teacher, g.odds)
	c := g.larger[0]
	g.broadcast("hk hd", g.tmp, c)
	each(g.VFMADD213PS, c, g.tmp, g.odds)
	g.broadcast("k nls", g.tmp, c)
	each(g.VFMADD213PS, c, g.tmp, g.student)
	g.VBROADCASTSS(g.arg("nlt"), c)
	each(g.VFMADD213PS, c, g.tmp, g.teacher)
	each(g.VMAXPS, g.teacher, g.student, g.student)
	each(g.VMAXPS, g.narrow.mem("low"), g.student, g.student)
}

// evenSegment finds which of 8 segments contains |D|. It leaves the segment in teacher and the clamped |D| in odds.
func (g *second256) evenSegment() {
	each(g.VANDPS, g.narrow.mem("abs"), g.odds, g.odds)
	each(g.VMINPS, g.narrow.mem("narrowLimit"), g.odds, g.odds) // NaN becomes the limit
	for j, d := range g.odds {
		g.index256(d, g.teacher[j])
	}
}

// generalSegment is like evenSegment, but for the general table, which has 8 segments on each side of 0. It leaves D in
// odds, clamped only to values that float32 can multiply.
func (g *second256) generalSegment() {
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
