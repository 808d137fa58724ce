package main

import (
	"fmt"
	"math"
	"strings"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/gotypes"
	"github.com/mmcloughlin/avo/ir"
	"github.com/mmcloughlin/avo/reg"
)

// Go's arm64 assembler has few vector floating-point instructions. Missing ones are encoded here and printed as WORDs
// with their mnemonic; the test disassembles them and compares. Every vector operation works on four float32 lanes
// unless its name says otherwise.

type neon struct {
	b     strings.Builder
	stubs *build.Context
	args  gotypes.Component // the struct that the function's argument points to

	number numbers
}

// offset returns the offset of a field in the function's argument, which R0 points at.
func (n *neon) offset(field string) int {
	f, err := n.args.Field(field).Resolve()
	check(err)
	return f.Addr.Disp
}

func (n *neon) line(format string, args ...any) { fmt.Fprintf(&n.b, "\t"+format+"\n", args...) }

func (n *neon) word(code uint32, comment string, args ...any) {
	n.line("WORD $0x%08x // %s", code, fmt.Sprintf(comment, args...))
}

// neonOps are three-operand instructions, d = a op b, that the assembler doesn't have.
var neonOps = map[string]uint32{
	"fadd":   0x4E20D400,
	"fsub":   0x4EA0D400,
	"fmul":   0x6E20DC00,
	"fmax":   0x4E20F400,
	"fmin":   0x4EA0F400,
	"fmaxnm": 0x4E20C400,
	"fminnm": 0x4EA0C400,
	"fcmgt":  0x6EA0E400,
	"bic":    0x4E601C00,
}

// neonMnemonics are the three-operand instructions that the assembler has. fmla adds a*b to d; bsl selects a where d is
// set and b elsewhere.
var neonMnemonics = map[string]string{"fmla": "VFMLA", "bsl": "VBSL", "orr": "VORR", "add": "VADD", "sub": "VSUB"}

func (n *neon) op(name string, d, a, b int) {
	lanes := "4s"
	switch name {
	case "bsl", "bic", "orr":
		lanes = "16b"
	}
	if m, ok := neonMnemonics[name]; ok {
		l := map[string]string{"4s": "S4", "16b": "B16"}[lanes]
		n.line("%s V%d.%s, V%d.%s, V%d.%s", m, b, l, a, l, d, l)
		return
	}
	n.word(neonOps[name]|uint32(b)<<16|uint32(a)<<5|uint32(d), "%s v%d.%s, v%d.%s, v%d.%s",
		name, d, lanes, a, lanes, b, lanes)
}

// neonUnary are two-operand instructions that the assembler doesn't have.
var neonUnary = map[string]struct {
	code   uint32
	format string
}{
	"fabs":      {0x4EA0F800, "fabs v%d.4s, v%d.4s"},
	"fneg":      {0x6EA0F800, "fneg v%d.4s, v%d.4s"},
	"frintn":    {0x4E218800, "frintn v%d.4s, v%d.4s"},
	"fcvtns":    {0x4E21A800, "fcvtns v%d.4s, v%d.4s"},
	"fcvtms":    {0x4E21B800, "fcvtms v%d.4s, v%d.4s"},
	"widen16":   {0x0E217800, "fcvtl v%d.4s, v%d.4h"},
	"shift16":   {0x2E613800, "shll v%d.4s, v%d.4h, #16"},
	"low64":     {0x0E617800, "fcvtl v%d.2d, v%d.2s"},
	"high64":    {0x4E617800, "fcvtl2 v%d.2d, v%d.4s"},
	"sum64":     {0x7E70D800, "faddp d%d, v%d.2d"},
	"maxAcross": {0x6E30F800, "fmaxv s%d, v%d.4s"},
}

func (n *neon) unary(name string, d, a int) {
	u := neonUnary[name]
	n.word(u.code|uint32(a)<<5|uint32(d), u.format, d, a)
}

func (n *neon) mov(d, a int) { n.op("orr", d, a, a) }

func (n *neon) add64(d, a, b int) {
	n.word(0x4E60D400|uint32(b)<<16|uint32(a)<<5|uint32(d), "fadd v%d.2d, v%d.2d, v%d.2d", d, a, b)
}

func (n *neon) zero(v ...int) {
	for _, d := range v {
		n.line("VEOR V%d.B16, V%d.B16, V%d.B16", d, d, d)
	}
}

