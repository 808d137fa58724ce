package kernels

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"
)

// TestWideRows checks that float64 tiles compute rows that float32 can't represent, and that a gradient's error is at
// most 1.5e-6 of the row's largest entry.
func TestWideRows(t *testing.T) {
	const n = 700
	rows := map[string]func(r *rand.Rand, s, t []float32){
		"near": func(r *rand.Rand, s, t []float32) { normal(r, s, 3); moved(r, s, t, 0.01) },
		"offset": func(r *rand.Rand, s, t []float32) {
			normal(r, s, 3)
			moved(r, s, t, 1)
			for i := range s {
				s[i], t[i] = s[i]+30000, t[i]-5000
			}
		},
		"sd 1000": func(r *rand.Rand, s, t []float32) { normal(r, s, 1000); normal(r, t, 1000) },
		"sure": func(r *rand.Rand, s, t []float32) {
			normal(r, s, 1)
			moved(r, s, t, 0.5)
			s[17], t[17] = 40, 12
		},
		"masked": func(r *rand.Rand, s, t []float32) {
			normal(r, s, 3)
			moved(r, s, t, 2)
			s[3], t[3], s[5] = negInf, negInf, -1e30
		},
		"largest float32": func(r *rand.Rand, s, t []float32) {
			normal(r, s, 3)
			normal(r, t, 3)
			s[9], t[9], t[8] = math.MaxFloat32, math.MaxFloat32, math.MaxFloat32
		},
	}
	forPaths(t, func(t *testing.T, path string) {
		p, err := findPath(path)
		if err != nil {
			t.Fatal(err)
		}
		w := newWorker(p)
		for name, fill := range rows {
			for _, beta := range []float64{0, 1e-6, 0.001, 0.5, 0.9, 1} {
				for _, clip := range []Clip{ClipNone, ClipElement} {
					r := rand.New(rand.NewPCG(1, 2))
					z, x := make([]float32, n), make([]float32, n)
					fill(r, z, x)
					o := Options{Beta: beta, Temperature: 1, Path: path, Clip: clip}
					if clip != ClipNone {
						o.ClipValue = 0.01
					}
					j, err := cachedJSD(o)
					if err != nil {
						t.Fatal(err)
					}
					want, grad := make([]float64, n), make([]float32, n)
					loss := ReferenceJSD(widen(z), widen(x), o, want)
					res, ok := j.wideRow(w, unsafe.Pointer(&z[0]), unsafe.Pointer(&x[0]), Float32, n, grad, 1)
					where := fmt.Sprintf("%s, beta %g, clip %d", name, beta, clip)
					if !ok || (gate{1e-6, 1e-14, 0}).far(res.loss, loss) {
						t.Errorf("%s: loss %g, reference %g (%v)", where, res.loss, loss, ok)
					}
					top := 0.0
					for _, g := range want {
						top = max(top, math.Abs(g))
					}
					for i, g := range want {
						if !(math.Abs(float64(grad[i])-g) <= 1.5e-6*max(top, 1e-6)) {
							t.Errorf("%s: gradient %d is %g, reference %g (largest %g)", where, i, grad[i], g, top)
							break
						}
					}
				}
			}
		}
	})
}
