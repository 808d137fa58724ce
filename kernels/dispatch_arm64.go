//go:build !purego

package kernels

// assemblyPaths returns NEON. Every arm64 processor has NEON and the half-precision conversions.
func assemblyPaths() []*tileSet {
	packed := func(t *table) [][]float32 { return t.packed }
	return []*tileSet{{
		name:    "neon",
		max:     [3]tileFunc{maxF32NEON, maxBF16NEON, maxF16NEON},
		sum:     [3]tileFunc{sumF32NEON, sumBF16NEON, sumF16NEON},
		keep:    [3]tileFunc{keepF32NEON, keepBF16NEON, keepF16NEON},
		jsd:     [3]tileFunc{jsdF32NEON, jsdBF16NEON, jsdF16NEON},
		grad:    [3]tileFunc{gradF32NEON, gradBF16NEON, gradF16NEON},
		finish:  finishNEON,
		totals:  pureTotals,
		tab:     packed,
		gradTab: packed,
	}}
}