// ld4 loads four consecutive floats at register r, one into the given lane of each of the vectors v to v+3.
func (n *neon) ld4(v, lane, r int) {
	n.word(0x0D60A000|uint32(lane>>1)<<30|uint32(lane&1)<<12|uint32(r)<<5|uint32(v),
		"ld4 {v%d.s-v%d.s}[%d], [x%d]", v, v+3, lane, r)
}

// broadcast loads a float32 field of the argument into every lane.
func (n *neon) broadcast(v int, field string) {
	n.line("ADD $%d, R0, R9", n.offset(field))
	n.line("VLD1R (R9), [V%d.S4]", v)
}

var neonConsts = append(expConstants(expNear), []datum{
	{"low", bits(-127)}, {"high", bits(127)}, {"bias", 127}, {"far", bits(1e30)}, {"-far", bits(-1e30)},
	{"limit", bits(15.99)}, {"-limit", bits(-15.99)}, {"-inf", bits(math.Inf(-1))},
}...)

// constant loads a named constant; R11 holds the address of the constants.
func (n *neon) constant(v int, name string) {
	for i, c := range neonConsts {
		if c.name == name {
			n.line("FMOVQ %d(R11), F%d // %s", 16*i, v, name)
			return
		}
	}
	panic("no constant " + name)
}

// load reads four entries at register r and advances r past them.
func (n *neon) load(d dtype, v int, r string) {
	if d == f32 {
		n.line("VLD1.P 16(%s), [V%d.S4]", r, v)
		return
	}
	n.line("VLD1.P 8(%s), [V%d.H4]", r, v)
	if d == bf16 {
		n.unary("shift16", v, v)
	} else {
		n.unary("widen16", v, v)
	}
}

// scale computes y = y*k + c. It goes through scratch, because fmla adds to its destination.
func (n *neon) scale(y, k, c, scratch int) {
	n.mov(scratch, c)
	n.op("fmla", scratch, y, k)
	n.mov(y, scratch)
}

// exp2 turns y, at most 127, into 2^y; NaN stays NaN, -127 and below give 0. t0..t2 are scratch.
func (n *neon) exp2(y, t0, t1, t2 int) {
	n.constant(t0, "low")
	n.op("fmax", y, y, t0)
	n.unary("frintn", t0, y)
	n.unary("fcvtns", t1, y)
	n.op("fsub", y, y, t0) // the fraction
	n.constant(t0, "bias")
	n.op("add", t1, t1, t0)
	n.line("VSHL $23, V%d.S4, V%d.S4", t1, t1) // into the exponent field
	n.constant(t0, "e6")
	for i := len(expNear) - 2; i >= 0; i-- {
		n.constant(t2, fmt.Sprint("e", i))
		n.op("fmla", t2, t0, y)
		t0, t2 = t2, t0
	}
	n.op("fmul", y, t0, t1)
}

// accumulate adds v to the float64 pair acc.
func (n *neon) accumulate(acc, v, t int) {
	n.unary("low64", t, v)
	n.add64(acc, acc, t)
	n.unary("high64", t, v)
	n.add64(acc, acc, t)
}

func (n *neon) begin(name string) {
	name += "NEON"
	function(n.stubs, name, tileSignature)
	// avo computes the offsets of the argument's fields for amd64, and they are the same on arm64.
	n.args = n.stubs.Param("a").Dereference(reg.R9)
	fmt.Fprintf(&n.b, "\n// func %s(a *tileArgs)\nTEXT ·%s(SB), NOSPLIT, $0-8\n", name, name)
	n.line("MOVD a+0(FP), R0")
	n.line("MOVD $neon<>(SB), R11")
	n.line("MOVD %d(R0), R1", n.offset("s"))
	n.line("MOVD %d(R0), R4", n.offset("n"))
}

func (n *neon) loop(body func()) {
	fmt.Fprintf(&n.b, "loop:\n")
	body()
	n.line("SUBS $4, R4, R4")
	n.line("BGT loop")
}

func (n *neon) storeMax(v int, field string) {
	n.unary("maxAcross", v, v)
	n.line("FMOVS F%d, %d(R0)", v, n.offset(field))
}

func (n *neon) storeSum(v int, field string) {
	n.unary("sum64", v, v)
	n.line("FMOVD F%d, %d(R0)", v, n.offset(field))
}

func (n *neon) max(d dtype) {
	n.begin("max" + d.name)
	n.constant(16, "-inf")
	n.loop(func() {
		n.load(d, 0, "R1")
		n.op("fmaxnm", 16, 16, 0)
	})
	n.storeMax(16, "max")
	n.line("RET")
}

