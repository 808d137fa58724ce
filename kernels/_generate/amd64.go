package main

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/gotypes"
	"github.com/mmcloughlin/avo/ir"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// generator builds the file with the amd64 tiles.
type generator struct {
	*build.Context
	number       numbers
	args         gotypes.Component // the struct that the function's argument points to
	wide, narrow *constants        // constants for AVX-512 and AVX2
}

// amd64Tiles builds the tile functions of both paths.
func amd64Tiles(own numbers) *ir.File {
	g := &generator{Context: newContext("amd64,!purego", kernelsPackage), number: own}
	g.wideConstants()
	for _, d := range dtypes {
		g.max512(d)
		g.sum512(d, false, false)
		g.sum512(d, true, false)
		g.jsd512(d, false)
		g.jsd512(d, true)
		g.jsdGeometric512(d)
		g.grad512(d)
		g.rate512(d)
		for _, gradient := range []string{"", "Forward", "Reverse"} {
			g.kl512(d, gradient)
		}
	}
	g.sum512(bf16, true, true)
	g.finish512(false)
	g.finish512(true)
	g.doubles("AVX512", zmm)
	g.narrowConstants()
	for _, d := range dtypes {
		g.max256(d)
		g.sum256(d, false)
		g.sum256(d, true)
		for _, even := range []bool{true, false} {
			g.jsd256(d, even)
			g.grad256(d, even)
		}
		g.rate256(d)
		for _, gradient := range []string{"", "Forward", "Reverse"} {
			g.kl256(d, gradient)
		}
	}
	g.finish256()
	g.totals256()
	g.doubles("AVX2", ymm)
	return compile(g.Context)
}

// text starts a tile function and loads the function's argument into R9. end ends the function.
func (g *generator) text(path, name string) {
	function(g.Context, name+path, tileSignature)
	g.Load(g.Param("a"), R9)
	g.args = g.Param("a").Dereference(R9)
}

func (g *generator) end() {
	g.VZEROUPPER()
	g.RET()
}

// arg returns the address of a field of the function's argument.
func (g *generator) arg(field string) Mem {
	f, err := g.args.Field(field).Resolve()
	check(err)
	return f.Addr
}

// move moves fields of the function's argument into registers. The fields' names are separated by spaces.
func (g *generator) move(fields string, to ...Register) {
	for i, field := range strings.Fields(fields) {
		g.MOVQ(g.arg(field), to[i])
	}
}

// broadcast copies fields of the function's argument into all lanes of vectors. The fields' names are separated by
// spaces.
func (g *generator) broadcast(fields string, to ...VecPhysical) {
	for i, field := range strings.Fields(fields) {
		g.VBROADCASTSS(g.arg(field), to[i])
	}
}

// loop repeats a body that handles a number of entries, while index i is below n.
func (g *generator) loop(i, n Op, entries uint64, body func()) {
	g.Instruction(&ir.Instruction{Opcode: "PCALIGN", Operands: []Op{Imm(64)}}) // avo lacks PCALIGN
	g.Label("loop")
	body()
	g.ADDQ(Imm(entries), i)
	g.CMPQ(i, n)
	g.JLT(LabelRef("loop"))
}

// each writes an instruction for every vector of a group. An operand is a slice or memory with one element per vector,
// or a single operand for all vectors.
func each(instruction func(...Op), operands ...any) {
	for j := range groupSize(operands) {
		var ops []Op
		for _, o := range operands {
			switch o := o.(type) {
			case []VecPhysical:
				ops = append(ops, o[j])
			case []OpmaskPhysical:
				ops = append(ops, o[j])
			case memory:
				ops = append(ops, o.at(j))
			default:
				ops = append(ops, o.(Op))
			}
		}
		instruction(ops...)
	}
}

// groupSize returns the number of vectors in the first group among operands.
func groupSize(operands []any) int {
	at := slices.IndexFunc(operands, func(o any) bool { _, is := o.([]VecPhysical); return is })
	return len(operands[at].([]VecPhysical))
}

// memory holds the vectors of a group one after another.
type memory struct {
	first Mem
	bytes int // size of a vector
}

func (m memory) at(j int) Mem { return m.first.Offset(j * m.bytes) }

// floats returns the memory of float32 values that start at an entry of an array.
func floats(n lanes, base, i Register, entry int) memory {
	return memory{Mem{Base: base, Index: i, Scale: 4, Disp: 4 * entry}, 4 * int(n)}
}

func bits(v float64) U32 { return U32(math.Float32bits(float32(v))) }

var (
	zmm = []VecPhysical{
		Z0, Z1, Z2, Z3, Z4, Z5, Z6, Z7, Z8, Z9, Z10, Z11, Z12, Z13, Z14, Z15,
		Z16, Z17, Z18, Z19, Z20, Z21, Z22, Z23, Z24, Z25, Z26, Z27, Z28, Z29, Z30, Z31,
	}
	ymm = []VecPhysical{Y0, Y1, Y2, Y3, Y4, Y5, Y6, Y7, Y8, Y9, Y10, Y11, Y12, Y13, Y14, Y15}
)

// constants is a read-only block of float32 values or patterns, each repeated the same number of times.
type constants struct {
	sym Mem
	at  map[string]int
}

// datum is a named float32 value or a pattern.
type datum struct {
	name string
	bits U32
}

