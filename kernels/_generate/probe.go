package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
)

// probes writes the floors of kernels/bench: how fast this core multiplies and adds, and how fast it reads two streams.
// avo builds one file a run, so these are printed directly.
func probes(dir, tiles string) {
	var b bytes.Buffer
	b.WriteString(header + "//go:build amd64 && !purego\n\n#include \"textflag.h\"\n")
	for _, p := range []struct {
		name, reg string
		n, bytes  int
	}{{"AVX512", "Z", 24, 64}, {"AVX2", "Y", 12, 32}} {
		fmt.Fprintf(&b, "\n// func fma%s(n int)\nTEXT ·fma%s(SB), NOSPLIT, $0-8\n\tMOVQ n+0(FP), CX\n", p.name, p.name)
		for i := range p.n {
			if i < 16 {
				fmt.Fprintf(&b, "\tVXORPS X%d, X%d, X%d\n", i, i, i)
			} else {
				fmt.Fprintf(&b, "\tVPXORD Z%d, Z%d, Z%d\n", i, i, i)
			}
		}
		b.WriteString("loop:\n")
		for i := range p.n {
			fmt.Fprintf(&b, "\tVFMADD231PS %s%d, %s%d, %s%d\n", p.reg, i, p.reg, i, p.reg, i)
		}
		fmt.Fprintf(&b, "\tSUBQ $%d, CX\n\tJGT loop\n\tVZEROUPPER\n\tRET\n", p.n)
		fmt.Fprintf(&b, "\n// func read%s(s, t *float32, n int)\nTEXT ·read%s(SB), NOSPLIT, $0-24\n", p.name, p.name)
		b.WriteString("\tMOVQ s+0(FP), SI\n\tMOVQ t+8(FP), DI\n\tMOVQ n+16(FP), CX\n\tXORQ AX, AX\nloop:\n")
		for i := range 4 {
			fmt.Fprintf(&b, "\tVMOVUPS %d(SI)(AX*4), %s%d\n\tVMOVUPS %d(DI)(AX*4), %s%d\n", i*p.bytes, p.reg, i, i*p.bytes, p.reg, 4+i)
		}
		fmt.Fprintf(&b, "\tADDQ $%d, AX\n\tCMPQ AX, CX\n\tJLT loop\n\tVZEROUPPER\n\tRET\n", p.bytes)
	}
	check(os.WriteFile(dir+"/bench/probe_amd64.s", b.Bytes(), 0o644))

	var g strings.Builder
	g.WriteString(header + "//go:build amd64 && !purego\n\npackage bench\n")
	for _, p := range []string{"AVX512", "AVX2"} {
		fmt.Fprintf(&g, "\n//go:noescape\nfunc fma%s(n int)\n\n//go:noescape\nfunc read%s(s, t *float32, n int)\n", p, p)
	}
	g.WriteString("\n// instructions is how many vector instructions, moves aside, a path spends on 16 entries of both sides.\nvar instructions = map[string]map[string]float64{\n")
	for _, p := range []struct {
		path, suffix          string
		first, second, finish float64 // entries of a step
	}{{"avx2", "AVX2", 64, 32, 16}, {"avx512", "AVX512", 128, 64, 64}} {
		per16 := func(f string, entries float64) float64 { return 16 * count(tiles, f+p.suffix) / entries }
		forward := func(d, f string) float64 { return 2*per16("sum"+d, p.first) + per16(f+d, p.second) }
		gradient := func(f string) float64 { return forward("F32", f) + per16("finishF32", p.finish) }
		kl := forward("F32", "jsd")
		if p.path == "avx512" {
			kl = per16("klF32", 64)
		}
		fmt.Fprintf(&g, "\t%q: {\"forward\": %.1f, \"forward, bfloat16\": %.1f, \"forward, beta 0.3\": %.1f, \"forward, KL\": %.1f, \"gradient\": %.1f, \"gradient, beta 0.3\": %.1f},\n",
			p.path, forward("F32", "jsdEven"), forward("BF16", "jsdEven"), forward("F32", "jsd"), kl, gradient("gradEven"), gradient("grad"))
	}
	g.WriteString("}\n")
	writeGo(dir+"/bench/probe_amd64.go", g.String())
}

// count counts the vector instructions but moves between the loop label and its branch.
func count(tiles, function string) float64 {
	_, body, ok := strings.Cut(tiles, "TEXT ·"+function+"(SB)")
	if !ok {
		panic("no function " + function)
	}
	_, body, _ = strings.Cut(body, "\nloop:\n")
	n := 0.0
	for _, l := range strings.Split(body, "\n") {
		f := strings.Fields(l)
		switch {
		case len(f) == 0:
		case f[0] == "JLT":
			return n
		case strings.HasPrefix(f[0], "VMOV"), strings.HasPrefix(f[0], "VBROADCAST"): // loads, stores and renames
		case strings.HasPrefix(f[0], "V"):
			n++
		}
	}
	panic("no end of loop in " + function)
}
