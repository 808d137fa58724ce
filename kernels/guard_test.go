//go:build linux

package kernels

import (
	"syscall"
	"testing"
	"unsafe"
)

// guarded returns n bytes that end where an unreadable page begins and, if n fills its pages, start right after another
// one.
func guarded(t *testing.T, n int) []byte {
	page := syscall.Getpagesize()
	size := (n + page - 1) / page * page
	m, err := syscall.Mmap(-1, 0, size+2*page, syscall.PROT_READ|syscall.PROT_WRITE,
		syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { _ = syscall.Munmap(m) })
	for _, at := range []int{0, page + size} {
		if err := syscall.Mprotect(m[at:at+page], syscall.PROT_NONE); err != nil {
			t.Skip(err)
		}
	}
	return m[page+size-n : page+size : page+size]
}

// TestGuardPages checks that nothing beyond a row is read or written, whatever its length. A fault ends the test
// binary.
func TestGuardPages(t *testing.T) {
	forPaths(t, func(t *testing.T, path string) {
		for _, n := range []int{1, 3, 63, 64, 65, 127, 128, 129, 1000, 1024, 4096, 4099} {
			z, w, g := guarded(t, 4*n), guarded(t, 4*n), guarded(t, 4*n)
			f := func(b []byte) []float32 { return unsafe.Slice((*float32)(unsafe.Pointer(&b[0])), n) }
			for i := range n {
				f(z)[i], f(w)[i] = float32(i%7), float32(i%4)
			}
			h := func(b []byte) []uint16 { return unsafe.Slice((*uint16)(unsafe.Pointer(&b[len(b)-2*n])), n) }
			for _, beta := range []float64{0.5, 0.1, 0, 1e-6} { // the last takes float64 tiles
				j, err := cachedJSD(Options{Beta: beta, Temperature: 1, Path: path})
				if err != nil {
					t.Fatal(err)
				}
				for _, out := range []*Output{{}, {Grad: f(g)}} {
					if _, err := j.Run(&Batch{
						Student: F32Matrix(f(z), 1, n),
						Teacher: F32Matrix(f(w), 1, n),
					}, out); err != nil {
						t.Fatal(err)
					}
					if _, err := j.Run(&Batch{
						Student: BF16Matrix(h(z), 1, n),
						Teacher: BF16Matrix(h(w), 1, n),
					}, out); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
	})
}
