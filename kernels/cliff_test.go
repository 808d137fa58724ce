package kernels

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"
)

// kindOfRow fills in both sides of a row.
type kindOfRow struct {
	name string
	fill func(r *rand.Rand, s, t []float32)
}

// trainingRows are rows that occur in training.
var trainingRows = []kindOfRow{
	{"unrelated sd 1", func(r *rand.Rand, s, t []float32) { normal(r, s, 1); normal(r, t, 1) }},
	{"unrelated sd 3", func(r *rand.Rand, s, t []float32) { normal(r, s, 3); normal(r, t, 3) }},
	{"unrelated sd 10", func(r *rand.Rand, s, t []float32) { normal(r, s, 10); normal(r, t, 10) }},
	{"moved by sd 0.01", func(r *rand.Rand, s, t []float32) { normal(r, s, 3); moved(r, s, t, 0.01) }},
	{"moved by sd 0.5", func(r *rand.Rand, s, t []float32) { normal(r, s, 3); moved(r, s, t, 0.5) }},
	{"moved by sd 2", func(r *rand.Rand, s, t []float32) { normal(r, s, 3); moved(r, s, t, 2) }},
	{"moved by sd 4", func(r *rand.Rand, s, t []float32) { normal(r, s, 3); moved(r, s, t, 4) }},
	{"doubted peak", func(r *rand.Rand, s, t []float32) {
		normal(r, s, 1)
		moved(r, s, t, 0.5)
		at := r.IntN(len(s))
		s[at], t[at] = 18, 12
	}},
	{"agreed peak", func(r *rand.Rand, s, t []float32) {
		normal(r, s, 1)
		moved(r, s, t, 0.5)
		at := r.IntN(len(s))
		s[at], t[at] = 20, 19.5
	}},
	{"peaks apart", func(r *rand.Rand, s, t []float32) {
		normal(r, s, 2)
		normal(r, t, 2)
		s[r.IntN(len(s))], t[r.IntN(len(t))] = 30, 30
	}},
	{"tied peaks", func(r *rand.Rand, s, t []float32) {
		normal(r, s, 1)
		moved(r, s, t, 0.5)
		for range 5 {
			at := r.IntN(len(s))
			s[at], t[at] = 17+float32(r.IntN(8))/8, 12+float32(r.IntN(8))/8
		}
	}},
	{"sure student, flat teacher", func(r *rand.Rand, s, t []float32) {
		normal(r, s, 3)
		normal(r, t, 1)
		s[r.IntN(len(s))] = 28
	}},
	{"heavy tails", func(r *rand.Rand, s, t []float32) {
		for i := range s {
			s[i] = float32(-1.1*math.Log(float64(r.IntN(len(s))+1)) + 0.3*r.NormFloat64())
		}
		for range 8 {
			s[r.IntN(len(s))] += 12 * r.Float32()
		}
		moved(r, s, t, 1)
	}},
	{"padded", func(r *rand.Rand, s, t []float32) {
		normal(r, s, 3)
		moved(r, s, t, 2)
		for i := len(s) * 31 / 32; i < len(s); i++ {
			s[i], t[i] = negInf, negInf
		}
	}},
	{"offset 40", func(r *rand.Rand, s, t []float32) {
		normal(r, s, 3)
		moved(r, s, t, 2)
		for i := range s {
			s[i], t[i] = s[i]+40, t[i]+20
		}
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

// TestTrainingRows checks that rows that occur in training don't take the float64 path, and that a gradient's error is
// at most 1.5e-6 of the row's largest entry.
func TestTrainingRows(t *testing.T) {
	const v = 3000
	forPaths(t, func(t *testing.T, path string) {
		worst := 0.0
		for _, kind := range trainingRows {
			for _, beta := range []float64{0, 0.02, 0.1, 0.5, 0.9, 1} {
				for _, tau := range []float64{0.5, 1, 2} {
					for _, clip := range []Clip{ClipNone, ClipToken, ClipElement, ClipBregman} {
						if clip != ClipNone && tau != 1 || clip == ClipElement && (beta == 0 || beta == 1) {
							continue
						}
						r := rand.New(rand.NewPCG(3, uint64(tau*2)))
						z, w := make([]float32, v), make([]float32, v)
						kind.fill(r, z, w)
						o := Options{Beta: beta, Temperature: tau, Clip: clip, Path: path}
						if clip != ClipNone {
							o.ClipValue = 0.3
						}
						where := fmt.Sprintf("%s, beta %g, tau %g, clip %d", kind.name, beta, tau, clip)
						worst = max(worst, trainingRow(t, o, where, z, w))
					}
				}
			}
		}
		t.Logf("largest error of a gradient: %.2g of the row's largest entry", worst)
	})
}

// trainingRow returns the largest error of a row's gradient, relative to its largest entry.
func trainingRow(t *testing.T, o Options, where string, z, w []float32) float64 {
	t.Helper()
	j, err := cachedJSD(o)
	if err != nil {
		t.Fatal(err)
	}
	n := len(z)
	grad, want := make([]float32, n), make([]float64, n)
	st, err := j.Run(&Batch{Student: F32Matrix(z, 1, n), Teacher: F32Matrix(w, 1, n)}, &Output{Grad: grad})
	if err != nil {
		t.Fatal(err)
	}
	if st.Exact > 0 {
		t.Errorf("%s: on the float64 path", where)
	}
	loss := ReferenceJSD(widen(z), widen(w), o, want)
	if gateOf(o.Path).far(st.Loss, loss) {
		t.Errorf("%s: loss %g, reference %g", where, st.Loss, loss)
	}
	top, worst, at := 0.0, 0.0, 0
	for i, g := range want {
		top = max(top, math.Abs(g))
		if e := math.Abs(float64(grad[i]) - g); e > worst {
			worst, at = e, i
		}
	}
	if worst > 1.5e-6*max(top, 1e-6) {
		t.Errorf("%s: gradient %d is %g, reference %g (error %.2g of the largest, %g)", where, at, grad[at], want[at],
			worst/top, top)
	}
	if top < 1e-6 {
		return 0
	}
	return worst / top
}

// TestConfidentRowsTakeOnePass checks that rows in which all entries but one have almost no probability, and therefore
// almost no loss, aren't treated as nearly equal, which would require a slower pass after the first.
func TestConfidentRowsTakeOnePass(t *testing.T) {
	const v = 4096
	for _, path := range paths() {
		if path.rate[Float32] == nil {
			continue
		}
		r := rand.New(rand.NewPCG(5, 6))
		z, w := make([]float32, v), make([]float32, v)
		normal(r, z, 1)
		moved(r, z, w, 0.5)
		z[77], w[77] = 25, 24
		j, err := NewJSD(Options{Beta: 0.5, Temperature: 1, Path: path.name})
		if err != nil {
			t.Fatal(err)
		}
		of, grad := newWorker(path), make([]float32, v)
		j.jsdRow(of, unsafe.Pointer(&z[0]), unsafe.Pointer(&w[0]), Float32, v, nextRow{}, grad, 1)
		if of.row.p.kind != ratePass {
			t.Errorf("%s: the row took pass %d, expected %d", path.name, of.row.p.kind, ratePass)
		}
	}
}

// TestFewValues checks losses of rows with two to four distinct values, whose rounding errors don't average out.
func TestFewValues(t *testing.T) {
	forPaths(t, func(t *testing.T, path string) {
		for _, beta := range []float64{0.02, 0.1, 0.3, 0.5, 0.9, 0.98} {
			r := rand.New(rand.NewPCG(1, 2))
			for range 250 {
				values, n := 2+r.IntN(3), 513+r.IntN(700)
				apart := math.Exp(r.NormFloat64() - 0.5)
				z, w := make([]float32, n), make([]float32, n)
				normal(r, z[:values], 2)
				moved(r, z[:values], w[:values], apart)
				for i := values; i < n; i++ {
					k := r.IntN(values)
					z[i], w[i] = z[k], w[k]
				}
				o := Options{Beta: beta, Temperature: 1, Path: path}
				want := ReferenceJSD(widen(z), widen(w), o, nil)
				if got, _ := one(t, o, z, w); (gate{3e-6, 1e-11, 0}).far(got, want) {
					t.Fatalf("beta %g, %d values: loss %g, reference %g", beta, values, got, want)
				}
			}
		}
	})
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

// BenchmarkSupport compares the divergences on a support with LogProb, which reads the same row.
func BenchmarkSupport(b *testing.B) {
	const rows = 8
	for _, v := range []int{32000, 151936} {
		r := rand.New(rand.NewPCG(1, 2))
		s, t, g := make([]float32, rows*v), make([]float32, rows*v), make([]float32, rows*v)
		normal(r, s, 3)
		moved(r, s, t, 1)
		student, teacher := F32Matrix(s, rows, v), F32Matrix(t, rows, v)
		for _, grad := range []bool{false, true} {
			what, out, lout := "forward", &Output{}, &LogProbOutput{}
			if grad {
				what, out.Grad, lout.Grad = "gradient", g, g
			}
			perRow := func(name string, f func() error) {
				b.Run(fmt.Sprintf("%s/%s/%d", what, name, v), func(b *testing.B) {
					b.ReportAllocs()
					for b.Loop() {
						if err := f(); err != nil {
							b.Fatal(err)
						}
					}
					b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/rows, "us/row")
				})
			}
			lp, _ := NewLogProb(LogProbOptions{Temperature: 1})
			lb := &LogProbBatch{Logits: student, Targets: make([]int32, rows), Offsets: []int{0, rows}}
			perRow("logprob", func() error { _, err := lp.Run(lb, lout); return err })
			for _, k := range []int{1, 20, 100} {
				top, _ := NewTopKJSD(Options{Beta: 0.5, Temperature: 1}, k, RestBucket)
				perRow(fmt.Sprint("top-k ", k), func() error {
					_, err := top.Run(&Batch{Student: student, Teacher: teacher}, out)
					return err
				})
				sb := &SparseBatch{Student: student, Teacher: SparseTeacher{Offsets: []int{0}}}
				w := newWorker(paths()[0])
				for i := range rows {
					for _, id := range w.topK(&teacher, i, k) {
						sb.Teacher.IDs = append(sb.Teacher.IDs, id)
						sb.Teacher.LogProbs = append(sb.Teacher.LogProbs, float32(math.Log(0.9/float64(k))))
					}
					sb.Teacher.Offsets = append(sb.Teacher.Offsets, len(sb.Teacher.IDs))
				}
				for name, rest := range map[string]Rest{"bucket": RestBucket, "renormalised": RestRenormalise} {
					sp, _ := NewSparseJSD(Options{Beta: 0.5, Temperature: 1}, rest)
					perRow(fmt.Sprintf("sparse %d %s", k, name), func() error { _, err := sp.Run(sb, out); return err })
				}
			}
		}
	}
}
