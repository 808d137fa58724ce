package teacher

import (
	"cmp"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/nat-go/nat-go/internal/property"
	"github.com/nat-go/nat-go/kernels"
)

// TestBracket checks that the divergence of two full distributions is between the bounds given by their k best
// tokens.
func TestBracket(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		v := rapid.IntRange(2, 60).Draw(t, "vocabulary")
		k := rapid.IntRange(1, v).Draw(t, "k")
		scale := rapid.SampledFrom([]float64{0.01, 1, 8, 40}).Draw(t, "scale")
		draw := rapid.SliceOfN(rapid.Float64Range(-scale, scale), v, v)
		student, teacher := draw.Draw(t, "student"), draw.Draw(t, "teacher")
		if rapid.Bool().Draw(t, "near") { // a hint that changes little
			for i := range teacher {
				teacher[i] = student[i] + teacher[i]/100
			}
		}
		token := int32(rapid.IntRange(0, v-1).Draw(t, "token"))
		top := func(logits []float64) []Entry {
			lse := 0.0
			for _, x := range logits {
				lse += math.Exp(x)
			}
			lse = math.Log(lse)
			var all []Entry
			for id, x := range logits {
				all = append(all, Entry{int32(id), float32(x - lse)})
			}
			actual := all[token].LogProb
			slices.SortStableFunc(all, func(a, b Entry) int { return cmp.Compare(b.LogProb, a.LogProb) })
			s := Scores{Top: [][]Entry{all[:k]}, Token: []float32{actual}}
			return s.known(0, token)
		}
		want := kernels.ReferenceJSD(student, teacher, kernels.Options{Beta: 0.5, Temperature: 1}, nil)
		lower, upper := bracket(top(student), top(teacher))
		if !(lower <= want && want <= upper) || lower < 0 || upper > math.Ln2 {
			t.Fatalf("JSD %g is outside [%g, %g] of %d of %d", want, lower, upper, k, v)
		}
		if k == v && upper-lower > 4*rounding {
			t.Fatalf("all is known, and the bracket is [%g, %g]", lower, upper)
		}
	})
}
