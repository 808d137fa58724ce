package kernels

import (
	"fmt"
	"math"
	"testing"
)

// TestExtremeLogits has one entry that one side rules out, or nearly, by a logit from -1e4 to -Inf, while the other
// gives it anything from a fair share to less than float64 can hold. At beta 0 and 1 the loss grows with the logit,
// without bound.
func TestExtremeLogits(t *testing.T) {
	low := []float32{-1e4, -65000, -1e20, -1.4e35, -math.MaxFloat32, negInf}
	other := []float32{0, -40, -62, -88, -104, -150, -700, -800, -1e4, -1e30, negInf}
	if testing.Short() {
		low, other = []float32{-1.4e35, negInf}, []float32{0, -62, -88, -104, -700, -1e30, negInf}
	}
	forPaths(t, func(t *testing.T, path string) {
		for _, beta := range []float64{0, 1, 1e-6, 0.001, 0.3, 0.5, 0.9} {
			for _, d := range []DType{Float32, BFloat16, Float16} {
				t.Run(fmt.Sprintf("beta %g/%v", beta, d), func(t *testing.T) {
					for _, n := range []int{33, 700} { // a tail alone, and whole blocks, which KL may read once only
						if n > 33 && beta > 0 && beta < 1 {
							continue
						}
						for _, x := range low {
							for _, y := range other {
								extreme(t, Options{Beta: beta, Temperature: 1, Path: path}, d, n, x, y)
								extreme(t, Options{Beta: beta, Temperature: 1, Path: path}, d, n, y, x)
							}
						}
					}
				})
			}
		}
	})
}

// extreme compares a row whose entry 17 is x for the student and y for the teacher with the reference.
func extreme(t *testing.T, o Options, d DType, n int, x, y float32) {
	t.Helper()
	z, w := make([]float64, n), make([]float64, n)
	for i := range z {
		z[i], w[i] = float64(i%5), float64(i%7)/2
	}
	z[17], w[17] = float64(x), float64(y)
	row := func(x []float64) (Matrix, []float64) {
		m := Matrix{DType: d, Rows: 1, Cols: n}
		for _, y := range x {
			switch f := float32(y); d {
			case Float32:
				m.F32 = append(m.F32, f)
			case BFloat16:
				m.U16 = append(m.U16, uint16(math.Float32bits(f)>>16))
			default:
				m.U16 = append(m.U16, toHalf(f))
			}
		}
		held := make([]float64, n)
		for i := range held {
			held[i] = m.At(0, i)
		}
		return m, held
	}
	student, z := row(z)
	teacher, w := row(w)
	want := make([]float64, n)
	loss := ReferenceJSD(z, w, o, want)
	if math.IsNaN(loss) {
		t.Fatalf("student %g, teacher %g: the reference is NaN", x, y)
	}
	j, err := cachedJSD(o)
	if err != nil {
		t.Fatal(err)
	}
	b := &Batch{Student: student, Teacher: teacher}
	grad := make([]float32, n)
	for _, out := range []*Output{{}, {Grad: grad}} {
		st, err := j.Run(b, out)
		if err != nil {
			t.Fatal(err)
		}
		if (gate{3e-6, 1e-11, 0}).far(st.Loss, loss) {
			t.Errorf("V %d, student %g, teacher %g: %g, reference %g", n, x, y, st.Loss, loss)
		}
	}
	top := 0.0
	for _, g := range want {
		top = max(top, math.Abs(g))
	}
	for i, g := range want {
		if math.IsNaN(g) && anyNaN32(grad[i:i+1]) || math.Abs(float64(grad[i])-g) <= 5e-6*top+1e-12 {
			continue
		}
		t.Errorf("V %d, student %g, teacher %g: gradient %d is %g, reference %g (largest %g)",
			n, x, y, i, grad[i], g, top)
		break
	}
}
