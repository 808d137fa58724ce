package kernels

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/nat-go/nat-go/internal/property"
)

// drawRow draws a row of logits: a base scale, an offset and masked entries.
func drawRow(t *rapid.T, name string, n int) []float32 {
	scale := rapid.SampledFrom([]float64{0, 1e-3, 0.1, 3, 10}).Draw(t, name+" scale")
	offset := rapid.SampledFrom([]float64{0, 0, 7, 80, -80, 1000}).Draw(t, name+" offset")
	masked := rapid.SampledFrom([]float64{0, 0, 0.2}).Draw(t, name+" masked")
	r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, name+" seed"), 0))
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64()*scale + offset)
		if i > 0 && r.Float64() < masked {
			x[i] = negInf
		}
	}
	return x
}

func drawBeta(t *rapid.T) float64 {
	return rapid.SampledFrom([]float64{0, 1, 0.5, 0.5, 0.1, 0.3, 0.9, 0.01, 0.002, 0.999, 1e-6}).Draw(t, "beta")
}

func drawLen(t *rapid.T) int {
	return rapid.SampledFrom([]int{1, 2, 3, 63, 64, 65, 127, 128, 129, 255, 300, 4096, 4097, 5000}).Draw(t, "V")
}

func widen(x []float32) []float64 {
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = float64(v)
	}
	return y
}

// one runs a single row and returns its loss and gradient.
func one(t testing.TB, o Options, z, w []float32) (float64, []float32) {
	j, err := cachedJSD(o)
	if err != nil {
		t.Fatal(err)
	}
	grad := make([]float32, len(z))
	st, err := j.Run(&Batch{Student: F32Matrix(z, 1, len(z)), Teacher: F32Matrix(w, 1, len(z))}, &Output{Grad: grad})
	if err != nil {
		t.Fatal(err)
	}
	return st.Loss, grad
}

// TestDifferential compares every path with the float64 reference on random rows.
func TestDifferential(t *testing.T) {
	forPaths(t, func(t *testing.T, path string) {
		property.Check(t, func(rt *rapid.T) {
			n := drawLen(rt)
			z, w := drawRow(rt, "student", n), drawRow(rt, "teacher", n)
			if rapid.Bool().Draw(rt, "near") {
				noise := rand.New(rand.NewPCG(1, 2))
				for i := range w {
					w[i] = z[i] + float32(noise.NormFloat64()*1e-4)
				}
			}
			o := Options{
				Beta:        drawBeta(rt),
				Temperature: rapid.SampledFrom([]float64{1, 0.5, 2, 0.7}).Draw(rt, "tau"),
				Path:        path,
			}
			switch rapid.IntRange(0, 4).Draw(rt, "clip") {
			case 1:
				o.Clip, o.ClipValue = ClipToken, 0.05
			case 2:
				o.Clip, o.ClipValue = ClipBregman, 0.01
			}
			want := make([]float64, n)
			loss := ReferenceJSD(widen(z), widen(w), o, want)
			got, grad := one(t, o, z, w)
			if gateOf(path).far(got, loss) {
				rt.Fatalf("loss %g, reference %g (rel %g)", got, loss, got/loss-1)
			}
			if math.IsInf(loss, 1) || o.Clip != ClipNone { // a clipping tie may go either way
				return
			}
			top := 0.0
			for _, g := range want {
				top = max(top, math.Abs(g))
			}
			for i, g := range want {
				if !(math.Abs(float64(grad[i])-g) <= 5e-6*top+1e-12) {
					rt.Fatalf("gradient %d is %g, reference %g (max %g)", i, grad[i], g, top)
				}
			}
		})
	})
}

