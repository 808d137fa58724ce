package kernels

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"
)

// TestExtremeLogits gives one entry a logit from -1e4 to -Inf on one side. On the other side, the entry's probability
// ranges from a fair share to less than float64 can represent. At beta 0 and 1, the loss grows with the logit without
// bound.
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
					for _, n := range []int{33, 700} { // only a tail, and whole blocks, which KL may read in a single pass
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

// farRows are rows with logits in the thousands or more, or with entries that one side excludes.
var farRows = []kindOfRow{
	{"low student -1e20", low(1, -1e20, 0)},
	{"low student -1.4e35", low(1, -1.4e35, 0)},
	{"low student -Inf", low(1, negInf, 0)},
	{"low teacher -1e20", low(1, -1e20, 1)},
	{"low teacher -1.4e35", low(1, -1.4e35, 1)},
	{"low teacher -Inf", low(1, negInf, 1)},
	{"low third of the teacher", low(1000, -1e30, 1)},
	{"masked third of the student", low(1000, negInf, 0)},
	{"offset 3000", offset(3000, 3000)},
	{"offset 3000, teacher 0", offset(3000, 0)},
	{"offset 30000, teacher -5000", offset(30000, -5000)},
	{"offset 1e6", offset(1e6, 1e6)},
	{"offset 1e6, teacher -3000", offset(1e6, -3000)},
	{"unrelated sd 1000", func(r *rand.Rand, s, t []float32) { normal(r, s, 1000); normal(r, t, 1000) }},
	{"unrelated sd 5000", func(r *rand.Rand, s, t []float32) { normal(r, s, 5000); normal(r, t, 5000) }},
	{"sd 1000, moved by sd 10", func(r *rand.Rand, s, t []float32) { normal(r, s, 1000); moved(r, s, t, 10) }},
	{"sd 5000, moved by sd 1", func(r *rand.Rand, s, t []float32) { normal(r, s, 5000); moved(r, s, t, 1) }},
}

// low sets n random entries of one side, 0 for the student, to the logit x.
func low(n int, x float32, side int) func(r *rand.Rand, s, t []float32) {
	return func(r *rand.Rand, s, t []float32) {
		normal(r, s, 3)
		moved(r, s, t, 1)
		for range n {
			[][]float32{s, t}[side][r.IntN(len(s))] = x
		}
	}
}

func offset(a, b float32) func(r *rand.Rand, s, t []float32) {
	return func(r *rand.Rand, s, t []float32) {
		normal(r, s, 3)
		moved(r, s, t, 2)
		for i := range s {
			s[i], t[i] = s[i]+a, t[i]+b
		}
	}
}

// TestFarRows checks that rows remain on the float32 tiles, and are accurate, even if their logits are large.
func TestFarRows(t *testing.T) {
	const v = 3000
	forPaths(t, func(t *testing.T, path string) {
		p, err := findPath(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, kind := range farRows {
			for _, beta := range []float64{0, 0.02, 0.5, 0.9, 1} {
				if (beta == 0 || beta == 1) && p.kl[Float32] == nil {
					continue // only a single pass computes an unlimited loss in float32
				}
				for _, clip := range []Clip{ClipNone, ClipToken} {
					r := rand.New(rand.NewPCG(1, 2))
					z, w := make([]float32, v), make([]float32, v)
					kind.fill(r, z, w)
					o := Options{Beta: beta, Temperature: 1, Path: path, Clip: clip, ClipValue: float64(clip)}
					trainingRow(t, o, fmt.Sprintf("%s, beta %g, clip %d", kind.name, beta, clip), z, w)
				}
			}
		}
	})
}

// TestExtremeLogProb checks that log-probabilities of logits far from 0 don't take the float64 path.
func TestExtremeLogProb(t *testing.T) {
	const v = 1000
	forPaths(t, func(t *testing.T, path string) {
		for _, far := range []float32{-1e6, -5000, 5000, 1e6} {
			r := rand.New(rand.NewPCG(1, 2))
			z, grad, got := make([]float32, v), make([]float32, v), []float64{0}
			normal(r, z, 3)
			for i := range z {
				z[i] += far
			}
			l, err := NewLogProb(LogProbOptions{Temperature: 1, Path: path})
			if err != nil {
				t.Fatal(err)
			}
			b := &LogProbBatch{Logits: F32Matrix(z, 1, v), Targets: []int32{17}, Offsets: []int{0, 1}}
			st, err := l.Run(b, &LogProbOutput{Token: got, Grad: grad})
			if err != nil {
				t.Fatal(err)
			}
			row := newRefRow(unsafe.Pointer(&z[0]), Float32, v, 1)
			if want := row.y(17) - row.s; st.Exact > 0 || math.Abs(got[0]-want) > 1e-6*math.Abs(want) {
				t.Errorf("logits near %g: %g, reference %g, %d rows on the float64 path", far, got[0], want, st.Exact)
			}
			if want := math.Exp(row.y(18) - row.s); math.Abs(float64(grad[18])+want) > 2e-6*want {
				t.Errorf("logits near %g: gradient %g, reference %g", far, grad[18], -want)
			}
		}
	})
}

// BenchmarkFar measures ordinary rows first, and then rows with large logits.
func BenchmarkFar(b *testing.B) {
	const v, rows = 32000, 4
	for _, kind := range append(trainingRows[5:6:6], farRows...) {
		r := rand.New(rand.NewPCG(1, 2))
		s, t, g := make([]float32, rows*v), make([]float32, rows*v), aligned(rows*v)
		for i := range rows {
			kind.fill(r, s[i*v:(i+1)*v], t[i*v:(i+1)*v])
		}
		batch := &Batch{Student: F32Matrix(s, rows, v), Teacher: F32Matrix(t, rows, v)}
		for _, path := range Paths()[:len(Paths())-1] {
			for _, beta := range []float64{0, 0.3, 0.5, 1} {
				for what, out := range map[string]*Output{"forward": {}, "gradient": {Grad: g}} {
					b.Run(fmt.Sprintf("%s/%s/%g/%s", what, path, beta, kind.name), func(b *testing.B) {
						j, err := NewJSD(Options{Beta: beta, Temperature: 1, Path: path})
						if err != nil {
							b.Fatal(err)
						}
						for b.Loop() {
							if _, err := j.Run(batch, out); err != nil {
								b.Fatal(err)
							}
						}
						b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/rows, "us/row")
					})
				}
			}
		}
	}
}
