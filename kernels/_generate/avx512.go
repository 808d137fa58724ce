package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

var c512 *constants

func avx512Constants() {
	c512 = newConstants("one512", 1)
	for i, v := range expFloor {
		c512.add(fmt.Sprint("e", i), bits(v))
	}
	c512.add("magic", bits(1.5*(1<<23)))
	c512.add("evenLimit", bits(31.99))
	c512.add("limit", bits(15.99))
	c512.add("far", bits(1e30))
	c512.add("one", U32(1))
	c512.add("sign", U32(1<<31))
	c512.add("high", U32(0xffff0000))
	c512.add("abs", U32(1<<31-1))
}

// load512 loads len(v)*16 entries from entry e on. Half types widen; without order, bfloat16 pairs may come
// even-odd: one instruction a vector less, enough where only sums matter.
func load512(d dtype, base, i Register, e int, v []VecPhysical, order bool) {
	at := func(k int) Mem { return Mem{Base: base, Index: i, Scale: uint8(d.size), Disp: (e + k) * d.size} }
	switch {
	case d == f32:
		for j := range v {
			VMOVUPS(at(16*j), v[j])
		}
	case d == f16:
		for j := range v {
			VCVTPH2PS(at(16*j), v[j])
		}
	case order:
		for j := range v {
			VPMOVZXWD(at(16*j), v[j])
		}
		for j := range v {
			VPSLLD(Imm(16), v[j], v[j])
		}
	default:
		for j := 0; j < len(v); j += 2 {
			VMOVDQU32(at(16*j), v[j+1])
			VPSLLD(Imm(16), v[j+1], v[j])
			VPANDD_BCST(c512.mem("high"), v[j+1], v[j+1])
		}
	}
}

// sumLanes leaves the float64 sum of z's lanes in its low lane.
func sumLanes512(z, tmp VecPhysical) {
	VEXTRACTF32X8(Imm(1), z, tmp.AsY())
	VCVTPS2PD(z.AsY(), z)
	VCVTPS2PD(tmp.AsY(), tmp)
	VADDPD(tmp, z, z)
	VEXTRACTF64X4(Imm(1), z, tmp.AsY())
	VADDPD(tmp.AsY(), z.AsY(), z.AsY())
	VEXTRACTF64X2(Imm(1), z.AsY(), tmp.AsX())
	VADDPD(tmp.AsX(), z.AsX(), z.AsX())
	VPERMILPD(Imm(1), z.AsX(), tmp.AsX())
	VADDSD(tmp.AsX(), z.AsX(), z.AsX())
}

// addFloat64 adds v's lanes to two float64 accumulators.
func addFloat64(v, acc0, acc1, t0, t1 VecPhysical) {
	VEXTRACTF32X8(Imm(1), v, t0.AsY())
	VCVTPS2PD(v.AsY(), t1)
	VCVTPS2PD(t0.AsY(), t0)
	VADDPD(t1, acc0, acc0)
	VADDPD(t0, acc1, acc1)
}

// widen512 adds v's lanes, in pairs, to a float64 accumulator.
func widen512(v, acc, t VecPhysical) {
	VEXTRACTF32X8(Imm(1), v, t.AsY())
	VADDPS(t.AsY(), v.AsY(), v.AsY())
	VCVTPS2PD(v.AsY(), v)
	VADDPD(v, acc, acc)
}

// storeFloat64 stores the sum of two float64 accumulators.
func storeFloat64(a Register, off int, acc0, acc1, t VecPhysical) {
	VADDPD(acc1, acc0, acc0)
	VEXTRACTF64X4(Imm(1), acc0, t.AsY())
	VADDPD(t.AsY(), acc0.AsY(), acc0.AsY())
	VEXTRACTF64X2(Imm(1), acc0.AsY(), t.AsX())
	VADDPD(t.AsX(), acc0.AsX(), acc0.AsX())
	VPERMILPD(Imm(1), acc0.AsX(), t.AsX())
	VADDSD(t.AsX(), acc0.AsX(), acc0.AsX())
	store64(acc0, a, off)
}

func maxLanes512(z, tmp VecPhysical) {
	VEXTRACTF32X8(Imm(1), z, tmp.AsY())
	VMAXPS(tmp.AsY(), z.AsY(), z.AsY())
	VEXTRACTF32X4(Imm(1), z.AsY(), tmp.AsX())
	VMAXPS(tmp.AsX(), z.AsX(), z.AsX())
	VPERMILPS(Imm(0x4e), z.AsX(), tmp.AsX())
	VMAXPS(tmp.AsX(), z.AsX(), z.AsX())
	VPERMILPS(Imm(0xb1), z.AsX(), tmp.AsX())
	VMAXPS(tmp.AsX(), z.AsX(), z.AsX())
}

