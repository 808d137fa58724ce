//go:build amd64 && !purego

package baseline

import "testing"

func BenchmarkCached(b *testing.B) {
	const n = 32000
	s, t := make([]float32, n), make([]float32, n)
	for i := range s {
		s[i], t[i] = float32(i%97)/10, float32(i%89)/10
	}
	tab := new([10 * 32]float32)
	for b.Loop() {
		row(s, t, tab)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/entry")
}
