package natcompat

import (
	"bufio"
	"fmt"
	"math"
	"math/rand"
	"os"
	"testing"
)

// values repeats the generator in testdata/make_sort.py.
func values(n, kind int) []float64 {
	x := uint64(n*31 + kind)
	out := make([]float64, n)
	for i := range out {
		x = x*6364136223846793005 + 1442695040888963407
		u := int((x >> 33) % 1000)
		nanBelow := func(limit int, v float64) float64 {
			if u < limit {
				return math.NaN()
			}
			return v
		}
		switch kind {
		case 0:
			out[i] = float64(u / 10)
		case 1:
			out[i] = nanBelow(100, float64(u%10))
		case 2:
			out[i] = nanBelow(500, float64(i))
		case 3:
			out[i] = nanBelow(30, float64(-i))
		case 4:
			out[i] = nanBelow(20, float64(i%(n/2+1)))
		case 5:
			out[i] = []float64{math.NaN(), math.Inf(1), math.Inf(-1), 0, 1}[u%5]
		case 6:
			out[i] = float64(i + u%3)
		}
	}
	return out
}

func TestSortIsCPythons(t *testing.T) {
	f, err := os.Open("testdata/sort.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	seen := 0
	for lines.Scan() {
		var n, kind int
		var want uint64
		if _, err := fmt.Sscan(lines.Text(), &n, &kind, &want); err != nil {
			t.Fatal(err)
		}
		keys, order := values(n, kind), make([]int32, n)
		for i := range order {
			order[i] = int32(i)
		}
		sortReversed(keys, order)
		h := uint64(14695981039346656037)
		for _, k := range order {
			h = (h ^ uint64(k)) * 1099511628211
		}
		if h != want {
			t.Errorf("%d values of kind %d: the order is not CPython's", n, kind)
		}
		seen++
	}
	if seen < 100 {
		t.Errorf("only %d lists", seen)
	}
}

func BenchmarkSortHalfAMillion(b *testing.B) {
	r := rand.New(rand.NewSource(1))
	keys, order := make([]float64, 499_500), make([]int32, 499_500)
	for b.Loop() {
		for i := range keys {
			keys[i], order[i] = r.Float64(), int32(i)
		}
		sortReversed(keys, order)
	}
}