// store64 stores the low float64 of z; VMOVSD of a high register is no instruction avo has.
func store64(z VecPhysical, a Register, off int) {
	VMOVAPD(z.AsX(), X0)
	VMOVSD(X0, Mem{Base: a, Disp: off})
}

func store32(z VecPhysical, a Register, off int) {
	VMOVAPS(z.AsX(), X0)
	VMOVSS(X0, Mem{Base: a, Disp: off})
}

func zero512(z ...VecPhysical) {
	for _, v := range z {
		VPXORD(v, v, v)
	}
}

// exp2_512 is p = 2^y; f, t0 and t1 are scratch. -Inf gives 0, +Inf and NaN stay.
func exp2_512(y, f, p []VecPhysical, t0, t1 VecPhysical) {
	fractions512(y, f)
	leading512(t0, t1)
	powers512(y, f, p, t0, t1)
}

// fractions512 is f = y - floor(y).
func fractions512(y, f []VecPhysical) {
	for j := range y {
		VREDUCEPS(Imm(9), y[j], f[j])
	}
}

// leading512 loads the two highest coefficients of 2^f.
func leading512(e5, e4 VecPhysical) {
	VBROADCASTSS(c512.mem("e5"), e5)
	VBROADCASTSS(c512.mem("e4"), e4)
}

// powers512 is p = 2^y of y and its fraction f.
func powers512(y, f, p []VecPhysical, e5, e4 VecPhysical) {
	for j := range y {
		VMOVAPS(e5, p[j])
	}
	for j := range y {
		VFMADD213PS(e4, f[j], p[j])
	}
	for _, n := range []string{"e3", "e2", "e1", "e0"} {
		for j := range y {
			VFMADD213PS_BCST(c512.mem(n), f[j], p[j])
		}
	}
	for j := range y {
		VSCALEFPS(y[j], p[j], p[j])
	}
}

func max512(d dtype) {
	a := text("AVX512", "max"+d.name)
	s, n, i := RDI, RCX, RAX
	MOVQ(Mem{Base: a, Disp: argS}, s)
	MOVQ(Mem{Base: a, Disp: argN}, n)
	XORQ(i, i)
	load512(d, s, i, 0, zmm[0:4], false)
	JMP(LabelRef("next"))
	align()
	Label("loop")
	load512(d, s, i, 0, zmm[4:8], false)
	for j := range 4 {
		VMAXPS(zmm[4+j], zmm[j], zmm[j])
	}
	Label("next")
	ADDQ(Imm(64), i)
	CMPQ(i, n)
	JLT(LabelRef("loop"))
	VMAXPS(Z1, Z0, Z0)
	VMAXPS(Z3, Z2, Z2)
	VMAXPS(Z2, Z0, Z0)
	maxLanes512(Z0, Z1)
	store32(Z0, a, argMax)
	VZEROUPPER()
	RET()
}

func sum512(d dtype) {
	a := text("AVX512", "sum"+d.name)
	s, n, i, pf, step := RDI, RCX, RAX, RSI, RDX
	MOVQ(Mem{Base: a, Disp: argS}, s)
	MOVQ(Mem{Base: a, Disp: argN}, n)
	MOVQ(Mem{Base: a, Disp: argPfs}, pf)
	MOVQ(Mem{Base: a, Disp: argStep}, step)
	VBROADCASTSS(Mem{Base: a, Disp: argK}, Z28)
	VBROADCASTSS(Mem{Base: a, Disp: argRef}, Z29)
	leading512(Z30, Z31)
	zero512(Z24, Z25)
	XORQ(i, i)
	y, f, p := zmm[0:8], zmm[8:16], zmm[16:24]
	align()
	Label("loop")
	load512(d, s, i, 0, y, false)
	prefetch(linesAhead(d, false), step, pf)
	for j := range y {
		VFMSUB213PS(Z29, Z28, y[j])
	}
	fractions512(y, f)
	powers512(y, f, p, Z30, Z31)
	// Pairs first, then float64: many small terms added one by one to a large float32 would be lost.
	for w := 1; w < 8; w *= 2 {
		for j := 0; j < 8; j += 2 * w {
			VADDPS(p[j+w], p[j], p[j])
		}
	}
	addFloat64(p[0], Z24, Z25, p[1], p[2])
	ADDQ(Imm(128), i)
	CMPQ(i, n)
	JLT(LabelRef("loop"))
	storeFloat64(a, argSum, Z24, Z25, Z0)
	VZEROUPPER()
	RET()
}