// TestIdentities checks the invariants of the divergence on every path.
func TestIdentities(t *testing.T) {
	forPaths(t, func(t *testing.T, path string) {
		property.Check(t, func(rt *rapid.T) {
			n := drawLen(rt)
			z, w := drawRow(rt, "student", n), drawRow(rt, "teacher", n)
			b := drawBeta(rt)
			o := Options{Beta: b, Temperature: 1, Path: path}
			loss, grad := one(t, o, z, w)
			if math.IsInf(loss, 1) {
				return
			}
			near := func(a, b float64) bool { return math.Abs(a-b) <= 1e-5*math.Abs(b)+1e-10 }
			if loss < 0 {
				rt.Fatalf("negative: %g", loss)
			}
			if b > 0 && b < 1 {
				if h := -b*math.Log(b) - (1-b)*math.Log1p(-b); loss > h*(1+1e-5) {
					rt.Fatalf("loss %g exceeds the entropy of beta, %g", loss, h)
				}
			}
			if same, g := one(t, o, z, z); same != 0 ||
				slices.ContainsFunc(g, func(x float32) bool { return math.Abs(float64(x)) > 1e-9 }) {
				rt.Fatalf("a row and itself: %g", same)
			}
			swapped := o
			swapped.Beta = 1 - b
			if 1-swapped.Beta == b {
				if got, _ := one(t, swapped, w, z); !near(got, loss) {
					rt.Fatalf("swap: %g and %g", got, loss)
				}
			}
			sum, abs, top := 0.0, 0.0, 0.0
			for _, g := range grad {
				sum += float64(g)
				abs += math.Abs(float64(g))
				top = max(top, math.Abs(float64(g)))
			}
			if math.Abs(sum) > 1e-5*abs+1e-6*top*float64(n)+1e-10 {
				rt.Fatalf("gradient sums to %g of %g", sum, abs)
			}
			p := rand.New(rand.NewPCG(1, uint64(n))).Perm(n)
			zp, wp := make([]float32, n), make([]float32, n)
			for i, j := range p {
				zp[i], wp[i] = z[j], w[j]
			}
			if got, _ := one(t, o, zp, wp); !near(got, loss) {
				rt.Fatalf("permuted: %g and %g", got, loss)
			}
		})
	})
}

// TestReferenceGradient checks the definition's gradient against finite differences.
func TestReferenceGradient(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, b := range []float64{0, 1, 0.5, 0.1, 0.01} {
		for _, norm := range []bool{false, true} {
			o := Options{Beta: b, Temperature: 1.7, Normalize: norm}
			z, w, g := make([]float64, 9), make([]float64, 9), make([]float64, 9)
			for i := range z {
				z[i], w[i] = r.NormFloat64()*2, r.NormFloat64()*2
			}
			ReferenceJSD(z, w, o, g)
			for i := range z {
				const h = 1e-5
				up, down := slices.Clone(z), slices.Clone(z)
				up[i] += h
				down[i] -= h
				fd := (ReferenceJSD(up, w, o, nil) - ReferenceJSD(down, w, o, nil)) / (2 * h)
				if math.Abs(fd-g[i]) > 1e-8 {
					t.Errorf("beta %g entry %d: %g, finite difference %g", b, i, g[i], fd)
				}
			}
		}
	}
}

// TestDeterminism checks that no result depends on the number of workers, on concurrency or on previous computations.
func TestDeterminism(t *testing.T) {
	const rows, v = 37, 1000
	r := rand.New(rand.NewPCG(5, 6))
	z, w := make([]float32, rows*v), make([]float32, rows*v)
	for i := range z {
		z[i] = float32(r.NormFloat64() * 3)
		w[i] = z[i] + float32(r.NormFloat64())
	}
	labels := make([]int32, rows)
	labels[3], labels[36] = IgnoreIndex, IgnoreIndex
	forPaths(t, func(t *testing.T, path string) {
		var want Output
		var loss float64
		for _, workers := range []int{1, 2, 3, 7} {
			j, err := NewJSD(Options{Beta: 0.5, Temperature: 1, Workers: workers, Path: path})
			if err != nil {
				t.Fatal(err)
			}
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(func() {
					out := Output{RowLoss: make([]float64, rows), Grad: make([]float32, rows*v)}
					st, err := j.Run(&Batch{
						Student: F32Matrix(z, rows, v),
						Teacher: F32Matrix(w, rows, v),
						Labels:  labels,
					}, &out)
					if err != nil {
						t.Error(err)
					}
					if want.Grad == nil {
						return
					}
					if st.Loss != loss || !slices.Equal(out.RowLoss, want.RowLoss) ||
						!slices.Equal(out.Grad, want.Grad) {
						t.Errorf("%d workers: results differ", workers)
					}
				})
				if want.Grad == nil {
					wg.Wait()
					want = Output{RowLoss: make([]float64, rows), Grad: make([]float32, rows*v)}
					st, _ := j.Run(&Batch{
						Student: F32Matrix(z, rows, v),
						Teacher: F32Matrix(w, rows, v),
						Labels:  labels,
					}, &want)
					loss = st.Loss
				}
			}
			wg.Wait()
		}
	})
}

