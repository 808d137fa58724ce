//go:build !purego

package kernels

import "golang.org/x/sys/cpu"

func assemblyPaths() []*tileSet {
	var out []*tileSet
	// x/sys/cpu checks that the system saves the wide registers. GODEBUG=cpu.avx512f=off clears only HasAVX512F.
	if cpu.X86.HasAVX512F && cpu.X86.HasAVX512DQ && cpu.X86.HasAVX512BW && cpu.X86.HasAVX512VL {
		out = append(out, avx512())
	}
	// F16C isn't checked, because every processor with AVX2 has it.
	if cpu.X86.HasAVX2 && cpu.X86.HasFMA {
		out = append(out, &tileSet{
			name:      "avx2",
			max:       [3]tileFunc{maxF32AVX2, maxBF16AVX2, maxF16AVX2},
			sum:       [3]tileFunc{sumF32AVX2, sumBF16AVX2, sumF16AVX2},
			jsd:       [3]tileFunc{jsdF32AVX2, jsdBF16AVX2, jsdF16AVX2},
			even:      [3]tileFunc{jsdEvenF32AVX2, jsdEvenBF16AVX2, jsdEvenF16AVX2},
			keep:      [3]tileFunc{keepF32AVX2, keepBF16AVX2, keepF16AVX2},
			grad:      [3]tileFunc{gradF32AVX2, gradBF16AVX2, gradF16AVX2},
			evenGrad:  [3]tileFunc{gradEvenF32AVX2, gradEvenBF16AVX2, gradEvenF16AVX2},
			rate:      [3]tileFunc{rateF32AVX2, rateBF16AVX2, rateF16AVX2},
			rates:     narrowRates,
			kl:        [3]tileFunc{klF32AVX2, klBF16AVX2, klF16AVX2},
			klForward: [3]tileFunc{klForwardF32AVX2, klForwardBF16AVX2, klForwardF16AVX2},
			klReverse: [3]tileFunc{klReverseF32AVX2, klReverseBF16AVX2, klReverseF16AVX2},
			finish:    finishAVX2,
			totals:    totalsAVX2,
			wideSum:   wideSumAVX2,
			wideEnd:   wideEndAVX2,
			wideMix:   wideMixAVX2,
			tab:       func(t *table) [][]float32 { return t.signed },
			tabH:      signedH,
			evenTab:   func(t *table) [][]float32 { return t.narrow },
			evenH:     narrowH,

			gradTab: func(t *table) [][]float32 { return t.signed },
			gradH:   signedH,
		})
	}
	return out
}

func avx512() *tileSet {
	return &tileSet{
		name: "avx512",
		max:  [3]tileFunc{maxF32AVX512, maxBF16AVX512, maxF16AVX512},
		sum:  [3]tileFunc{sumF32AVX512, sumBF16AVX512, sumF16AVX512},
		jsd:  [3]tileFunc{jsdF32AVX512, jsdBF16AVX512, jsdF16AVX512},
		keep: [3]tileFunc{keepF32AVX512, keepOrderedBF16AVX512, keepF16AVX512},

		grad:   [3]tileFunc{gradF32AVX512, gradBF16AVX512, gradF16AVX512},
		rate:   [3]tileFunc{rateF32AVX512, rateBF16AVX512, rateF16AVX512},
		rates:  wideRates,
		finish: finishAVX512,
		stream: streamAVX512,
		totals: totalsAVX2,
		kl:     [3]tileFunc{klF32AVX512, klBF16AVX512, klF16AVX512},

		klForward: [3]tileFunc{klForwardF32AVX512, klForwardBF16AVX512, klForwardF16AVX512},
		klReverse: [3]tileFunc{klReverseF32AVX512, klReverseBF16AVX512, klReverseF16AVX512},

		tab: func(t *table) [][]float32 { return t.rows },

		keepsMax: true,
		keepAny:  [3]tileFunc{keepF32AVX512, keepBF16AVX512, keepF16AVX512},
		keptJSD:  [3]tileFunc{jsdKeptF32AVX512, jsdKeptBF16AVX512, jsdKeptF16AVX512},
		keptEven: [3]tileFunc{jsdKeptEvenF32AVX512, jsdKeptEvenBF16AVX512, jsdKeptEvenF16AVX512},
		gradTab:  func(t *table) [][]float32 { return t.graded },
		wideSum:  wideSumAVX512,
		wideEnd:  wideEndAVX512,
		wideMix:  wideMixAVX512,
		gradH:    gradedH,
		evenTab:  func(t *table) [][]float32 { return t.geometric },
		evenH:    geometricH,
	}
}
