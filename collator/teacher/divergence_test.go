package teacher

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/nat-go/nat-go/kernels"
)

// oddRows returns two rows of logits for each way in which rows can be odd.
func oddRows(rng *rand.Rand, v int) map[string][2][]float64 {
	row := func(scale float64) []float64 {
		x := make([]float64, v)
		for i := range x {
			x[i] = float64(float32(rng.NormFloat64() * scale))
		}
		return x
	}
	masked := func(x []float64, every int) []float64 {
		x = slices.Clone(x)
		for i := 1; i < len(x); i += every { // the target, which is entry 0, stays
			x[i] = math.Inf(-1)
		}
		return x
	}
	late := row(1) // the largest entry is among the last, far above what the first ones suggest
	late[v-1] = 200
	s, equal := row(3), make([]float64, v)
	return map[string][2][]float64{
		"independent":          {s, row(3)},
		"the same":             {s, s},
		"all equal":            {equal, equal},
		"one side all equal":   {equal, s},
		"masked alike":         {masked(s, 3), masked(row(3), 3)},
		"masked on one side":   {masked(s, 2), row(3)},
		"masked but the first": {masked(s, 1), masked(row(3), 1)},
		"peaked late":          {late, s},
	}
}

// TestOddRows checks that, whatever the vocabulary's size and the logits, the kernel's divergence and the target's
// log-probs match those in float64, and that the bracket from the best tokens contains the divergence.
func TestOddRows(t *testing.T) {
	o := kernels.Options{Beta: 0.5, Temperature: 1}
	for _, v := range []int{1, 2, 15, 17, 127, 129, 255, 1000, 4097, 8209, 33001} {
		for name, sides := range oddRows(rand.New(rand.NewPCG(1, uint64(v))), v) {
			t.Run(fmt.Sprint(v, " ", name), func(t *testing.T) {
				var rows [2][]float32
				for i, side := range sides {
					for _, x := range side {
						rows[i] = append(rows[i], float32(x))
					}
				}
				d, p := newDivergence(1), &Pairs{Target: []int64{0}}
				bad, err := newDivergences(t, o).run(d, p, []int{0},
					kernels.F32Matrix(rows[0], 1, v), kernels.F32Matrix(rows[1], 1, v))
				if err != nil || bad >= 0 {
					t.Fatal(bad, err)
				}
				want := kernels.ReferenceJSD(sides[0], sides[1], o, nil)
				if math.Abs(d.Token[0]-want) > 1e-6*want+1e-11 {
					t.Errorf("got %g, want %g", d.Token[0], want)
				}
				student, teacher := mostProbable(sides[0], 20), mostProbable(sides[1], 20)
				if lower, upper := bracket(student, teacher); !(lower <= want && want <= upper) {
					t.Errorf("%g is outside [%g, %g]", want, lower, upper)
				}
				for i, got := range []float64{d.Student[0], d.Teacher[0]} {
					want := max(floor, sides[i][0]-logSumExp(sides[i]))
					if math.Abs(got-want) > 1e-5 {
						t.Errorf("side %d: log-prob of the target %g, want %g", i, got, want)
					}
				}
			})
		}
	}
}

// TestRowsWithoutSoftmax checks that such rows are reported, the first of them by its number, and that nothing is
// entered.
func TestRowsWithoutSoftmax(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	for name, row := range map[string][]float32{
		"NaN": {0, nan, 1}, "+Inf": {0, inf, 1}, "-Inf throughout": {-inf, -inf, -inf},
	} {
		for _, side := range []string{"student", "teacher"} {
			t.Run(name+" of the "+side, func(t *testing.T) {
				good := []float32{1, 2, 3, 4, 5, 6, 7, 8, 9}
				spoiled := append(slices.Clone(good[:6]), row...)
				student, teacher := kernels.F32Matrix(spoiled, 3, 3), kernels.F32Matrix(good, 3, 3)
				if side == "teacher" {
					student, teacher = teacher, student
				}
				d, p := newDivergence(3), &Pairs{Target: []int64{0, 1, 2}}
				bad, err := newDivergences(t, kernels.Options{Beta: 0.5, Temperature: 1}).
					run(d, p, []int{0, 1, 2}, student, teacher)
				if bad != 2 || err != nil {
					t.Errorf("row %d, %v; want row 2", bad, err)
				}
				if !math.IsNaN(d.Token[0]) {
					t.Errorf("%g was entered", d.Token[0])
				}
			})
		}
	}
}

func newDivergences(t *testing.T, o kernels.Options) *divergences {
	t.Helper()
	jsd, err := kernels.NewJSD(o)
	if err != nil {
		t.Fatal(err)
	}
	return &divergences{jsd: jsd}
}

func logSumExp(logits []float64) float64 {
	top, sum := slices.Max(logits), 0.0
	for _, x := range logits {
		sum += math.Exp(x - top)
	}
	return top + math.Log(sum)
}

// mostProbable returns the k most probable tokens.
func mostProbable(logits []float64, k int) []Entry {
	lse := logSumExp(logits)
	var all []Entry
	for id, x := range logits {
		if !math.IsInf(x, -1) {
			all = append(all, Entry{int32(id), float32(x - lse)})
		}
	}
	slices.SortStableFunc(all, func(a, b Entry) int { return cmp.Compare(b.LogProb, a.LogProb) })
	return all[:min(k, len(all))]
}