// TestInPlace checks that the gradient may overwrite the student's own memory, bit for bit.
func TestInPlace(t *testing.T) {
	forPaths(t, func(t *testing.T, path string) {
		for _, n := range []int{1, 127, 128, 1000, 5000} {
			r := rand.New(rand.NewPCG(7, uint64(n)))
			z, w := make([]float32, n), make([]float32, n)
			for i := range z {
				z[i], w[i] = float32(r.NormFloat64()), float32(r.NormFloat64())
			}
			for _, b := range []float64{0.5, 0, 1e-6} {
				o := Options{Beta: b, Temperature: 1, Path: path}
				loss, grad := one(t, o, z, w)
				j, _ := cachedJSD(o)
				in := slices.Clone(z)
				st, err := j.Run(&Batch{Student: F32Matrix(in, 1, n), Teacher: F32Matrix(w, 1, n)}, &Output{Grad: in})
				if err != nil || st.Loss != loss || !slices.Equal(in, grad) {
					t.Errorf("V %d beta %g: in place differs: %v", n, b, err)
				}
			}
		}
	})
}

// TestUpstream checks that Upstream multiplies the gradient but not the loss. nil means 1, and 0 means 0.
func TestUpstream(t *testing.T) {
	z, w := []float32{1, 2, 3, 0.5}, []float32{1.5, 1, 3, 0}
	forPaths(t, func(t *testing.T, path string) {
		o := Options{Beta: 0.5, Temperature: 1, Path: path}
		loss, plain := one(t, o, z, w)
		j, err := cachedJSD(o)
		if err != nil {
			t.Fatal(err)
		}
		for _, by := range []float64{0, 1, -0.25} {
			grad := make([]float32, len(z))
			b := &Batch{Student: F32Matrix(z, 1, 4), Teacher: F32Matrix(w, 1, 4), Upstream: &by}
			st, err := j.Run(b, &Output{Grad: grad})
			if err != nil || st.Loss != loss {
				t.Fatalf("by %g: loss %g, want %g (%v)", by, st.Loss, loss, err)
			}
			for i, g := range grad {
				if want := by * float64(plain[i]); math.Abs(float64(g)-want) > 1e-7 {
					t.Errorf("by %g: gradient %d is %g, want %g", by, i, g, want)
				}
			}
		}
	})
}