// expConstants names the coefficients of a polynomial for exp2 e0, e1, ...
func expConstants(polynomial []float64) (list []datum) {
	for i, v := range polynomial {
		list = append(list, datum{fmt.Sprint("e", i), bits(v)})
	}
	return list
}

func (g *generator) newConstants(name string, each int, list []datum) *constants {
	c := &constants{sym: g.StaticGlobal(name), at: map[string]int{}}
	g.DataAttributes(attr.RODATA | attr.NOPTR)
	for i, k := range list {
		c.at[k.name] = 4 * each * i
		for j := range each {
			g.AddDatum(4*(each*i+j), k.bits)
		}
	}
	return c
}

func (c *constants) mem(name string) Mem {
	o, ok := c.at[name]
	if !ok {
		panic("no constant " + name)
	}
	return c.sym.Offset(o)
}

// prefetch fetches n cache lines at each pointer in ps. After each line it advances the pointer by step.
func (g *generator) prefetch(n int, step Register, ps ...Register) {
	for range n {
		for _, p := range ps {
			g.PREFETCHT1(Mem{Base: p})
			g.ADDQ(step, p)
		}
	}
}

// pointers holds the registers for the pointers, counts and index of a second-pass tile.
type pointers struct{ s, t, g, n, tab, pfs, pft, step, i Register }

// lanes is the number of entries in a vector.
type lanes int

const (
	narrow lanes = 8  // AVX2
	wide   lanes = 16 // AVX-512
)

// load loads len(v) vectors of entries, starting at entry e. Half types are widened. Unless order is set, a pair of
// bfloat16 vectors may hold the even entries and the odd ones, which saves an instruction per vector and is enough
// where only sums matter.
func (g *generator) load(n lanes, d dtype, base, i Register, e int, v []VecPhysical, order bool) {
	from := memory{Mem{Base: base, Index: i, Scale: uint8(d.size), Disp: e * d.size}, int(n) * d.size}
	switch {
	case d == f32:
		each(g.VMOVUPS, from, v)
	case d == f16:
		each(g.VCVTPH2PS, from, v)
	case order:
		each(g.VPMOVZXWD, from, v)
		each(g.VPSLLD, Imm(16), v, v)
	case n == wide:
		for j := 0; j < len(v); j += 2 {
			g.VMOVDQU32(from.at(j), v[j+1])
			g.VPSLLD(Imm(16), v[j+1], v[j])
			g.VPANDD_BCST(g.wide.mem("high"), v[j+1], v[j+1])
		}
	default:
		for j := 0; j < len(v); j += 2 {
			g.VMOVDQU(from.at(j), v[j+1])
			g.VPSLLD(Imm(16), v[j+1], v[j])
			g.VPAND(g.narrow.mem("upper"), v[j+1], v[j+1])
		}
	}
}

func (g *generator) loadPointers() pointers {
	p := pointers{s: RDI, t: RSI, g: RBX, n: RCX, tab: R8, pfs: R10, pft: R11, step: RDX, i: RAX}
	g.move("s t g n tab pfs pft step", p.s, p.t, p.g, p.n, p.tab, p.pfs, p.pft, p.step)
	g.XORQ(p.i, p.i)
	return p
}

// linesAhead returns the number of cache lines of the next row that a step prefetches per side: the second pass fetches
// at least 3/4 of a row, and the first pass fetches the remainder.
func linesAhead(d dtype, second bool) int {
	switch {
	case second && d == f32:
		return 3 // a step of 64 entries reads 4 cache lines
	case second:
		return 2 // a step of 64 entries reads 2 cache lines
	case d == f32:
		return 2 // a step of 128 entries reads 8 cache lines
	}
	return 1
}

// largest begins a max tile, and leaves each lane's maximum over all vectors in v[0].
func (g *generator) largest(path string, width lanes, d dtype, v []VecPhysical) {
	g.text(path, "max"+d.name)
	s, n, i := RDI, RCX, RAX
	g.move("s n", s, n)
	g.XORQ(i, i)
	g.load(width, d, s, i, 0, v[0:4], false)
	g.JMP(LabelRef("next"))
	g.loop(i, n, 4*uint64(width), func() {
		g.load(width, d, s, i, 0, v[4:8], false)
		each(g.VMAXPS, v[4:8], v[0:4], v[0:4])
		g.Label("next")
	})
	g.VMAXPS(v[1], v[0], v[0])
	g.VMAXPS(v[3], v[2], v[2])
	g.VMAXPS(v[2], v[0], v[0])
}

// finish writes the body of a finish tile, which computes (g + q*qk) * gk in v, four vectors at a time. begin is called
// before the loop, and results is called with the memory for the results.
func (g *generator) finish(n lanes, v []VecPhysical, qk, gk VecPhysical, begin func(), results func(out memory)) {
	kept, raw, out, end, i := RDI, RSI, RBX, RCX, RAX
	g.move("kept g out n", kept, raw, out, end)
	g.XORQ(i, i)
	g.broadcast("qk gk", qk, gk)
	begin()
	g.loop(i, end, 4*uint64(n), func() {
		each(g.VMOVUPS, floats(n, raw, i, 0), v)
		each(g.VFMADD231PS, floats(n, kept, i, 0), qk, v)
		each(g.VMULPS, v, gk, v)
		results(floats(n, out, i, 0))
	})
}