// jsd512 is the second pass: 64 entries a step, four vectors interleaved so that the scheduler sees four chains.
func jsd512(d dtype, k kind) {
	a := text("AVX512", k.name()+d.name)
	arg := func(off int) Mem { return Mem{Base: a, Disp: off} }
	p := loadPointers(a)
	A, B, C, D, E, P := zmm[0:4], zmm[4:8], zmm[8:12], zmm[12:16], zmm[16:20], zmm[20:24]
	lo, hi, acc, accG, far, cnt := Z24, Z25, Z28, Z29, Z30, Z31
	T := zmm[26:28]
	masks := []OpmaskPhysical{K1, K2, K3, K4}
	zero512(acc, accG, far, cnt)
	row := func(r int) {
		VMOVAPS(Mem{Base: p.tab, Disp: r * 128}, lo)
		VMOVAPS(Mem{Base: p.tab, Disp: r*128 + 64}, hi)
	}
	lookup := func(j int, dst VecPhysical) {
		VMOVAPS(lo, dst)
		VPERMT2PS(hi, B[j], dst)
	}
	align()
	Label("loop")
	load512(d, p.s, p.i, 0, A, k.grad)
	load512(d, p.t, p.i, 0, B, k.grad)
	prefetch(linesAhead(d, true), p.step, p.pfs, p.pft)
	VBROADCASTSS(arg(argRs), lo)
	VBROADCASTSS(arg(argRt), hi)
	for j := range A {
		VSUBPS(lo, A[j], A[j])
	}
	for j := range A {
		VSUBPS(hi, B[j], B[j])
	}
	VBROADCASTSS(arg(argHk), lo)
	VBROADCASTSS(arg(argHd), hi)
	for j := range A {
		VSUBPS(A[j], B[j], C[j])
	}
	for j := range A {
		VFMADD213PS(hi, lo, C[j]) // D = (t'-s')*hk + hd
	}
	VBROADCASTSS(arg(argK), lo)
	for j := range A {
		VFMADD213PS_BCST(arg(argNls), lo, A[j])
	}
	for j := range A {
		VFMADD213PS_BCST(arg(argNlt), lo, B[j])
	}
	if k.grad {
		for j := range A {
			VPMOVD2M(C[j], masks[j]) // the student's side is the larger
		}
	}
	for j := range A {
		VMAXPS(B[j], A[j], A[j])
	}
	VBROADCASTSS(c512.mem("magic"), hi)
	if k.even {
		VBROADCASTSS(c512.mem("evenLimit"), lo)
		for j := range A {
			VRANGEPS(Imm(0xa), lo, C[j], C[j]) // |D| up to the limit; NaN becomes the limit
		}
		for j := range A {
			VADDPS_RD_SAE(hi, C[j], B[j]) // segment in the low bits
		}
		for j := range A {
			VREDUCEPS(Imm(9), C[j], C[j]) // |D| - floor
		}
	} else {
		for j := range A {
			VRANGEPS(Imm(0xb), C[j], far, far) // largest |D|, NaN passed over
		}
		VBROADCASTSS(c512.mem("far"), lo)
		for j := range A {
			VRANGEPS(Imm(0x2), lo, C[j], C[j])
		}
		VBROADCASTSS(c512.mem("limit"), lo)
		for j := range A {
			VRANGEPS(Imm(0x2), lo, C[j], B[j])
		}
		for j := range A {
			VADDPS_RD_SAE(hi, B[j], B[j])
		}
		row(0)
		for j := range A {
			lookup(j, T[j%2])
			VSUBPS(T[j%2], C[j], C[j])
		}
	}
	exp2_512(A, D, E, lo, hi)
	if k.grad {
		for j := range A {
			VMULPS_BCST(arg(argLift), E[j], masks[j], E[j])
		}
	}
	// psi in P and, for the gradient, its derivative in Q (the registers of A).
	Q := A
	top, first := degree, 1
	if k.even {
		top, first = evenDegree, 0
	}
	row(first + top)
	for j := range A {
		lookup(j, P[j])
	}
	for r := top - 1; r >= 0; r-- {
		row(first + r)
		for j := range A {
			t := T[j%2]
			lookup(j, t)
			if k.grad {
				switch r {
				case top - 1:
					VMOVAPS(P[j], Q[j])
				default:
					VFMADD213PS(P[j], C[j], Q[j])
				}
			}
			VFMADD213PS(t, C[j], P[j])
		}
	}
	if !k.grad {
		// Four vectors, then float64: of many equal terms, rounding against a large sum is all one way.
		VMULPS(E[0], P[0], accG)
		for j := range A[1:] {
			VFMADD231PS(E[1+j], P[1+j], accG)
		}
		widen512(accG, acc, lo)
	} else {
		for j := range A {
			VMULPS(E[j], P[j], P[j]) // the entry
		}
		for j := range A {
			VMULPS(E[j], Q[j], Q[j])
		}
		// g = slope*l + 2^hi psi' on the student's side, -2^hi psi' on the teacher's; psi' is by |D| for the even table.
		VBROADCASTSS(arg(argSlope), lo)
		if k.even {
			for j := range A {
				VPXORD_BCST(c512.mem("sign"), Q[j], D[j])
			}
			for j := range A {
				VFMADD231PS(lo, P[j], Q[j])
			}
			for j := range A {
				VBLENDMPS(Q[j], D[j], masks[j], D[j])
			}
		} else {
			for j := range A {
				VPXORD_BCST(c512.mem("sign"), Q[j], D[j])
			}
			for j := range A {
				VFMADD231PS(lo, P[j], masks[j], D[j])
			}
			VBROADCASTSS(arg(argClip), hi)
			for j := range A {
				VCMPPS(Imm(0x1e), hi, P[j], masks[j]) // entry > clip
			}
			for j := range A {
				VMOVAPS(hi, masks[j], P[j])
			}
			for j := range A {
				VPXORD(D[j], D[j], masks[j], D[j])
			}
			for j := range A {
				VPADDD_BCST(c512.mem("one"), cnt, masks[j], cnt)
			}
		}
		// Pairwise, so that fewer additions round against a large sum.
		VADDPS(P[1], P[0], P[0])
		VADDPS(P[3], P[2], P[2])
		VADDPS(D[1], D[0], T[0])
		VADDPS(D[3], D[2], T[1])
		VADDPS(P[2], P[0], P[0])
		VADDPS(T[1], T[0], T[0])
		widen512(P[0], acc, P[1])
		VEXTRACTF32X8(Imm(1), T[0], P[1].AsY())
		VCVTPS2PD(T[0].AsY(), P[2])
		VCVTPS2PD(P[1].AsY(), P[1])
		VADDPD(P[1], accG, accG)
		VADDPD(P[2], accG, accG)
		for j := range A {
			VMOVUPS(D[j], Mem{Base: p.g, Index: p.i, Scale: 4, Disp: 64 * j})
		}
	}
	ADDQ(Imm(64), p.i)
	CMPQ(p.i, p.n)
	JLT(LabelRef("loop"))
	if k.grad {
		VCVTDQ2PS(cnt, cnt)
		sumLanes512(cnt, Z1)
		VMOVAPD(cnt.AsX(), X0)
		VCVTTSD2SIQ(X0, RAX)
		MOVQ(RAX, arg(argClipped))
		zero512(Z0)
		storeFloat64(a, argSumG, accG, Z0, Z1)
	}
	zero512(Z0)
	storeFloat64(a, argSum, acc, Z0, Z1)
	maxLanes512(far, Z1)
	store32(far, a, argMax)
	VZEROUPPER()
	RET()
}