// TestAlignment checks that rows may start anywhere and be strided, and that padding columns aren't read.
func TestAlignment(t *testing.T) {
	const n, rows = 777, 3
	r := rand.New(rand.NewPCG(8, 8))
	forPaths(t, func(t *testing.T, path string) {
		for shift := range 17 {
			st := n + 5 + shift
			z, w := make([]float32, shift+rows*st), make([]float32, shift+rows*st)
			for i := range z {
				z[i], w[i] = float32(math.NaN()), float32(math.Inf(1))
			}
			want := 0.0
			j, err := cachedJSD(Options{Beta: 0.5, Temperature: 1, Path: path})
			if err != nil {
				t.Fatal(err)
			}
			for row := range rows {
				a, b := z[shift+row*st:][:n], w[shift+row*st:][:n]
				for i := range a {
					a[i], b[i] = float32(r.NormFloat64()), float32(r.NormFloat64())
				}
				l, err := j.Run(&Batch{
					Student: F32Matrix(slices.Clone(a), 1, n),
					Teacher: F32Matrix(slices.Clone(b), 1, n),
				}, &Output{})
				if err != nil {
					t.Fatal(err)
				}
				want += l.Loss
			}
			m := func(x []float32) Matrix { return Matrix{F32: x[shift:], Rows: rows, Cols: n, Stride: st} }
			got, err := j.Run(&Batch{Student: m(z), Teacher: m(w)}, &Output{})
			if err != nil || got.Loss != want {
				t.Fatalf("offset %d: got %g, want %g (%v)", shift, got.Loss, want, err)
			}
			// The same with Vocab.
			wide := func(x []float32) Matrix { return Matrix{F32: x[shift:], Rows: rows, Cols: n + 5, Stride: st} }
			grad := make([]float32, rows*(n+5))
			got, err = j.Run(&Batch{Student: wide(z), Teacher: wide(w), Vocab: n}, &Output{Grad: grad})
			if err != nil || math.Abs(got.Loss-want) > 1e-7*want || grad[n] != 0 {
				t.Fatalf("offset %d, padded: got %g, want %g (%v)", shift, got.Loss, want, err)
			}
		}
	})
}

// TestOrderOfLogits covers rows for which the first reference is wrong, such as large entries after the first tiles,
// ramps and jumps.
func TestOrderOfLogits(t *testing.T) {
	const n = 9000
	shapes := map[string]func(i int) float32{
		"jump after 256":  func(i int) float32 { return float32(150 * min(1, i/300)) },
		"jump at the end": func(i int) float32 { return float32(150 * (i / (n - 1))) },
		"ramp up":         func(i int) float32 { return float32(i) * 0.5 },
		"ramp down":       func(i int) float32 { return float32(n-i) * 0.3 },
		"masked start":    func(i int) float32 { return []float32{negInf, -500}[min(1, i/5000)] },
		"one 1e30":        func(i int) float32 { return float32(1e30) * float32(i/(n-1)) },
		"one -1e30":       func(i int) float32 { return float32(-1e30) * float32(i/(n-1)) },
		"constant 3e38":   func(int) float32 { return 3e38 },
	}
	r := rand.New(rand.NewPCG(9, 9))
	noise := make([]float32, n)
	for i := range noise {
		noise[i] = float32(r.NormFloat64())
	}
	forPaths(t, func(t *testing.T, path string) {
		for name, f := range shapes {
			z, w := make([]float32, n), make([]float32, n)
			for i := range z {
				z[i] = f(i) + noise[i]
				w[i] = f(i) + noise[(i+1)%n]
			}
			for _, b := range []float64{0.5, 0.1, 0} {
				o := Options{Beta: b, Temperature: 1, Path: path}
				want := ReferenceJSD(widen(z), widen(w), o, nil)
				if got, _ := one(t, o, z, w); gateOf(path).far(got, want) {
					t.Errorf("%s beta %g: got %g, want %g", name, b, got, want)
				}
			}
		}
	})
}

// TestNearEqual covers the regime of self-distillation, at 1e-5 relative.
func TestNearEqual(t *testing.T) {
	const n = 32000
	forPaths(t, func(t *testing.T, path string) {
		for _, noise := range []float64{1e-1, 1e-2, 1e-3, 1e-4} {
			for _, b := range []float64{0.5, 0.1, 0, 1} {
				r := rand.New(rand.NewPCG(10, 1))
				z, w := make([]float32, n), make([]float32, n)
				for i := range z {
					z[i] = float32(r.NormFloat64() * 3)
					w[i] = z[i] + float32(r.NormFloat64()*noise)
				}
				o := Options{Beta: b, Temperature: 1, Path: path}
				want := ReferenceJSD(widen(z), widen(w), o, nil)
				got, _ := one(t, o, z, w)
				if rel := math.Abs(got/want - 1); !(rel < 1e-5) || got < 0 {
					t.Errorf("noise %g beta %g: got %g, want %g (rel %.1e)", noise, b, got, want, rel)
				}
			}
		}
	})
}

