package main

import (
	"fmt"
	"go/format"
	"os"
	"strings"

	"github.com/mmcloughlin/avo/ir"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// probes builds the functions that measure lower bounds for package kernelbench: how fast this core multiplies and
// adds, and how fast it reads two streams.
func probes() *ir.File {
	g := &generator{Context: newContext("amd64,!purego", "")}
	for _, p := range []struct {
		name     string
		regs     []VecPhysical
		n, bytes int
	}{{"AVX512", zmm, 24, 64}, {"AVX2", ymm, 12, 32}} {
		g.multiplyProbe("fma"+p.name, p.regs[:p.n])
		g.readProbe("read"+p.name, p.regs[:8], p.bytes)
	}
	return compile(g.Context)
}

// multiplyProbe executes n independent FMAs.
func (g *generator) multiplyProbe(name string, v []VecPhysical) {
	function(g.Context, name, "func(n int)")
	n := g.Load(g.Param("n"), RCX)
	for i, r := range v {
		if i < 16 {
			g.VXORPS(r.AsX(), r.AsX(), r.AsX())
		} else {
			g.VPXORD(r, r, r)
		}
	}
	g.Label("loop")
	each(g.VFMADD231PS, v, v, v)
	g.SUBQ(Imm(uint64(len(v))), n)
	g.JGT(LabelRef("loop"))
	g.end()
}

// readProbe loads n float32 values of each side, four vectors of both sides per step; bytes is the size of a vector.
func (g *generator) readProbe(name string, v []VecPhysical, bytes int) {
	function(g.Context, name, "func(s, t *float32, n int)")
	s, t, n, i := g.Load(g.Param("s"), RSI), g.Load(g.Param("t"), RDI), g.Load(g.Param("n"), RCX), RAX
	g.XORQ(i, i)
	g.Label("loop")
	for j := range 4 {
		g.VMOVUPS(Mem{Base: s, Index: i, Scale: 4, Disp: j * bytes}, v[j])
		g.VMOVUPS(Mem{Base: t, Index: i, Scale: 4, Disp: j * bytes}, v[4+j])
	}
	g.ADDQ(Imm(uint64(bytes)), i) // four vectors of float32
	g.CMPQ(i, n)
	g.JLT(LabelRef("loop"))
	g.end()
}

// writeInstructions writes the number of vector instructions that the kernels use, as counted in the generated code,
// for package kernelbench.
func writeInstructions(file string, tiles *ir.File) {
	var b strings.Builder
	b.WriteString("// " + generatedBy("").GeneratedWarning() + "\n\n//go:build amd64 && !purego\n\npackage kernelbench\n\n" +
		"// instructions is how many vector instructions, moves aside, a path spends on 16 entries of both sides.\n" +
		"var instructions = map[string]map[string]float64{\n")
	for _, p := range []struct {
		path, suffix          string
		first, second, finish float64 // entries per step
	}{{"avx2", "AVX2", 64, 32, 32}, {"avx512", "AVX512", 128, 64, 64}} {
		per16 := func(f string, entries float64) float64 { return 16 * loopInstructions(tiles, f+p.suffix) / entries }
		first, kept, even := "sum", "", p.second
		if p.path == "avx512" {
			first, kept, even = "keep", "Kept", 128
		}
		sides := func(first, second, d string, entries float64) float64 {
			return 2*per16(first+d, p.first) + per16(second+d, entries)
		}
		gradient := sides("keep", "rate", "F32", even) + per16("finish", p.finish)
		fmt.Fprintf(&b, "\t%q: {\n", p.path)
		for _, k := range []struct {
			name string
			n    float64
		}{
			{"forward", sides(first, "jsd"+kept+"Even", "F32", even)},
			{"forward, bfloat16", sides(first, "jsd"+kept+"Even", "BF16", even)},
			{"forward, beta 0.3", sides(first, "jsd"+kept, "F32", p.second)},
			{"forward, KL", per16("klF32", p.second)},
			{"gradient", gradient},
			{"gradient, beta 0.3", gradient},
		} {
			fmt.Fprintf(&b, "\t\t%q: %.1f,\n", k.name, k.n)
		}
		b.WriteString("\t},\n")
	}
	b.WriteString("}\n")
	out, err := format.Source([]byte(b.String()))
	check(err)
	check(os.WriteFile(file, out, 0o644))
}

// loopInstructions counts the vector instructions between a function's loop label and its branch, except plain moves
// and broadcasts.
func loopInstructions(tiles *ir.File, name string) float64 {
	n, in := 0.0, false
	for _, f := range tiles.Functions() {
		if f.Name != name {
			continue
		}
		for _, node := range f.Nodes {
			switch i := node.(type) {
			case ir.Label:
				in = in || i == "loop"
			case *ir.Instruction:
				switch {
				case in && i.Opcode == "JLT":
					return n
				case strings.HasPrefix(i.Opcode, "VMOV"), strings.HasPrefix(i.Opcode, "VBROADCAST"):
				case in && strings.HasPrefix(i.Opcode, "V"):
					n++
				}
			}
		}
	}
	panic("no loop in a function " + name)
}
