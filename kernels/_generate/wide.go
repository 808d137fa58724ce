package main

import (
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// double builds the float64 tiles, which compute rows that float32 can't represent. Constants and sums are rows of
// eight float64 values, whose indices kernels/wide.go names. One sequence of instructions serves both vector widths.
type double struct {
	*generator
	wide bool // AVX-512
	v    []VecPhysical
	base Register            // address of the rows
	held map[int]VecPhysical // rows that are in registers
}

// hold loads n consecutive rows, starting at each name, into the upper half of the registers, which only AVX-512 has.
func (g *double) hold(n int, names ...string) {
	for _, name := range names {
		for i := range n {
			at, v := g.number("wide"+name)+i, g.v[16+len(g.held)]
			g.VMOVUPD(Mem{Base: g.base, Disp: 64 * at}, v)
			g.held[at] = v
		}
	}
}

// doubles writes the three tiles of a path. Sum adds up both sides' exponentials; End is for beta 0 and 1, where
// entries need no logarithm, and Mix for other beta.
func (g *generator) doubles(path string, v []VecPhysical) {
	for _, kind := range []string{"Sum", "End", "Mix"} {
		g.text(path, "wide"+kind)
		d := double{generator: g, wide: path == "AVX512", v: v, base: RDX}
		d.tile(kind)
		g.end()
	}
}

// row returns the operand for a row: a register if the row is held, memory otherwise.
func (g *double) row(name string, more ...int) Op {
	at := g.number("wide" + name)
	for _, n := range more {
		at += n
	}
	if v, is := g.held[at]; is {
		return v
	}
	return Mem{Base: g.base, Disp: 64 * at}
}

// signs sets blend's mask to the sign bits of a vector. On AVX2, blend reads the vector itself.
func (g *double) signs(of VecPhysical) {
	if g.wide {
		g.VPMOVQ2M(of, K1)
	}
}

// blend sets dst to yes where the sign bit of a vector is set, and to no elsewhere. Call signs with the vector first.
func (g *double) blend(of VecPhysical, yes Op, no, dst VecPhysical) {
	if g.wide {
		g.VBLENDMPD(yes, no, K1, dst)
	} else {
		g.VBLENDVPD(of, yes, no, dst)
	}
}

// polynomial computes a polynomial of x in p. Its coefficients are in consecutive rows, the highest power first.
func (g *double) polynomial(name string, coefficients int, x, p VecPhysical) {
	g.VMOVUPD(g.row(name), p)
	for i := 1; i < coefficients; i++ {
		g.VFMADD213PD(g.row(name, i), x, p)
	}
}

// exp computes 2^y as the sum of z, a power of 2, and r. It clobbers y.
func (g *double) exp(y, z, r VecPhysical) {
	g.VADDPD(g.row("Magic"), y, z)
	g.VSUBPD(g.row("Magic"), z, r)
	g.VSUBPD(r, y, y)
	g.VPSLLQ(Imm(52), z, z)
	g.polynomial("Exp", g.number("wideExps"), y, r)
	g.VMULPD(y, r, r)
	g.VMULPD(z, r, r)
}

// log computes log2(1+u) in l, given w = 1+u, with the relative accuracy of u. It clobbers u, w, t and f.
func (g *double) log(u, w, l, t, f VecPhysical) {
	// If u is small, w - 1 is exact, and the part of u that w lacks is added to first order.
	g.VSUBPD(g.row("One"), w, t)
	g.VSUBPD(t, u, u)
	g.VMOVUPD(g.row("MinusLog2E"), t)
	g.VFMADD213PD(g.row("TwoLog2E"), w, t)
	g.VMULPD(t, u, u)
	// w is the product of a power of 2 and a factor between 2^-1/2 and 2^1/2.
	g.VPADDQ(g.row("Offset"), w, w)
	g.VPSRLQ(Imm(52), w, l)
	g.VORPD(g.row("Integer"), l, l)
	g.VSUBPD(g.row("Bias"), l, l)
	g.VADDPD(l, u, u)
	g.VANDPD(g.row("Mantissa"), w, w)
	g.VPADDQ(g.row("Root"), w, w)
	g.VSUBPD(g.row("One"), w, f)
	g.VADDPD(g.row("One"), w, w)
	g.VDIVPD(w, f, f)
	g.VMULPD(f, f, t)
	g.polynomial("Log", g.number("wideLogs"), t, l)
	g.VFMADD213PD(u, f, l)
}

func (g *double) tile(kind string) {
	s, t, out, n, i := RDI, RSI, RBX, RCX, RAX
	kept := R12
	g.move("s t g n rows kept", s, t, out, n, g.base, kept)
	g.XORQ(i, i)
	sums := g.v[10:16]
	for _, v := range sums {
		g.VXORPD(v, v, v)
	}
	entries := uint64(4)
	if g.wide {
		entries = 8
		g.held = map[int]VecPhysical{}
		g.hold(g.number("wideExps"), "Exp")
		g.hold(1, "Magic", "One", "Smallest", "Least", "Sign", "K")
	}
	a, b := g.v[0], g.v[1]
	load := func() {
		g.VCVTPS2PD(Mem{Base: s}, a)
		g.VCVTPS2PD(Mem{Base: t}, b)
		g.ADDQ(Imm(4*entries), s)
		g.ADDQ(Imm(4*entries), t)
		g.VSUBPD(g.row("TopS"), a, a)
		g.VSUBPD(g.row("TopT"), b, b)
	}
	if kind == "Sum" {
		g.loop(i, n, entries, func() {
			load()
			g.add(a, sums[g.number("wideQ")])
			g.add(b, sums[g.number("wideP")])
		})
	} else {
		// Two loops over a block have shorter chains of dependent instructions than a single loop, so the processor
		// overlaps more of them.
		g.loop(i, n, block, func() {
			g.inner("first", entries, func() {
				load()
				g.powers(sums)
			})
			g.inner("second", entries, func() {
				raw, q := g.entries(kind == "Mix", sums)
				g.store(raw, out)
				g.store(q, kept)
				g.ADDQ(Imm(4*entries), out)
				g.ADDQ(Imm(4*entries), kept)
			})
		})
	}
	for j, v := range sums {
		g.VMOVUPD(v, Mem{Base: g.base, Disp: 64 * (g.number("wideSums") + j)})
	}
}

// add adds 2^(x*k) to a sum. It clobbers x.
func (g *double) add(x, sum VecPhysical) {
	z, r := g.v[2], g.v[3]
	g.VMULPD(g.row("K"), x, x)
	g.VMAXPD(g.row("Least"), x, x)
	g.exp(x, z, r)
	g.VSUBPD(g.row("Smallest"), z, z)
	g.VADDPD(z, r, r)
	g.VADDPD(r, sum, sum)
}

// store converts a vector to float32 and stores it.
func (g *double) store(v VecPhysical, to Register) {
	if g.wide {
		g.VCVTPD2PS(v, v.AsY())
		g.VMOVUPS(v.AsY(), Mem{Base: to})
	} else {
		g.VCVTPD2PSY(v, v.AsX())
		g.VMOVUPS(v.AsX(), Mem{Base: to})
	}
}

// block is the number of entries in a block.
const block = 128

// inner repeats a body for each vector of a block. R10 is the index of the vector's first entry.
func (g *double) inner(label string, entries uint64, body func()) {
	g.XORQ(R10, R10)
	g.Label(label)
	body()
	g.ADDQ(Imm(entries), R10)
	g.CMPQ(R10, Imm(block))
	g.JLT(LabelRef(label))
}

// scratch returns the memory through which the first loop passes its n-th result for a vector to the second loop.
func (g *double) scratch(n int) Mem {
	return Mem{Base: g.base, Index: R10, Scale: 8, Disp: 64*g.number("wideScratch") + 8*block*n}
}

// powers stores a vector's D, 2^-|D|, 2^-|D| - 1 and larger side's probability in scratch. It takes the logits, minus
// each side's largest, from v[0] and v[1].
func (g *double) powers(sums []VecPhysical) {
	a, b, d, x, z := g.v[0], g.v[1], g.v[2], g.v[3], g.v[4]
	e, larger, t := g.v[5], g.v[6], g.v[9]
	g.VSUBPD(a, b, d)
	g.VMOVUPD(g.row("K"), t)
	g.VFMADD213PD(g.row("NormS"), t, a)
	g.VFMADD213PD(g.row("NormT"), t, b)
	g.VFMADD213PD(g.row("Apart"), t, d)
	g.VMAXPD(g.row("MinusFar"), d, d) // D is NaN for an entry that both sides mask; make it finite
	g.VMINPD(g.row("Far"), d, d)
	g.VMAXPD(b, a, a)
	g.VMAXPD(g.row("Least"), a, a)
	g.exp(a, z, larger)
	g.VADDPD(z, larger, larger)
	g.VSUBPD(g.row("Smallest"), larger, larger) // turns the smallest into 0; values above 2^-446 don't change
	g.VORPD(g.row("Sign"), d, x)
	g.VMINPD(x, sums[g.number("wideFarthest")], sums[g.number("wideFarthest")])
	g.VMAXPD(g.row("Least"), x, x)
	g.exp(x, z, e)
	g.VADDPD(z, e, t)
	g.VSUBPD(g.row("Smallest"), t, t)
	g.VSUBPD(g.row("One"), z, z)
	g.VADDPD(z, e, e) // 2^-|D| - 1, with relative accuracy
	for n, v := range []VecPhysical{d, t, e, larger} {
		g.VMOVUPD(v, g.scratch(n))
	}
}

// entries adds a vector of entries to the sums, and returns their gradients and the student's probabilities.
func (g *double) entries(mix bool, sums []VecPhysical) (gradient, student VecPhysical) {
	a, b, d, x, z := g.v[0], g.v[1], g.v[2], g.v[3], g.v[4]
	e, larger, q, p, t := g.v[5], g.v[6], g.v[7], g.v[8], g.v[9]
	for n, v := range []VecPhysical{d, t, e, larger} {
		g.VMOVUPD(g.scratch(n), v)
	}
	g.VORPD(g.row("Sign"), d, x)
	g.VMULPD(t, larger, b)
	g.signs(d)
	g.blend(d, larger, b, q)
	g.blend(d, b, larger, p)
	g.VMULPD(e, larger, larger)
	g.VANDPD(g.row("Sign"), d, b)
	g.VXORPD(b, larger, larger)
	minus, lm, h := larger, d, d // q-p, log2 M/q and log2 p/M
	if mix {
		// M is the larger side's probability times w = 1+u.
		g.VMOVUPD(g.row("Rest"), b)
		g.blend(d, g.row("Beta"), b, b)
		g.VMOVUPD(g.row("Beta"), a)
		g.blend(d, g.row("Rest"), a, a)
		g.VMULPD(b, e, e)
		g.VFMADD213PD(a, b, t)
		g.log(e, t, a, b, z)
		lm, h = b, z
		g.VXORPD(t, t, t)
		g.VMAXPD(d, t, lm)
		g.VADDPD(a, lm, lm)
		g.VMINPD(d, t, h)
		g.VSUBPD(a, h, h)
	}
	loss, free := t, a
	g.VMULPD(lm, q, e)
	g.VMULPD(h, p, loss)
	g.VMULPD(g.row("LossP"), loss, loss)
	g.VFMADD231PD(g.row("LossQ"), e, loss)
	g.VFMADD231PD(g.row("LossMinus"), minus, loss)
	g.VMOVUPD(g.row("FreeShare"), free)
	g.VFMADD231PD(g.row("FreeQ"), lm, free)
	g.VMULPD(q, free, free)
	g.VFMADD231PD(g.row("FreeMinus"), minus, free)
	g.finishTerms(sums)
	return free, q
}

// finishTerms takes its input from the registers in which entries computed it. It replaces losses that cancel, cuts
// losses that are too large, adds a vector's results to the sums, and turns the free derivatives into gradients.
func (g *double) finishTerms(sums []VecPhysical) {
	free, b, d, x, z, q, p, loss := g.v[0], g.v[1], g.v[2], g.v[3], g.v[4], g.v[7], g.v[8], g.v[9]
	// Where the sides are nearly equal, the loss cancels.
	g.polynomial("Near", g.number("wideNears"), d, z)
	for _, factor := range []VecPhysical{d, d, q} {
		g.VMULPD(factor, z, z)
	}
	g.VMOVUPD(g.row("MinusNear"), b)
	g.VSUBPD(x, b, b)
	g.signs(b)
	g.blend(b, z, loss, loss)
	g.VMOVUPD(g.row("Cut"), b)
	g.VSUBPD(loss, b, b)
	g.VMINPD(g.row("Cut"), loss, loss)
	g.VXORPD(z, z, z)
	g.signs(b)
	g.blend(b, z, free, free)
	g.blend(b, g.row("One"), z, z)
	for _, sum := range []struct {
		name string
		v    VecPhysical
	}{{"Clipped", z}, {"P", p}, {"Q", q}, {"Free", free}, {"Loss", loss}} {
		to := sums[g.number("wide"+sum.name)]
		g.VADDPD(sum.v, to, to)
	}
	g.VFMADD231PD(g.row("Mean"), q, free)
	g.VMULPD(g.row("Scale"), free, free)
}
