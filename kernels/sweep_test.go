package kernels

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"unsafe"
)

// sweepShapes are rows that may be hard for a kernel. Each row is drawn anew.
var sweepShapes = []struct {
	name string
	pair func(r *rand.Rand, z, w []float64)
}{
	{"independent", func(r *rand.Rand, z, w []float64) { fill(r, z, 4, 0); fill(r, w, 4, 0) }},
	{"near", func(r *rand.Rand, z, w []float64) {
		fill(r, z, 3, 0)
		noise := math.Pow(10, -1-4*r.Float64())
		for i := range w {
			w[i] = z[i] + noise*r.NormFloat64()
		}
	}},
	{"near, far off", func(r *rand.Rand, z, w []float64) {
		by := []float64{88, -88, 700, -1e4, 1e4}[r.IntN(5)]
		fill(r, z, 3, by)
		for i := range w {
			w[i] = z[i] + 1e-3*by*r.NormFloat64()
		}
	}},
	{"apart", func(r *rand.Rand, z, w []float64) { fill(r, z, 3, 1e4); fill(r, w, 3, -1e4) }},
	{"wide", func(r *rand.Rand, z, w []float64) { fill(r, z, 60, 0); fill(r, w, 60, 0) }},
	{"confident", func(r *rand.Rand, z, w []float64) {
		fill(r, z, 2, 0)
		fill(r, w, 2, 0)
		at := r.IntN(len(z))
		z[at] += 10 + 25*r.Float64()
		w[at] += 10 + 25*r.Float64()
	}},
	{"disagree", func(r *rand.Rand, z, w []float64) {
		fill(r, z, 2, 0)
		fill(r, w, 2, 0)
		z[r.IntN(len(z))] += 30
		w[r.IntN(len(w))] += 30
	}},
	{"late", func(r *rand.Rand, z, w []float64) {
		fill(r, z, 2, 0)
		fill(r, w, 2, 0)
		for i := len(z) / 2; i < len(z); i++ {
			z[i] += 150
			w[i] += 130
		}
	}},
	{"masked", func(r *rand.Rand, z, w []float64) {
		fill(r, z, 3, 0)
		fill(r, w, 3, 0)
		for i := 1; i < len(z); i++ {
			switch r.IntN(6) {
			case 0:
				z[i], w[i] = math.Inf(-1), math.Inf(-1)
			case 1:
				w[i] = []float64{math.Inf(-1), -1e30, -3e38}[r.IntN(3)]
			case 2:
				z[i] = []float64{math.Inf(-1), -1e4, -65000}[r.IntN(3)]
			}
		}
	}},
	{"all but one masked", func(r *rand.Rand, z, w []float64) {
		for i := range z {
			z[i], w[i] = math.Inf(-1), r.NormFloat64()
		}
		z[r.IntN(len(z))] = r.NormFloat64()
	}},
	{"tiny", func(r *rand.Rand, z, w []float64) { fill(r, z, 1e-41, 0); fill(r, w, 1e-7, 0) }},
	{"zipf", func(r *rand.Rand, z, w []float64) {
		for i := range z {
			z[i] = -1.1*math.Log(float64(r.IntN(len(z))+1)) + 0.3*r.NormFloat64()
			w[i] = z[i] + 0.5*r.NormFloat64()
		}
	}},
	{"few levels", func(r *rand.Rand, z, w []float64) {
		for i := range z {
			z[i], w[i] = float64(r.IntN(3)), float64(r.IntN(3))
		}
	}},
}

func fill(r *rand.Rand, x []float64, scale, offset float64) {
	for i := range x {
		x[i] = scale*r.NormFloat64() + offset
	}
}

// rounded stores a row in a given type, in a matrix with an odd stride and offset, and returns the values it holds.
func rounded(x []float64, d DType, r *rand.Rand) (Matrix, []float64) {
	v, shift := len(x), r.IntN(5)
	m := Matrix{DType: d, Rows: 1, Cols: v, Stride: v + r.IntN(9)}
	if d == Float32 {
		m.F32 = make([]float32, shift+m.Stride)[shift:]
	} else {
		m.U16 = make([]uint16, shift+m.Stride)[shift:]
	}
	out := make([]float64, v)
	for i, y := range x {
		f := float32(math.Max(y, -math.MaxFloat32))
		if math.IsInf(y, -1) {
			f = negInf
		}
		switch d {
		case Float32:
			m.F32[i] = f
		case BFloat16:
			m.U16[i] = uint16(math.Float32bits(f) >> 16)
		default:
			m.U16[i] = toHalf(f)
		}
		out[i] = m.At(0, i)
	}
	return m, out
}

