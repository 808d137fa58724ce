package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// c256 repeats each constant over a vector: AVX2 has no broadcast operands.
var c256 *constants

func avx2Constants() {
	c256 = newConstants("each256", 8)
	for i, v := range expNear {
		c256.add(fmt.Sprint("e", i), bits(v))
	}
	c256.add("biased", bits(1.5*(1<<23)+127)) // rounds to an integer that sits in the exponent's place after a shift
	c256.add("low", bits(-127))
	c256.add("high", bits(127))
	c256.add("abs", U32(1<<31-1))
	c256.add("narrowLimit", bits(14.99))
	c256.add("one", bits(1))
	c256.add("upper", U32(0xffff0000))
	c256.add("far", bits(1e30))
	c256.add("-far", bits(-1e30))
	c256.add("sign", U32(1<<31))
}

// load256 loads len(v)*8 entries from entry e on. Half types widen; without order, bfloat16 pairs may come even-odd: one
// instruction a vector less, enough where only sums matter.
func load256(d dtype, base, i Register, e int, v []VecPhysical, order bool) {
	at := func(k int) Mem { return Mem{Base: base, Index: i, Scale: uint8(d.size), Disp: (e + k) * d.size} }
	switch {
	case d == f32:
		for j := range v {
			VMOVUPS(at(8*j), v[j])
		}
	case d == f16:
		for j := range v {
			VCVTPH2PS(at(8*j), v[j])
		}
	case order:
		for j := range v {
			VPMOVZXWD(at(8*j), v[j])
		}
		for j := range v {
			VPSLLD(Imm(16), v[j], v[j])
		}
	default:
		for j := 0; j < len(v); j += 2 {
			VMOVDQU(at(8*j), v[j+1])
			VPSLLD(Imm(16), v[j+1], v[j])
			VPAND(c256.mem("upper"), v[j+1], v[j+1])
		}
	}
}

// widen256 adds the lanes of v to a float64 accumulator. t0 may be v.
func widen256(v, acc, t0, t1 VecPhysical) {
	VEXTRACTF128(Imm(1), v, t1.AsX())
	VCVTPS2PD(v.AsX(), t0)
	VCVTPS2PD(t1.AsX(), t1)
	VADDPD(t0, acc, acc)
	VADDPD(t1, acc, acc)
}

// store256 stores the sum of a float64 accumulator's lanes.
func store256(acc VecPhysical, a Register, off int) {
	VEXTRACTF128(Imm(1), acc, X1)
	VADDPD(X1, acc.AsX(), acc.AsX())
	VPERMILPD(Imm(1), acc.AsX(), X1)
	VADDSD(X1, acc.AsX(), acc.AsX())
	VMOVSD(acc.AsX(), Mem{Base: a, Disp: off})
}

func maxLanes256(y, tmp VecPhysical) {
	VEXTRACTF128(Imm(1), y, tmp.AsX())
	VMAXPS(tmp.AsX(), y.AsX(), y.AsX())
	VPERMILPS(Imm(0x4e), y.AsX(), tmp.AsX())
	VMAXPS(tmp.AsX(), y.AsX(), y.AsX())
	VPERMILPS(Imm(0xb1), y.AsX(), tmp.AsX())
	VMAXPS(tmp.AsX(), y.AsX(), y.AsX())
}

// exp2_256 leaves 2^y as p times z; y is clobbered. The caller has clamped y to [-127, 127]: beyond it the shifted
// exponent would wrap into a finite wrong number. At -127 z is exactly 0. Memory operands keep NaN in y.
func exp2_256(y, z, p []VecPhysical) {
	for j := range y {
		VADDPS(c256.mem("biased"), y[j], z[j])
	}
	for j := range y {
		VSUBPS(c256.mem("biased"), z[j], p[j])
	}
	for j := range y {
		VSUBPS(p[j], y[j], y[j])
	}
	for j := range y {
		VMOVUPS(c256.mem("e6"), p[j])
	}
	for _, n := range []string{"e5", "e4", "e3", "e2", "e1", "e0"} {
		for j := range y {
			VFMADD213PS(c256.mem(n), y[j], p[j])
		}
	}
	for j := range y {
		VPSLLD(Imm(23), z[j], z[j])
	}
}

