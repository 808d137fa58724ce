//go:build amd64 && !purego

// Package baseline is the first forward kernel of this repository, cut to what a comparison needs: float32, whole
// blocks, logits of moderate size. `go test -bench .` times it on a cached row; compare with the cached column of
// `nat-go bench kernels`.
package baseline

import (
	"math"
	"unsafe"
)

// pwpConst is the per-row constant block of the second pass.
type pwpConst struct{ k, nls, nlt, hk, hd float32 }

//go:noescape
func sumExp2F32AVX512(x *float32, n int, k float32, r float32, pf *byte, pfstep int) float64

//go:noescape
func pwpF32AVX512(s *float32, t *float32, n int, tab *float32, cst *pwpConst, pfs *byte, pft *byte, pfstep int) float64

//go:noescape
func maxF32AVX512(x *float32, n int) float32

// row is the loss of one row whose length is a multiple of 128. tab holds the polynomials; their values do not change
// the time, so a comparison may pass zeros.
func row(s, t []float32, tab *[10 * 32]float32) float64 {
	const tile = 3968
	lse := func(x []float32) float64 {
		ref, total := float32(math.Log2E)*maxF32AVX512(&x[0], 256), 0.0
		for i := 0; i < len(x); i += tile {
			total += sumExp2F32AVX512(&x[i], min(tile, len(x)-i), math.Log2E, -ref, (*byte)(unsafe.Pointer(&x[i])), 0)
		}
		return float64(ref) + math.Log2(total)
	}
	ls, lt := lse(s), lse(t)
	c := pwpConst{math.Log2E, -float32(ls), -float32(lt), math.Log2E / 2, float32((ls - lt) / 2)}
	total := 0.0
	for i := 0; i < len(s); i += tile {
		ps, pt := (*byte)(unsafe.Pointer(&s[i])), (*byte)(unsafe.Pointer(&t[i]))
		total += pwpF32AVX512(&s[i], &t[i], min(tile, len(s)-i), &tab[0], &c, ps, pt, 0)
	}
	return total * math.Ln2
}
