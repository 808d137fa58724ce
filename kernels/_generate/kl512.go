package main

import (
	"slices"

	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// kl512 is the one-pass Kullback-Leibler divergence of t from s: both normalisers and the weighted log-odds in one pass
// over the rows. Weights are lifted, so that a weight that float32 would round to 0 counts where the log-odds are huge.
// Infinite log-odds make the sum infinite or NaN. For a gradient it stores the student's exponentials, leaves the
// largest of them in max, and stores a second value per entry: the exponentials of t or, if the student is t, the raw
// gradient. Two groups of two vectors of each side are half a step apart.
type kl512 struct {
	*generator
	d        dtype
	gradient string
	p        pointers
	ks, kt   Register
	k, top   VecPhysical
	e5, e4   VecPhysical
	sums     []VecPhysical // 2^ys, 2^yt, kl, klAbs in float64
}

// klGroup is two vectors of each side. At the end, s.p holds the sums of 2^ys and kl, and t.p the sums of 2^yt and
// klAbs.
type klGroup struct{ s, t sumGroup }

func (g *generator) kl512(d dtype, gradient string) {
	g.text("AVX512", "kl"+gradient+d.name)
	q := kl512{
		generator: g, d: d, gradient: gradient, p: g.loadPointers(), ks: R12, kt: R13, k: Z28, top: Z29, sums: zmm[24:28],
		e5: Z30, e4: Z31,
	}
	g.move("kept keptT", q.ks, q.kt)
	g.zero512(q.sums...)
	g.zero512(q.top)
	g.VBROADCASTSS(g.arg("k"), q.k)
	g.leading512(q.e5, q.e4)
	next, zero := R14, R15
	g.XORQ(zero, zero)
	var groups [2]klGroup
	for i := range groups {
		v := zmm[12*i:]
		groups[i] = klGroup{sumGroup{v[0:2], v[2:4], v[4:6]}, sumGroup{v[6:8], v[8:10], v[10:12]}}
	}
	lines := 2
	if d == f32 {
		lines = 4
	}
	q.head(groups[0], q.p.i, 0).write()
	g.loop(q.p.i, q.p.n, 64, func() {
		g.prefetch(lines, q.p.step, q.p.pfs, q.p.pft)
		g.nextStep(q.p.i, q.p.n, next, zero, 64)
		interleave(q.powers(groups[0]), q.head(groups[1], q.p.i, 32))
		interleave(q.powers(groups[1]), append(q.terms(groups[0], 0), q.head(groups[0], next, 0)...))
		q.terms(groups[1], 32).write()
		q.add(groups).write()
	})
	for i, field := range []string{"sumG", "sum", "kl", "klAbs"} {
		g.zero512(Z1)
		g.storeSums512(field, q.sums[i], Z1, Z2)
	}
	if gradient != "" {
		g.storeMax512(q.top)
	}
	g.end()
}

// head loads both sides, scales them, and finds their fractions.
func (g *kl512) head(q klGroup, at Register, entry int) (st stream) {
	order := g.gradient != ""
	g.loads512(&st, g.d, g.p.s, at, entry, q.s.y, order)
	g.loads512(&st, g.d, g.p.t, at, entry, q.t.y, order)
	st.each(2, func(j int) { g.VFMADD213PS_BCST(g.arg("nls"), g.k, q.s.y[j]) })
	st.each(2, func(j int) { g.VFMADD213PS_BCST(g.arg("nlt"), g.k, q.t.y[j]) })
	st.each(2, func(j int) { g.VREDUCEPS(Imm(9), q.s.y[j], q.s.f[j]) })
	st.each(2, func(j int) { g.VREDUCEPS(Imm(9), q.t.y[j], q.t.f[j]) })
	return st
}

// powers leaves 2^f of each side in that side's p. The powers of t are lifted.
func (g *kl512) powers(q klGroup) (st stream) {
	both := func(f func(j int, side sumGroup)) {
		st.each(2, func(j int) { f(j, q.s) })
		st.each(2, func(j int) { f(j, q.t) })
	}
	both(func(j int, side sumGroup) { g.VMOVAPS(g.e5, side.p[j]) })
	both(func(j int, side sumGroup) { g.VFMADD213PS(g.e4, side.f[j], side.p[j]) })
	for _, n := range []string{"e3", "e2", "e1", "e0"} {
		both(func(j int, side sumGroup) { g.VFMADD213PS_BCST(g.wide.mem(n), side.f[j], side.p[j]) })
	}
	st.each(2, func(j int) { g.VMULPS_BCST(g.arg("lift"), q.t.p[j], q.t.p[j]) })
	return st
}

// terms computes the group's terms, stores the values that a gradient needs, and adds the terms in pairs.
func (g *kl512) terms(q klGroup, entry int) (st stream) {
	odds, size := q.t.y, q.t.f
	keep := func(v []VecPhysical, base Register) {
		st.each(2, func(j int) { g.VMOVUPS(v[j], floats(wide, base, g.p.i, entry).at(j)) })
	}
	st.each(2, func(j int) { g.VSCALEFPS(q.s.y[j], q.s.p[j], q.s.p[j]) })
	st.each(2, func(j int) { g.VSCALEFPS(q.t.y[j], q.t.p[j], q.t.p[j]) })
	st.each(2, func(j int) { g.VSUBPS(q.s.y[j], odds[j], odds[j]) })
	// Where t is masked, its weight is 0 and the log-odds are -Inf or, if s is masked too, NaN. Make them finite.
	st.each(2, func(j int) { g.VMAXPS_BCST(g.wide.mem("-far"), odds[j], odds[j]) })
	st.each(2, func(j int) { g.VMULPS(q.t.p[j], odds[j], odds[j]) })
	student := q.s.p
	switch g.gradient {
	case "Forward":
		keep(q.s.p, g.ks)
		keep(q.t.p, g.kt)
	case "Reverse":
		student = q.t.p
		keep(q.t.p, g.ks)
		keep(odds, g.kt)
	}
	if g.gradient != "" {
		st.each(2, func(j int) { g.VMAXPS(student[j], g.top, g.top) })
	}
	st.each(2, func(j int) { g.VPANDD_BCST(g.wide.mem("abs"), odds[j], size[j]) })
	st.add(func() { g.VADDPS(q.s.p[1], q.s.p[0], q.s.p[0]) })
	st.add(func() { g.VADDPS(q.t.p[1], q.t.p[0], q.t.p[0]) })
	st.add(func() { g.VADDPS(odds[1], odds[0], q.s.p[1]) })
	st.add(func() { g.VADDPS(size[1], size[0], q.t.p[1]) })
	return st
}

// add adds both groups' sums to the float64 accumulators.
func (g *kl512) add(groups [2]klGroup) (st stream) {
	of := func(q klGroup) []VecPhysical { return []VecPhysical{q.s.p[0], q.t.p[0], q.s.p[1], q.t.p[1]} }
	a, b := of(groups[0]), of(groups[1])
	high := slices.Concat(groups[1].s.f, groups[1].t.f)
	st.each(4, func(j int) { g.VADDPS(a[j], b[j], b[j]) })
	st.each(4, func(j int) { g.widen512(b[j], g.sums[j], high[j]) })
	return st
}