// sum is the first pass. If keep is set, it stores each 2^(k s - ref) in kept.
func (n *neon) sum(d dtype, keep bool) {
	n.begin(choose(keep, "keep", "sum") + d.name)
	if keep {
		n.line("MOVD %d(R0), R10", n.offset("kept"))
	}
	n.broadcast(16, "k")
	n.broadcast(17, "ref")
	n.unary("fneg", 17, 17)
	n.zero(23)
	n.loop(func() {
		n.load(d, 0, "R1")
		n.scale(0, 16, 17, 1)
		n.constant(1, "high")
		n.op("fmin", 0, 0, 1)
		n.exp2(0, 1, 2, 3)
		if keep {
			n.line("VST1.P [V0.S4], 16(R10)")
		}
		n.accumulate(23, 0, 1)
	})
	n.storeSum(23, "sum")
	n.line("RET")
}

// Registers of jsd: constants for all entries, and the accumulators.
const (
	jsdK, jsdRS, jsdRT, jsdNLS, jsdNLT, jsdHK, jsdHD = 16, 17, 18, 19, 20, 21, 22
	jsdAcc, jsdAccG, jsdFar, jsdCount                = 23, 24, 25, 26
)

// Registers of an entry: both sides, the log-odds, and the position in the table.
const jsdS, jsdT, jsdOdds, jsdIndex = 12, 13, 14, 15

// jsd is the second pass; for a gradient, it uses the kept exponentials.
func (n *neon) jsd(d dtype, grad bool) {
	n.begin(choose(grad, "grad", "jsd") + d.name)
	n.line("MOVD %d(R0), R2", n.offset("t"))
	n.line("MOVD %d(R0), R5", n.offset("tab"))
	n.line("MOVD $80, R6")
	if grad {
		n.line("MOVD %d(R0), R3", n.offset("g"))
		n.line("MOVD %d(R0), R10", n.offset("kept"))
		n.line("MOVD %d(R0), R12", n.offset("keptT"))
	}
	for i, field := range []string{"k", "rs", "rt", "nls", "nlt", "hk", "hd"} {
		n.broadcast(jsdK+i, field)
	}
	n.zero(jsdAcc, jsdAccG, jsdFar, jsdCount)
	n.loop(func() {
		n.jsdOdds(d, grad)
		n.unary("fcvtms", jsdIndex, jsdIndex)
		n.segments(0, 12) // v0 holds the centre, v1 the constant term, and v9 the coefficient of degree 8
		n.op("fsub", jsdOdds, jsdOdds, 0)
		p := n.jsdPolynomial(1, n.number("degree"))
		if grad {
			n.mov(9, p)                             // v9 held the coefficient of degree 8, which isn't needed any more
			n.segments(4*n.number("packedRate"), 8) // v0 holds the constant term, and v7 the coefficient of degree 7
			n.jsdGradient(9, n.jsdPolynomial(0, 7))
			return
		}
		n.exp2(jsdS, 27, 28, 29)
		n.op("fmul", p, p, jsdS) // the entry
		n.accumulate(jsdAcc, p, 27)
	})
	n.storeSum(jsdAcc, "sum")
	n.storeMax(jsdFar, "max")
	if grad {
		n.storeSum(jsdAccG, "sumG")
		n.line("VADDV V%d.S4, V%d", jsdCount, jsdCount)
		n.line("VMOV V%d.S[0], R7", jsdCount)
		n.line("MOVD R7, %d(R0)", n.offset("clipped"))
	}
	n.line("RET")
}

// jsdOdds loads both sides and computes the log-odds, limited to values that float32 can multiply and, for jsdIndex, to
// the table's range. Without a gradient it leaves the larger side's log2 probability in jsdS.
func (n *neon) jsdOdds(d dtype, grad bool) {
	n.load(d, jsdS, "R1")
	n.load(d, jsdT, "R2")
	n.op("fsub", jsdS, jsdS, jsdRS)
	n.op("fsub", jsdT, jsdT, jsdRT)
	n.op("fsub", jsdOdds, jsdT, jsdS)
	n.scale(jsdOdds, jsdHK, jsdHD, 27)
	if !grad {
		n.scale(jsdS, jsdK, jsdNLS, 27)
		n.scale(jsdT, jsdK, jsdNLT, 27)
		n.op("fmax", jsdS, jsdS, jsdT)
	}
	n.unary("fabs", 27, jsdOdds)
	n.op("fmaxnm", jsdFar, jsdFar, 27)
	for _, c := range []string{"far", "limit"} {
		dst := map[string]int{"far": jsdOdds, "limit": jsdIndex}[c]
		n.constant(27, c)
		n.op("fminnm", dst, jsdOdds, 27)
		n.constant(27, "-"+c)
		n.op("fmaxnm", dst, dst, 27)
	}
}

