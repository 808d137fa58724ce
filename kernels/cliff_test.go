package kernels

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// trainingRows are rows as training meets them: both sides of n entries.
var trainingRows = []struct {
	name string
	fill func(r *rand.Rand, s, t []float32)
}{
	{"unrelated sd 1", func(r *rand.Rand, s, t []float32) { normal(r, s, 1); normal(r, t, 1) }},
	{"unrelated sd 3", func(r *rand.Rand, s, t []float32) { normal(r, s, 3); normal(r, t, 3) }},
	{"moved by sd 0.5", func(r *rand.Rand, s, t []float32) { normal(r, s, 3); moved(r, s, t, 0.5) }},
	{"moved by sd 2", func(r *rand.Rand, s, t []float32) { normal(r, s, 3); moved(r, s, t, 2) }},
	{"moved by sd 4", func(r *rand.Rand, s, t []float32) { normal(r, s, 3); moved(r, s, t, 4) }},
	{"doubted peak", func(r *rand.Rand, s, t []float32) {
		normal(r, s, 1)
		moved(r, s, t, 0.5)
		at := r.IntN(len(s))
		s[at], t[at] = 18, 12
	}},
}

func normal(r *rand.Rand, x []float32, sd float64) {
	for i := range x {
		x[i] = float32(r.NormFloat64() * sd)
	}
}

func moved(r *rand.Rand, s, t []float32, sd float64) {
	for i, x := range s {
		t[i] = x + float32(r.NormFloat64()*sd)
	}
}

// BenchmarkTraining measures a gradient on every kind of row, and the share of rows on the float64 path.
func BenchmarkTraining(b *testing.B) {
	for _, v := range []int{32000, 151936} {
		const rows = 8
		for _, kind := range trainingRows {
			r := rand.New(rand.NewPCG(1, 2))
			s, t, g := make([]float32, rows*v), make([]float32, rows*v), make([]float32, rows*v)
			for i := range rows {
				kind.fill(r, s[i*v:(i+1)*v], t[i*v:(i+1)*v])
			}
			for _, path := range Paths()[:len(Paths())-1] {
				for _, grad := range []bool{false, true} {
					what := "forward"
					if grad {
						what = "gradient"
					}
					b.Run(fmt.Sprintf("%s/%s/%s/%d", what, path, kind.name, v), func(b *testing.B) {
						j, err := NewJSD(Options{Beta: 0.5, Temperature: 1, Path: path})
						if err != nil {
							b.Fatal(err)
						}
						batch := &Batch{Student: F32Matrix(s, rows, v), Teacher: F32Matrix(t, rows, v)}
						out := &Output{}
						if grad {
							out.Grad = g
						}
						var st Stats
						for b.Loop() {
							if st, err = j.Run(batch, out); err != nil {
								b.Fatal(err)
							}
						}
						b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/rows, "us/row")
						b.ReportMetric(float64(st.Exact)/rows, "slow")
					})
				}
			}
		}
	}
}