// TestSmallBetaGradient compares every path with the reference where the bend of psi is far from 0. The sides differ by
// a dozen log2 units of odds, and the gradient of the larger entry cancels.
func TestSmallBetaGradient(t *testing.T) {
	forPaths(t, func(t *testing.T, path string) {
		for _, beta := range []float64{5e-4, 0.002, 0.005, 0.01, 0.019, 0.03, 0.981, 0.998} {
			for x := float32(0.5); x < 7; x += 0.1 {
				z, w := []float32{0, x}, []float32{0, 0}
				if beta > 0.5 {
					z, w = w, z
				}
				o := Options{Beta: beta, Temperature: 0.5, Path: path}
				want := make([]float64, 2)
				ReferenceJSD(widen(z), widen(w), o, want)
				_, grad := one(t, o, z, w)
				if rel := math.Abs(float64(grad[0])/want[0] - 1); !(rel < 5e-6) {
					t.Errorf("beta %g, logit %g: gradient %g, reference %g (rel %.1e)", beta, x, grad[0], want[0], rel)
				}
			}
		}
	})
}

// TestTableFit compares the tables with psi for every beta that a path may use.
func TestTableFit(t *testing.T) {
	for _, b := range []float64{
		0, 1, 1e-4, 0.001, steepEnd, 0.005, 0.01, 0.02, 0.05, 0.1, 0.3, 0.5, 0.7, 0.9, 0.95, 0.99, 0.999, 0.9999,
	} {
		tab := newTable(b)
		worst, at := 0.0, 0.0
		for d := -40.0; d < 40; d += 0.0137 {
			i, f := segment(d / tab.h)
			want := psi(d, b)
			if e := math.Abs(tab.pieces[i].at(f)-want) / want; e > worst {
				worst, at = e, d
			}
		}
		if worst > 2e-6 {
			t.Errorf("beta %g: relative error %.1e at %.2f", b, worst, at)
		}
		worst, at = 0, 0
		for d := -60.0; d < 60; d += 0.0137 {
			i := int(math.Float32bits(float32(1+min(math.Abs(d)/signedH, 14.99)))>>22) & 7
			if d < 0 {
				i += 8
			}
			x, p, r := d/signedH-float64(tab.signed[0][i]), 0.0, 0.0
			for j := signedDegree; j >= 0; j-- {
				p, r = p*x+float64(tab.signed[1+j][i]), r*x+float64(tab.signed[2+signedDegree+j][i])
			}
			want := psi(d, b)
			e := math.Abs(p-want) / want
			if b >= steepEnd && b <= 1-steepEnd { // where the table is used for gradients
				g := rate(d, b)
				e = max(e, math.Abs(r-g)/math.Abs(g))
			}
			if e > worst {
				worst, at = e, d
			}
		}
		if worst > 2e-6 {
			t.Errorf("beta %g: relative error of the signed table or its rate %.1e at %.2f", b, worst, at)
		}
	}
}

// interpreted ends the name of a path whose assembly is interpreted.
const interpreted = ", interpreted"

