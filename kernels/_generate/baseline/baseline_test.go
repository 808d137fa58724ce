//go:build amd64 && !purego

package baseline

import (
	"testing"
	"unsafe"
)

func BenchmarkCached(b *testing.B) {
	const n = 32000
	s, t := make([]float32, n), make([]float32, n)
	for i := range s {
		s[i], t[i] = float32(i%97)/10, float32(i%89)/10
	}
	mem := make([]byte, 4*10*32+63) // the tile loads whole aligned vectors
	tab := (*[10 * 32]float32)(unsafe.Pointer(&mem[-uintptr(unsafe.Pointer(&mem[0]))&63]))
	for b.Loop() {
		row(s, t, tab)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/entry")
}
