package kernels

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestTopK compares the k largest entries with a sort, on rows with many ties and masked entries.
func TestTopK(t *testing.T) {
	forPaths(t, func(t *testing.T, path string) {
		p, err := findPath(path)
		if err != nil {
			t.Fatal(err)
		}
		w := newWorker(p)
		r := rand.New(rand.NewPCG(5, 5))
		for range 300 {
			n := []int{1, 127, 128, 129, 1000, 4999}[r.IntN(6)]
			levels := []float64{0, 3, 1e6}[r.IntN(3)]
			x := make([]float64, n)
			for i := range x {
				x[i] = math.Round(r.NormFloat64()*levels) / 4
				if r.IntN(9) == 0 {
					x[i] = math.Inf(-1)
				}
			}
			m, x := rounded(x, []DType{Float32, BFloat16, Float16}[r.IntN(3)], r)
			k := min(n, 1+r.IntN(130))
			want := make([]int32, n)
			for i := range want {
				want[i] = int32(i)
			}
			slices.SortStableFunc(want, func(a, b int32) int { return cmp.Compare(x[b], x[a]) })
			slices.Sort(want[:k])
			if got := w.topK(&m, 0, k); !slices.Equal(got, want[:k]) {
				t.Fatalf("V %d k %d: %v, want %v", n, k, got, want[:k])
			}
		}
	})
}

// TestSplit compares a row's log-probabilities on a support and outside it with their definition, because the gradient
// depends on them.
func TestSplit(t *testing.T) {
	forPaths(t, func(t *testing.T, path string) {
		p, err := findPath(path)
		if err != nil {
			t.Fatal(err)
		}
		w, worst := newWorker(p), 0.0
		r := rand.New(rand.NewPCG(6, 6))
		for range 400 {
			n := []int{2, 128, 300, 1000, 9000}[r.IntN(5)]
			x := make([]float64, n)
			fill(r, x, []float64{0.1, 3, 10}[r.IntN(3)], []float64{0, 40, -800}[r.IntN(3)])
			for range r.IntN(4) { // entries with nearly all of the probability, or none
				x[r.IntN(n)] += []float64{20, 60, 300, math.Inf(-1)}[r.IntN(4)]
			}
			m, _ := rounded(x, []DType{Float32, BFloat16, Float16}[r.IntN(3)], r)
			k := min(n-1, 1+r.IntN(40))
			ids := w.topK(&m, 0, k)
			if r.IntN(2) == 0 {
				for i := range ids {
					ids[i] = int32((i*7 + 3) % n)
				}
				slices.Sort(ids)
				ids = slices.Compact(ids)
			}
			w.bucket.ids = ids
			tau := []float64{1, 0.7, 2}[r.IntN(3)]
			var gotOf, wantOf masses
			gotOf.resize(len(ids))
			wantOf.resize(len(ids))
			var fast, exact split
			a := w.split(&m, 0, tau, nil, true, false, &gotOf, &fast)
			b := w.splitExactly(&m, 0, tau, false, &wantOf, &exact)
			got, want := gotOf.log, wantOf.log
			if a != b {
				t.Fatalf("V %d k %d: has a softmax: %v, want %v", n, k, a, b)
			}
			if !b { // all entries are masked
				continue
			}
			worst = max(worst, math.Abs(fast.lse-exact.lse))
			near := func(a, b float64) bool { return a == b || math.Abs(a-b) <= 3e-6 }
			if !near(fast.rest, exact.rest) || !near(fast.lse, exact.lse) {
				t.Fatalf("V %d k %d: rest %g, lse %g, want %g, %g", n, k, fast.rest, fast.lse, exact.rest, exact.lse)
			}
			for i := range got {
				if !near(got[i], want[i]) {
					t.Fatalf("V %d k %d: log-probability %d is %g, want %g", n, k, i, got[i], want[i])
				}
			}
		}
		t.Logf("largest error of a normaliser: %.1e", worst)
	})
}

// TestSplitNearHalf checks that subtracting an entry with a large share of a short row loses little accuracy in the
// rest.
func TestSplitNearHalf(t *testing.T) {
	const n = 3000
	forPaths(t, func(t *testing.T, path string) {
		p, err := findPath(path)
		if err != nil {
			t.Fatal(err)
		}
		w, r, worst := newWorker(p), rand.New(rand.NewPCG(5, 6)), 0.0
		for range 300 {
			z := make([]float32, n)
			normal(r, z, 2)
			z[17] = float32(7 + 5*r.Float64()) // from 5 % to 90 %
			m := F32Matrix(z, 1, n)
			w.bucket.ids = []int32{17}
			for _, keep := range []bool{false, true} {
				var of masses
				of.resize(1)
				var fast, exact split
				if !w.split(&m, 0, 1, nil, keep, false, &of, &fast) || !w.splitExactly(&m, 0, 1, false, &of, &exact) {
					t.Fatal("the row has no softmax")
				}
				worst = max(worst, math.Abs(fast.rest-exact.rest))
			}
		}
		t.Logf("largest error: %.2g", worst)
		if worst > 1e-7 {
			t.Errorf("the rest's logarithm is off by %.2g", worst)
		}
	})
}