// toHalf truncates to a half; it doesn't matter which one here.
func toHalf(f float32) uint16 {
	b := math.Float32bits(f)
	sign, e, man := uint16(b>>16)&0x8000, int(b>>23&255)-112, b&0x7fffff
	switch {
	case e >= 31 && math.IsInf(float64(f), 0):
		return sign | 0x7c00
	case e >= 31:
		return sign | 0x7bff
	case e <= 0:
		return sign | uint16((man|0x800000)>>min(31, 14-e))
	}
	return sign | uint16(e)<<10 | uint16(man>>13)
}

// TestSweep draws rows, options and types at random and checks every path's results against float64 within the gates.
// NATGO_SWEEP sets how many rows are drawn; a sweep longer than the default has to be requested.
func TestSweep(t *testing.T) {
	n := 150
	if s, err := strconv.Atoi(os.Getenv("NATGO_SWEEP")); err == nil {
		n = s
	}
	vocab := []int{1, 2, 3, 15, 17, 100, 127, 128, 129, 1000, 4095, 4099, 10007}
	if n > 1000 {
		vocab = append(vocab, 32000, 50257, 151936)
	}
	forPaths(t, func(t *testing.T, path string) {
		r := rand.New(rand.NewPCG(uint64(n), 11))
		failed := map[string]int{}
		for range n {
			shape, v := sweepShapes[r.IntN(len(sweepShapes))], vocab[r.IntN(len(vocab))]
			if v > 20000 && r.IntN(20) > 0 {
				v = 1 + r.IntN(300)
			}
			o := Options{
				Beta: []float64{
					0, 1, 0.5, 0.5, r.Float64(), r.Float64(), math.Pow(10, -6*r.Float64()),
					1 - math.Pow(10, -6*r.Float64()), 1e-6, 1 - 1e-6,
				}[r.IntN(10)],
				Temperature: []float64{1, 1, 0.7, math.Pow(10, 4*r.Float64()-2)}[r.IntN(4)],
				Normalize:   r.IntN(3) == 0,
				Path:        path,
			}
			if r.IntN(3) == 0 {
				o.Clip, o.ClipValue = []Clip{ClipToken, ClipElement, ClipBregman}[r.IntN(3)],
					math.Pow(10, -4*r.Float64())
			}
			d := []DType{Float32, Float32, BFloat16, Float16}[r.IntN(4)]
			z, w := make([]float64, v), make([]float64, v)
			shape.pair(r, z, w)
			student, z := rounded(z, d, r)
			teacher, w := rounded(w, d, r)
			if err := sweepOne(o, &student, &teacher, z, w); err != "" {
				where := fmt.Sprintf("%s, clip %d", shape.name, o.Clip)
				if failed[where]++; failed[where] < 3 {
					t.Errorf("%s V %d %v beta %g tau %g clip %d at %g norm %v: %s", shape.name, v, d, o.Beta,
						o.Temperature, o.Clip, o.ClipValue, o.Normalize, err)
				}
			}
		}
	})
}