// finish512 is out = 2^(k(s-rs)+nls)*qk + g*gk. The streaming one writes past the caches, to a 64-byte boundary: a large
// gradient would otherwise be read before it is written.
func finish512(d dtype, stream bool) {
	name := "finish"
	if stream {
		name = "stream"
	}
	a := text("AVX512", name+d.name)
	arg := func(off int) Mem { return Mem{Base: a, Disp: off} }
	s, g, out, n, i := RDI, RSI, RBX, RCX, RAX
	MOVQ(arg(argS), s)
	MOVQ(arg(argG), g)
	MOVQ(arg(argOut), out)
	MOVQ(arg(argN), n)
	XORQ(i, i)
	Y, F, P, G := zmm[0:4], zmm[4:8], zmm[8:12], zmm[12:16]
	rs, k, nls, qk, gk, top, qmax := Z16, Z17, Z18, Z19, Z20, Z21, Z22
	for off, r := range []VecPhysical{rs, k, nls, qk, gk} {
		VBROADCASTSS(arg([]int{argRs, argK, argNls, argQk, argGk}[off]), r)
	}
	zero512(top, qmax)
	align()
	Label("loop")
	load512(d, s, i, 0, Y, true)
	for j := range Y {
		VMULPS(Mem{Base: g, Index: i, Scale: 4, Disp: 64 * j}, gk, G[j])
	}
	for j := range Y {
		VSUBPS(rs, Y[j], Y[j])
	}
	for j := range Y {
		VFMADD213PS(nls, k, Y[j])
	}
	exp2_512(Y, F, P, Z24, Z25)
	for j := range Y {
		VFMADD231PS(P[j], qk, G[j])
	}
	for j := range Y {
		VMAXPS(P[j], qmax, qmax)
	}
	for j := range Y {
		VRANGEPS(Imm(0xb), G[j], top, top)
	}
	for j := range Y {
		to := Mem{Base: out, Index: i, Scale: 4, Disp: 64 * j}
		if stream {
			VMOVNTPS(G[j], to)
		} else {
			VMOVUPS(G[j], to)
		}
	}
	ADDQ(Imm(64), i)
	CMPQ(i, n)
	JLT(LabelRef("loop"))
	if stream {
		SFENCE()
	}
	maxLanes512(top, Z1)
	store32(top, a, argMax)
	maxLanes512(qmax, Z1)
	store32(qmax, a, argQmax)
	VZEROUPPER()
	RET()
}

