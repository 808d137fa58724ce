//go:build amd64 && !purego

package kernelbench

func findProbe(path string) probe {
	switch path {
	case "avx512":
		return probe{read: func(s, t []float32) { chunks(s, t, readAVX512) }, fma: func(n int) { steps(n, fmaAVX512) }}
	case "avx2":
		return probe{read: func(s, t []float32) { chunks(s, t, readAVX2) }, fma: func(n int) { steps(n, fmaAVX2) }}
	}
	return probe{}
}

// chunks calls f for parts of s and t, and steps calls f with parts of n. The calls must be short, because assembly
// can't be preempted.
func chunks(s, t []float32, f func(s, t *float32, n int)) {
	const size = 4096
	for i := 0; i+size <= len(s); i += size {
		f(&s[i], &t[i], size)
	}
	if n := len(s) / size * size; len(s)-n >= 64 {
		f(&s[n], &t[n], (len(s)-n)/64*64)
	}
}

func steps(n int, f func(int)) {
	for ; n > 0; n -= 4800 {
		f(min(n, 4800))
	}
}