// TestZeroAllocations checks calls with one and two workers, on rows that use float32 tiles and float64 tiles.
func TestZeroAllocations(t *testing.T) {
	const rows, v = 6, 2000
	z, w := make([]float32, rows*v), make([]float32, rows*v)
	for i := range z {
		z[i], w[i] = float32(i%7), float32(i%5)
	}
	b := &Batch{Student: F32Matrix(z, rows, v), Teacher: F32Matrix(w, rows, v)}
	forPaths(t, func(t *testing.T, path string) {
		if strings.HasSuffix(path, interpreted) {
			t.Skip("the interpreter allocates")
		}
		for _, workers := range []int{1, 2} {
			for _, beta := range []float64{0.5, 1e-6} {
				j, _ := NewJSD(Options{Beta: beta, Temperature: 1, Workers: workers, Path: path})
				out := &Output{RowLoss: make([]float64, rows), Grad: make([]float32, rows*v)}
				if n := testing.AllocsPerRun(20, func() {
					if _, err := j.Run(b, out); err != nil {
						t.Fatal(err)
					}
				}); n > 0 {
					t.Errorf("%d workers, beta %g: %.1f allocations", workers, beta, n)
				}
				if workers > 1 {
					continue // a worker may get its first row late, and then allocates the memory for a support
				}
				k, _ := NewTopKJSD(Options{Beta: beta, Temperature: 1, Workers: 1, Path: path}, 20, RestBucket)
				if n := testing.AllocsPerRun(20, func() {
					if _, err := k.Run(b, out); err != nil {
						t.Fatal(err)
					}
				}); n > 0 {
					t.Errorf("top k, beta %g: %.1f allocations", beta, n)
				}
			}
		}
	})
}

// TestPolicyLoss compares gradients with finite differences, and covers cases in which other implementations divide by
// zero.
func TestPolicyLoss(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 1))
	b := PolicyBatch{Offsets: []int{0, 3, 3, 8}, Advantage: []float64{1.3, 5, -0.7}, Weights: []float64{1, 1, 0.5}}
	for range 8 {
		b.LogProbs = append(b.LogProbs, -r.Float64()*3)
		b.Old = append(b.Old, -r.Float64()*3)
		b.Reference = append(b.Reference, -r.Float64()*3)
		b.Mask = append(b.Mask, r.Float64() < 0.8)
	}
	for _, red := range []PolicyReduction{PerToken, PerSequence, PerConstant} {
		o := PolicyOptions{ClipLow: 0.2, ClipHigh: 0.3, KL: 0.1, Reduction: red}
		if red == PerConstant {
			o.Denominator = 16
		}
		g := make([]float64, 8)
		if _, err := PolicyLoss(b, o, g); err != nil {
			t.Fatal(err)
		}
		for i := range g {
			const h = 1e-6
			at := func(d float64) float64 {
				c := b
				c.LogProbs = slices.Clone(b.LogProbs)
				c.LogProbs[i] += d
				st, _ := PolicyLoss(c, o, nil)
				return st.Loss
			}
			if fd := (at(h) - at(-h)) / (2 * h); math.Abs(fd-g[i]) > 1e-6 {
				t.Errorf("reduction %d token %d: %g, finite difference %g", red, i, g[i], fd)
			}
		}
	}
	none := PolicyBatch{
		LogProbs:  []float64{math.NaN()},
		Old:       []float64{0},
		Mask:      []bool{false},
		Offsets:   []int{0, 1},
		Advantage: []float64{1},
	}
	g := []float64{9}
	if st, err := PolicyLoss(none, PolicyOptions{}, g); err != nil || st.Loss != 0 || g[0] != 0 {
		t.Errorf("no active token: %+v %v %v", st, g, err)
	}
	same := PolicyBatch{
		LogProbs:  []float64{-1, -2},
		Old:       []float64{-1, -2},
		Offsets:   []int{0, 2},
		Advantage: []float64{0.5},
	}
	if st, _ := PolicyLoss(same, PolicyOptions{ClipLow: 0.2, ClipHigh: 0.2}, nil); st.Ratio != 1 || st.Loss != -0.5 ||
		st.ClipShare != 0 {
		t.Errorf("on-policy: %+v", st)
	}
}

// TestTailBound checks that coarse-graining never increases a divergence.
func TestTailBound(t *testing.T) {
	property.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(2, 60).Draw(rt, "V")
		z, w := drawRow(rt, "student", n), drawRow(rt, "teacher", n)
		o := Options{Beta: drawBeta(rt), Temperature: 1}
		full := ReferenceJSD(widen(z), widen(w), o, nil)
		j, err := NewTopKJSD(o, rapid.IntRange(1, n).Draw(rt, "k"), RestBucket)
		if err != nil {
			rt.Fatal(err)
		}
		st, err := j.Run(&Batch{Student: F32Matrix(z, 1, n), Teacher: F32Matrix(w, 1, n)}, &Output{})
		if err != nil {
			rt.Fatal(err)
		}
		if st.Loss > full*(1+1e-9)+1e-13 {
			rt.Fatalf("bucket loss %g exceeds the full one, %g", st.Loss, full)
		}
	})
}

