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
	g.WriteString("\n// instructions is how many vector instructions, moves aside, a path spends on 16 float32 entries of both sides.\nvar instructions = map[string]map[string]float64{\n")
	for _, p := range []struct {
		path, suffix string
		entries      [2]float64 // of a step of the first and of the second pass
	}{{"avx2", "AVX2", [2]float64{64, 32}}, {"avx512", "AVX512", [2]float64{128, 64}}} {
		sum := 2 * 16 * count(tiles, "sumF32"+p.suffix) / p.entries[0]
		finish := 16 * count(tiles, "finishF32"+p.suffix) / map[string]float64{"avx2": 16, "avx512": 64}[p.path]
		second := func(f string) float64 {
			return 16 * count(tiles, f+"F32"+p.suffix) / p.entries[1]
		}
		fmt.Fprintf(&g, "\t%q: {\"forward\": %.1f, \"forward, beta 0.3\": %.1f, \"gradient\": %.1f, \"gradient, beta 0.3\": %.1f},\n", p.path,
			sum+second("jsdEven"), sum+second("jsd"), sum+second("gradEven")+finish, sum+second("grad")+finish)
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