func sweepOne(o Options, student, teacher *Matrix, z, w []float64) string {
	v := len(z)
	want := make([]float64, v)
	loss := ReferenceJSD(z, w, o, want)
	j, err := NewJSD(o)
	if err != nil {
		return err.Error()
	}
	grad := make([]float32, v)
	forward, err := j.Run(&Batch{Student: *student, Teacher: *teacher}, &Output{})
	if err != nil {
		return err.Error()
	}
	st, err := j.Run(&Batch{Student: *student, Teacher: *teacher}, &Output{Grad: grad})
	if err != nil {
		return err.Error()
	}
	nf := o.normFactor()
	for _, got := range []float64{forward.Loss, st.Loss} {
		if math.IsNaN(loss) && math.IsNaN(got) || got == loss {
			continue
		}
		if !(math.Abs(got-loss) <= 3e-6*math.Abs(loss)+1e-11*nf) {
			return fmt.Sprintf("loss %g and %g, want %g", forward.Loss, st.Loss, loss)
		}
	}
	if math.IsInf(loss, 0) || math.IsNaN(loss) {
		return ""
	}
	// An entry at the limit may fall on either side.
	if o.Clip != ClipNone &&
		(st.Clipped != clippedReference(o, z, w) ||
			o.Clip == ClipToken && math.Abs(loss/nf-o.ClipValue) < 1e-5*o.ClipValue) {
		return ""
	}
	top := 0.0
	for _, g := range want {
		top = math.Max(top, math.Abs(g))
	}
	for i, g := range want {
		if !(math.Abs(float64(grad[i])-g) <= 5e-6*top+1e-12*nf/o.Temperature) {
			return fmt.Sprintf("gradient %d is %g, want %g (largest %g, loss %g)", i, grad[i], g, top, loss)
		}
	}
	return ""
}

func clippedReference(o Options, z, w []float64) int {
	m := func(x []float64) refRow { return newRefRow(ptr(x), float64s, len(x), o.Temperature) }
	s, t := m(z), m(w)
	n, total := 0, 0.0
	for i := range z {
		yz, yt := s.y(i), t.y(i)
		l, _ := entryTerms(yz-s.s, yt-t.s, (yt-yz)-(t.s-s.s), o.Beta, o.Clip != ClipElement)
		total += l
		if o.clipsElements() && l > o.ClipValue {
			n++
		}
	}
	if o.Clip == ClipToken && total > o.ClipValue {
		n = 1
	}
	return n
}

func ptr(x []float64) unsafe.Pointer { return unsafe.Pointer(&x[0]) }

// TestShiftAcrossBinade checks that a small difference between the sides' largest entries doesn't shift the sides.
// Otherwise, an entry just below a power of 2 would lose its last bit, and its gradient would be less accurate for
// nearly equal sides.
func TestShiftAcrossBinade(t *testing.T) {
	const n = 300
	z, w := make([]float32, n), make([]float32, n)
	for i := range z {
		z[i] = float32(i%7) - 3
		w[i] = z[i] + float32(i%5-2)*1e-3
	}
	z[1], w[1] = 11, 10.997 // the largest entries, which determine the shift
	for i := 2; i < 40; i++ {
		z[i], w[i] = 7.9975-float32(i)*1e-5, 7.9985-float32(i)*1.3e-5
	}
	forPaths(t, func(t *testing.T, path string) {
		o := Options{Beta: 0.5, Temperature: 1, Path: path}
		want := make([]float64, n)
		ReferenceJSD(widen(z), widen(w), o, want)
		_, grad := one(t, o, z, w)
		top := 0.0
		for _, g := range want {
			top = math.Max(top, math.Abs(g))
		}
		for i, g := range want {
			if math.Abs(float64(grad[i])-g) > 1e-6*top {
				t.Fatalf("gradient %d is %g, want %g (largest %g)", i, grad[i], g, top)
			}
		}
	})
}

// TestEqualEntries checks rows with thousands of equal entries, whose rounding errors have the same sign.
func TestEqualEntries(t *testing.T) {
	const n = 4095
	z, w := make([]float32, n), make([]float32, n)
	forPaths(t, func(t *testing.T, path string) {
		for _, top := range []float32{1.7, 3.3, 9.1} {
			z[5], w[9] = top, top/2
			for _, o := range []Options{
				{Beta: 0.5, Temperature: 1},
				{Beta: 0.3, Temperature: 1.3},
				{Beta: 0.3, Temperature: 1, Clip: ClipBregman, ClipValue: 1e-3},
			} {
				o.Path = path
				want := ReferenceJSD(widen(z), widen(w), o, nil)
				if got, _ := one(t, o, z, w); math.Abs(got/want-1) > 2e-6 {
					t.Errorf("%+v: got %g, want %g", o, got, want)
				}
			}
		}
	})
}