// kl512 is the one-pass Kullback-Leibler divergence: both normalisers and the weighted log-odds in one reading.
func kl512(d dtype) {
	a := text("AVX512", "kl"+d.name)
	arg := func(off int) Mem { return Mem{Base: a, Disp: off} }
	p := loadPointers(a)
	S, T, F, P, E := zmm[0:4], zmm[4:8], zmm[8:12], zmm[12:16], zmm[16:20]
	e5, e4, k, limit, most := Z20, Z21, Z22, Z23, Z28
	sums := []VecPhysical{Z24, Z25, Z26, Z27} // 2^yt, 2^ys, kl, klAbs in float64
	zero512(sums...)
	zero512(most)
	VBROADCASTSS(arg(argK), k)
	leading512(e5, e4)
	VBROADCASTSS(c512.mem("far"), limit)
	lines := 2
	if d == f32 {
		lines = 4
	}
	// add adds four vectors pairwise, then as float64.
	add := func(v []VecPhysical, to VecPhysical) {
		VADDPS(v[1], v[0], v[0])
		VADDPS(v[3], v[2], v[2])
		VADDPS(v[2], v[0], v[0])
		VEXTRACTF32X8(Imm(1), v[0], v[1].AsY())
		VCVTPS2PD(v[0].AsY(), v[0])
		VCVTPS2PD(v[1].AsY(), v[1])
		VADDPD(v[0], to, to)
		VADDPD(v[1], to, to)
	}
	align()
	Label("loop")
	load512(d, p.s, p.i, 0, S, false)
	load512(d, p.t, p.i, 0, T, false)
	prefetch(lines, p.step, p.pfs, p.pft)
	for j := range S {
		VFMADD213PS_BCST(arg(argNls), k, S[j])
	}
	for j := range S {
		VFMADD213PS_BCST(arg(argNlt), k, T[j])
	}
	for j := range S {
		VSUBPS(S[j], T[j], E[j])
	}
	for j := range S {
		VMAXPS(most, E[j], most) // NaN leaves it as it was
	}
	for j := range S {
		VRANGEPS(Imm(0x2), limit, E[j], E[j]) // masked on both sides: NaN, whose weight is 0, becomes finite
	}
	fractions512(S, F)
	powers512(S, F, P, e5, e4)
	add(P, sums[1])
	fractions512(T, F)
	powers512(T, F, P, e5, e4)
	for j := range S {
		VMULPS(P[j], E[j], E[j])
	}
	for j := range S {
		VPANDD_BCST(c512.mem("abs"), E[j], F[j])
	}
	add(P, sums[0])
	add(E, sums[2])
	add(F, sums[3])
	ADDQ(Imm(64), p.i)
	CMPQ(p.i, p.n)
	JLT(LabelRef("loop"))
	for i, off := range []int{argSum, argSumG, argKL, argKLAbs} {
		zero512(Z1)
		storeFloat64(a, off, sums[i], Z1, Z2)
	}
	maxLanes512(most, Z1)
	store32(most, a, argMax)
	VZEROUPPER()
	RET()
}