// TestTopKPaddedTeacher checks that a teacher's columns beyond the vocabulary aren't read, as in the dense form.
func TestTopKPaddedTeacher(t *testing.T) {
	const v, wide = 600, 640
	r := rand.New(rand.NewPCG(3, 4))
	z, w, padded := make([]float32, 2*v), make([]float32, 2*v), make([]float32, 2*wide)
	normal(r, z, 1)
	normal(r, w, 1)
	for i := range padded {
		padded[i] = 12
	}
	copy(padded[:v], w[:v])
	copy(padded[wide:wide+v], w[v:])
	j, err := NewTopKJSD(Options{Beta: 0.5, Temperature: 1}, 8, RestBucket)
	if err != nil {
		t.Fatal(err)
	}
	want, err := j.Run(&Batch{Student: F32Matrix(z, 2, v), Teacher: F32Matrix(w, 2, v)}, &Output{})
	if err != nil {
		t.Fatal(err)
	}
	got, err := j.Run(&Batch{Student: F32Matrix(z, 2, v), Teacher: F32Matrix(padded, 2, wide), Vocab: v}, &Output{})
	if err != nil || got.Loss != want.Loss {
		t.Errorf("loss %g with a padded teacher, %g without padding (%v)", got.Loss, want.Loss, err)
	}
}

func ExampleJSD() {
	j, err := NewJSD(Options{Beta: 0.5, Temperature: 1, Reduction: ReduceBatchMean})
	if err != nil {
		panic(err)
	}
	student := F32Matrix([]float32{1, 2, 3, 0.5}, 1, 4)
	teacher := F32Matrix([]float32{1.5, 1, 3, 0}, 1, 4)
	grad := make([]float32, 4)
	st, err := j.Run(&Batch{Student: student, Teacher: teacher}, &Output{Grad: grad})
	if err != nil {
		panic(err)
	}
	fmt.Printf("loss %.5f, gradient %.4f\n", st.Loss, grad)
	// Output: loss 0.02203, gradient [-0.0161 0.0378 -0.0257 0.0039]
}

// TestRates compares the tables of rates with their definition, for every beta for which they are used.
func TestRates(t *testing.T) {
	for width, tab := range map[int]*rateTable{8: narrowRates, segments: wideRates} {
		rows := make([]float32, len(tab.rows))
		for _, beta := range []float64{steepEnd, 0.02, 0.1, 0.5, 0.9, 1 - steepEnd} {
			tab.plus(max(0, -bend(beta))/geometricH-sharedRate(math.Abs(bend(beta))/geometricH), rows)
			for d := -60.0; d < 60; d += 0.0137 {
				x := (d - bend(beta)) / geometricH
				size := min(math.Abs(x), 14.999)
				slot := int(math.Float32bits(float32(1+size))>>map[int]int{8: 22, segments: 20}[width]) & (width - 1)
				u := 0.0
				for at := len(rows) - width; at > 0; at -= width {
					u = u*(size-float64(rows[slot])) + float64(rows[at+slot])
				}
				student, teacher := (u-max(x, 0))*geometricH, (u+min(x, 0))*geometricH+bend(beta)
				for _, c := range []struct {
					name      string
					got, want float64
				}{
					{"student", student, rate(d, beta) / (1 - beta)}, {"teacher", teacher, rate(-d, 1-beta) / beta},
				} {
					if e := math.Abs(c.got - c.want); e > 1e-6*math.Abs(c.want)+2e-7*math.Abs(bend(beta)) {
						t.Fatalf("beta %g: the %s's rate at D = %g is %g, want %g", beta, c.name, d, c.got, c.want)
					}
				}
			}
		}
	}
}