func max256(d dtype) {
	a := text("AVX2", "max"+d.name)
	s, n, i := RDI, RCX, RAX
	MOVQ(Mem{Base: a, Disp: argS}, s)
	MOVQ(Mem{Base: a, Disp: argN}, n)
	XORQ(i, i)
	load256(d, s, i, 0, ymm[0:4], false)
	JMP(LabelRef("next"))
	align()
	Label("loop")
	load256(d, s, i, 0, ymm[4:8], false)
	for j := range 4 {
		VMAXPS(ymm[4+j], ymm[j], ymm[j])
	}
	Label("next")
	ADDQ(Imm(32), i)
	CMPQ(i, n)
	JLT(LabelRef("loop"))
	VMAXPS(Y1, Y0, Y0)
	VMAXPS(Y3, Y2, Y2)
	VMAXPS(Y2, Y0, Y0)
	maxLanes256(Y0, Y1)
	VMOVSS(X0, Mem{Base: a, Disp: argMax})
	VZEROUPPER()
	RET()
}

func sum256(d dtype) {
	a := text("AVX2", "sum"+d.name)
	s, n, i, pf, step := RDI, RCX, RAX, RSI, RDX
	MOVQ(Mem{Base: a, Disp: argS}, s)
	MOVQ(Mem{Base: a, Disp: argN}, n)
	MOVQ(Mem{Base: a, Disp: argPfs}, pf)
	MOVQ(Mem{Base: a, Disp: argStep}, step)
	VBROADCASTSS(Mem{Base: a, Disp: argK}, Y14)
	VBROADCASTSS(Mem{Base: a, Disp: argRef}, Y15)
	VXORPS(Y12, Y12, Y12)
	VXORPS(Y13, Y13, Y13)
	XORQ(i, i)
	y, z, p := ymm[0:4], ymm[4:8], ymm[8:12]
	align()
	Label("loop")
	prefetch(1, step, pf)
	for u := range 2 {
		load256(d, s, i, 32*u, y, false)
		for j := range y {
			VFMSUB213PS(Y15, Y14, y[j])
		}
		// MAXPS and MINPS return their second source on NaN: y, so that a NaN reaches the sum.
		VMOVUPS(c256.mem("low"), z[0])
		for j := range y {
			VMAXPS(y[j], z[0], y[j])
		}
		VMOVUPS(c256.mem("high"), z[0])
		for j := range y {
			VMINPS(y[j], z[0], y[j])
		}
		exp2_256(y, z, p)
		// Pairs first, then float64: many small terms added one by one to a large float32 would be lost.
		VMULPS(p[0], z[0], p[0])
		VMULPS(p[2], z[2], p[2])
		VFMADD231PS(p[1], z[1], p[0])
		VFMADD231PS(p[3], z[3], p[2])
		VADDPS(p[2], p[0], p[0])
		VEXTRACTF128(Imm(1), p[0], p[1].AsX())
		VCVTPS2PD(p[0].AsX(), p[0])
		VCVTPS2PD(p[1].AsX(), p[1])
		VADDPD(p[0], Y12, Y12)
		VADDPD(p[1], Y13, Y13)
	}
	ADDQ(Imm(64), i)
	CMPQ(i, n)
	JLT(LabelRef("loop"))
	VADDPD(Y13, Y12, Y12)
	VEXTRACTF128(Imm(1), Y12, X13)
	VADDPD(X13, X12, X12)
	VPERMILPD(Imm(1), X12, X13)
	VADDSD(X13, X12, X12)
	VMOVSD(X12, Mem{Base: a, Disp: argSum})
	VZEROUPPER()
	RET()
}

