package main

import (
	"bytes"
	"os"

	"github.com/mmcloughlin/avo/attr"
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// write compiles the functions built so far. avo prints through its command line and names it in the header; ours is
// fixed, so that the output depends on nothing but the source.
func write(asm, stub, arch string, paths []string) {
	os.Args = []string{os.Args[0], "-out", asm, "-pkg", "kernels"}
	Generate()
	out, err := os.ReadFile(asm)
	check(err)
	_, rest, _ := bytes.Cut(out, []byte("\n\n"))
	check(os.WriteFile(asm, append([]byte(header), rest...), 0o644))
	stubs(stub, arch, paths)
}

var (
	zmm = []VecPhysical{
		Z0, Z1, Z2, Z3, Z4, Z5, Z6, Z7, Z8, Z9, Z10, Z11, Z12, Z13, Z14, Z15,
		Z16, Z17, Z18, Z19, Z20, Z21, Z22, Z23, Z24, Z25, Z26, Z27, Z28, Z29, Z30, Z31,
	}
	ymm = []VecPhysical{Y0, Y1, Y2, Y3, Y4, Y5, Y6, Y7, Y8, Y9, Y10, Y11, Y12, Y13, Y14, Y15}
)

// constants is a read-only block of float32 values or patterns, each repeated n times.
type constants struct {
	sym  Mem
	at   map[string]int
	off  int
	each int
}

func newConstants(name string, each int) *constants {
	return &constants{sym: GLOBL(name, attr.RODATA|attr.NOPTR), at: map[string]int{}, each: each}
}

func (c *constants) add(name string, v U32) {
	c.at[name] = c.off
	for range c.each {
		DATA(c.off, v)
		c.off += 4
	}
}

func (c *constants) mem(name string) Mem {
	o, ok := c.at[name]
	if !ok {
		panic("no constant " + name)
	}
	return c.sym.Offset(o)
}

// prefetch fetches n lines at p, advancing it.
func prefetch(n int, step Register, ps ...Register) {
	for range n {
		for _, p := range ps {
			PREFETCHT1(Mem{Base: p})
			ADDQ(step, p)
		}
	}
}

// pointers loads the pointer arguments of a second-pass tile.
type pointers struct{ s, t, g, n, tab, pfs, pft, step, i Register }

func loadPointers(a Register) pointers {
	p := pointers{s: RDI, t: RSI, g: RBX, n: RCX, tab: R8, pfs: R10, pft: R11, step: RDX, i: RAX}
	MOVQ(Mem{Base: a, Disp: argS}, p.s)
	MOVQ(Mem{Base: a, Disp: argT}, p.t)
	MOVQ(Mem{Base: a, Disp: argG}, p.g)
	MOVQ(Mem{Base: a, Disp: argN}, p.n)
	MOVQ(Mem{Base: a, Disp: argTab}, p.tab)
	MOVQ(Mem{Base: a, Disp: argPfs}, p.pfs)
	MOVQ(Mem{Base: a, Disp: argPft}, p.pft)
	MOVQ(Mem{Base: a, Disp: argStep}, p.step)
	XORQ(p.i, p.i)
	return p
}

// linesAhead is how many cache lines of the next row a step prefetches a side: the second pass 3/4 of a row, the
// first pass the rest.
func linesAhead(d dtype, second bool) int {
	switch {
	case second && d == f32:
		return 3 // of 4 in 64 entries
	case second:
		return 2 // of 2
	case d == f32:
		return 2 // of 8 in 128 entries
	}
	return 1
}