// segments loads n values of each lane's segment, starting at an offset in bytes, into the vectors starting with v0.
func (n *neon) segments(offset, values int) {
	for lane := range 4 {
		n.line("VMOV V%d.S[%d], R7", jsdIndex, lane)
		n.line("AND $31, R7, R7")
		n.line("MADD R6, R5, R7, R8")
		step := offset
		for v := 0; v < values; v += 4 {
			if step > 0 {
				n.line("ADD $%d, R8, R8", step)
			}
			n.ld4(v, lane, 8)
			step = 16
		}
	}
}

// jsdPolynomial evaluates the polynomial of degree top whose constant term is in register first, and returns the
// register of the result.
func (n *neon) jsdPolynomial(first, top int) (p int) {
	p = first + top
	for i := top - 1; i >= 0; i-- {
		n.op("fmla", first+i, p, jsdOdds)
		p = first + i
	}
	return p
}

// jsdGradient computes the entry and the raw gradient from psi and rate. It clips the entry, stores the raw gradient,
// and adds each to its sum.
func (n *neon) jsdGradient(psi, rate int) {
	n.line("VLD1.P 16(R10), [V27.S4]")
	n.line("VLD1.P 16(R12), [V28.S4]")
	n.broadcast(29, "ratio")
	n.op("fmul", 27, 27, 29) // the student's probability
	n.op("fmax", 28, 28, 27) // the larger
	n.broadcast(31, "teacher")
	n.op("bsl", 31, 28, 27)
	n.op("fmul", 31, 31, rate)
	n.op("fmul", 28, 28, psi)
	n.broadcast(29, "clip")
	n.op("fcmgt", 30, 28, 29)
	n.op("fmin", 28, 28, 29)
	n.op("bic", 31, 31, 30)
	n.op("sub", jsdCount, jsdCount, 30)
	n.line("VST1.P [V31.S4], 16(R3)")
	n.accumulate(jsdAcc, 28, 27)
	n.accumulate(jsdAccG, 31, 27)
}

// finish computes out = (g + q*qk) * gk, where q was stored by the first pass.
func (n *neon) finish() {
	n.begin("finish")
	n.line("MOVD %d(R0), R1", n.offset("kept"))
	n.line("MOVD %d(R0), R2", n.offset("g"))
	n.line("MOVD %d(R0), R3", n.offset("out"))
	n.broadcast(19, "qk")
	n.broadcast(20, "gk")
	n.zero(24)
	n.loop(func() {
		n.load(f32, 0, "R1")
		n.load(f32, 4, "R2")
		n.op("fmla", 4, 0, 19)
		n.op("fmul", 4, 4, 20)
		n.unary("fabs", 5, 4)
		n.op("fmax", 24, 24, 5)
		n.line("VST1.P [V4.S4], 16(R3)")
	})
	n.storeMax(24, "max")
	n.line("RET")
}

// arm64Tiles returns the assembly of the tile functions, and a file with their Go signatures.
func arm64Tiles(own numbers) (tiles []byte, stubs *ir.File) {
	n := neon{stubs: newContext("arm64,!purego", kernelsPackage), number: own}
	n.b.WriteString("// " + generatedBy("").GeneratedWarning() +
		"\n\n//go:build arm64 && !purego\n\n#include \"textflag.h\"\n\n")
	for i, c := range neonConsts {
		for lane := range 4 {
			fmt.Fprintf(&n.b, "DATA neon<>+%d(SB)/4, $0x%08x\n", 16*i+4*lane, uint32(c.bits))
		}
	}
	fmt.Fprintf(&n.b, "GLOBL neon<>(SB), RODATA|NOPTR, $%d\n", 16*len(neonConsts))
	for _, d := range dtypes {
		n.max(d)
		n.sum(d, false)
		n.sum(d, true)
		n.jsd(d, false)
		n.jsd(d, true)
	}
	n.finish()
	stubs, err := n.stubs.Result()
	check(err)
	return []byte(n.b.String()), stubs
}