// jsd256 is the second pass: two vectors interleaved.
func jsd256(d dtype, k kind) {
	a := text("AVX2", k.name()+d.name)
	arg := func(off int) Mem { return Mem{Base: a, Disp: off} }
	p := loadPointers(a)
	A, B, C, E, P := ymm[0:2], ymm[2:4], ymm[4:6], ymm[6:8], ymm[8:10]
	M := ymm[10:12] // D as it was, for its sign
	Q := A          // the derivative, once A is used up
	side := B       // the gradient's two sides, once B is
	early, late := E[0], A[0]
	if k.grad && !k.even { // no register is left for the sign: it goes on top of the index
		M, side = B, C
		early, late = Y10, Y10
	}
	const width = 16
	T, far, acc, accG := Y12, Y13, Y14, Y15
	for _, y := range []VecPhysical{far, acc, accG} {
		VXORPS(y, y, y)
	}
	if k.grad {
		XORQ(R12, R12)
	}
	align()
	Label("loop")
	lines := 1 // of 1 in 32 entries
	if d == f32 {
		lines = 2 // of 2: somewhat more than the first pass leaves
	}
	prefetch(lines, p.step, p.pfs, p.pft)
	for u := range 2 {
		load256(d, p.s, p.i, width*u, A, k.grad)
		load256(d, p.t, p.i, width*u, B, k.grad)
		VBROADCASTSS(arg(argRs), T)
		for j := range A {
			VSUBPS(T, A[j], A[j])
		}
		VBROADCASTSS(arg(argRt), T)
		for j := range A {
			VSUBPS(T, B[j], B[j])
		}
		for j := range A {
			VSUBPS(A[j], B[j], C[j])
		}
		VBROADCASTSS(arg(argHk), T)
		VBROADCASTSS(arg(argHd), E[0])
		for j := range A {
			VFMADD213PS(E[0], T, C[j])
		}
		VBROADCASTSS(arg(argK), T)
		VBROADCASTSS(arg(argNls), E[0])
		for j := range A {
			VFMADD213PS(E[0], T, A[j])
		}
		VBROADCASTSS(arg(argNlt), E[0])
		for j := range A {
			VFMADD213PS(E[0], T, B[j])
		}
		for j := range A {
			VMAXPS(B[j], A[j], A[j])
		}
		for j := range A {
			VMAXPS(c256.mem("low"), A[j], A[j])
		}
		if k.grad && k.even {
			for j := range A {
				VMOVAPS(C[j], M[j])
			}
		}
		lookup := table256(k, p, C, B, M, early, far)
		exp2_256(A, E, P)
		for j := range A {
			VMULPS(P[j], E[j], E[j]) // 2^hi
		}
		if k.grad {
			VBROADCASTSS(arg(argLift), T)
			for j := range A {
				VMULPS(T, E[j], P[j])
				VBLENDVPS(M[j], P[j], E[j], E[j])
			}
		}
		top := signedDeg
		if k.even {
			top = narrowDeg
		}
		for j := range A {
			lookup(top, j, P[j], late)
		}
		for r := top - 1; r >= 0; r-- {
			for j := range A {
				lookup(r, j, T, late)
				if k.grad {
					if r == top-1 {
						VMOVAPS(P[j], Q[j])
					} else {
						VFMADD213PS(P[j], C[j], Q[j])
					}
				}
				VFMADD213PS(T, C[j], P[j])
			}
		}
		if !k.grad {
			// Four vectors, then float64: of many equal terms, rounding against a large sum is all one way.
			if u == 0 {
				VMULPS(E[0], P[0], accG)
			} else {
				VFMADD231PS(E[0], P[0], accG)
			}
			VFMADD231PS(E[1], P[1], accG)
			if u == 1 {
				widen256(accG, acc, P[0], P[1])
			}
			continue
		}
		for j := range A {
			VMULPS(E[j], P[j], P[j]) // the entry
		}
		for j := range A {
			VMULPS(E[j], Q[j], Q[j])
		}
		VBROADCASTSS(arg(argSlope), T)
		for j := range A {
			// side: the teacher's, -2^hi psi'. E: the student's.
			VXORPS(side[j], side[j], side[j])
			VSUBPS(Q[j], side[j], side[j])
			from := Q[j]
			if !k.even {
				from = side[j]
			}
			VMOVAPS(from, E[j])
			VFMADD231PS(T, P[j], E[j])
			VBLENDVPS(M[j], E[j], side[j], side[j])
		}
		if !k.even {
			VBROADCASTSS(arg(argClip), T)
			for j := range A {
				VCMPPS(Imm(0x1e), T, P[j], E[j]) // entry > clip
				VMINPS(T, P[j], P[j])
				VANDNPS(side[j], E[j], side[j])
				VMOVMSKPS(E[j], R13L)
				POPCNTL(R13L, R13L)
				ADDQ(R13, R12)
			}
		}
		VADDPS(P[1], P[0], P[0])
		VADDPS(side[1], side[0], T)
		sumG := T
		widen256(P[0], acc, P[0], E[0])
		widen256(sumG, accG, T, E[0])
		for j := range A {
			VMOVUPS(side[j], Mem{Base: p.g, Index: p.i, Scale: 4, Disp: 4*width*u + 32*j})
		}
	}
	ADDQ(Imm(uint64(2*width)), p.i)
	CMPQ(p.i, p.n)
	JLT(LabelRef("loop"))
	if k.grad {
		MOVQ(R12, arg(argClipped))
		store256(accG, a, argSumG)
	}
	store256(acc, a, argSum)
	maxLanes256(far, Y1)
	VMOVSS(far.AsX(), arg(argMax))
	VZEROUPPER()
	RET()
}

// table256 turns D in C into an argument within its segment and returns how to load a coefficient for vector j, with a
// scratch register. The even table has 8 segments, which one permute selects; the general one 8 on each side of 0: two
// permutes, and a blend by the sign. M receives D for its sign, or is I, where the sign goes on top of the index.
func table256(k kind, p pointers, C, I, M []VecPhysical, tmp VecPhysical, far VecPhysical) func(r, j int, dst, tmp VecPhysical) {
	T := Y12
	index := func(j int, from VecPhysical) {
		VADDPS(c256.mem("one"), from, I[j])
		VPSRLD(Imm(22), I[j], I[j])
	}
	if k.even {
		lookup := func(r, j int, dst, _ VecPhysical) {
			VPERMPS(Mem{Base: p.tab, Disp: 32 * (1 + r)}, I[j], dst)
		}
		for j := range C {
			VANDPS(c256.mem("abs"), C[j], C[j])
		}
		for j := range C {
			VMINPS(c256.mem("narrowLimit"), C[j], C[j]) // NaN becomes the limit
		}
		for j := range C {
			index(j, C[j])
		}
		for j := range C {
			lookup(-1, j, T, T)
			VSUBPS(T, C[j], C[j])
		}
		return lookup
	}
	lookup := func(r, j int, dst, tmp VecPhysical) {
		VPERMPS(Mem{Base: p.tab, Disp: 64 * (1 + r)}, I[j], dst)
		VPERMPS(Mem{Base: p.tab, Disp: 64*(1+r) + 32}, I[j], tmp)
		VBLENDVPS(M[j], tmp, dst, dst)
	}
	for j := range C {
		VANDPS(c256.mem("abs"), C[j], I[j])
		VMAXPS(far, I[j], far) // NaN leaves far as it was
	}
	for j := range C {
		VMINPS(c256.mem("far"), C[j], C[j])
		VMAXPS(c256.mem("-far"), C[j], C[j])
		VMINPS(c256.mem("narrowLimit"), I[j], I[j]) // NaN becomes the limit
	}
	for j := range C {
		index(j, I[j])
		if M[j] == I[j] {
			VANDPS(c256.mem("sign"), C[j], T)
			VPOR(T, I[j], I[j])
		} else {
			VMOVAPS(C[j], M[j])
		}
	}
	for j := range C {
		lookup(-1, j, T, tmp)
		VSUBPS(T, C[j], C[j])
	}
	return lookup
}

func finish256(d dtype) {
	a := text("AVX2", "finish"+d.name)
	arg := func(off int) Mem { return Mem{Base: a, Disp: off} }
	s, g, out, n, i := RDI, RSI, RBX, RCX, RAX
	MOVQ(arg(argS), s)
	MOVQ(arg(argG), g)
	MOVQ(arg(argOut), out)
	MOVQ(arg(argN), n)
	XORQ(i, i)
	Y, Z, P := ymm[0:2], ymm[2:4], ymm[4:6]
	rs, k, nls, qk, gk, top, qmax := Y8, Y9, Y10, Y11, Y12, Y13, Y14
	for j, r := range []VecPhysical{rs, k, nls, qk, gk} {
		VBROADCASTSS(arg([]int{argRs, argK, argNls, argQk, argGk}[j]), r)
	}
	VXORPS(top, top, top)
	VXORPS(qmax, qmax, qmax)
	align()
	Label("loop")
	load256(d, s, i, 0, Y, true)
	for j := range Y {
		VSUBPS(rs, Y[j], Y[j])
	}
	for j := range Y {
		VFMADD213PS(nls, k, Y[j])
	}
	for j := range Y {
		VMAXPS(c256.mem("low"), Y[j], Y[j])
	}
	exp2_256(Y, Z, P)
	for j := range Y {
		VMULPS(Z[j], P[j], P[j])
	}
	for j := range Y {
		VMULPS(Mem{Base: g, Index: i, Scale: 4, Disp: 32 * j}, gk, Z[j])
	}
	for j := range Y {
		VFMADD231PS(P[j], qk, Z[j])
	}
	for j := range Y {
		VMAXPS(P[j], qmax, qmax)
		VANDPS(c256.mem("abs"), Z[j], Y[j])
		VMAXPS(Y[j], top, top)
	}
	for j := range Y {
		VMOVUPS(Z[j], Mem{Base: out, Index: i, Scale: 4, Disp: 32 * j})
	}
	ADDQ(Imm(16), i)
	CMPQ(i, n)
	JLT(LabelRef("loop"))
	maxLanes256(top, Y1)
	VMOVSS(top.AsX(), arg(argMax))
	maxLanes256(qmax, Y1)
	VMOVSS(qmax.AsX(), arg(argQmax))
	VZEROUPPER()
	RET()
}
