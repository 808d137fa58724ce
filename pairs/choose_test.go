package pairs

import (
	"fmt"
	"math"
	"math/rand"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/nat-go/nat-go/internal/property"
	"github.com/nat-go/nat-go/ttc/ledger"
)

func show(ps []Pair) string {
	s := ""
	for _, p := range ps {
		s += fmt.Sprintf("%d>%d ", p.Chosen, p.Rejected)
	}
	return s
}

// TestNoNumber checks that NaN neither wins a pair nor is a minimum that a score reaches.
func TestNoNumber(t *testing.T) {
	nan, low := math.NaN(), 0.1
	for _, c := range []struct {
		least  float64
		scores []float64
	}{{nan, []float64{0.9, 0.2}}, {low, []float64{nan, nan}}} {
		r := NewChooser(Config{Strategy: Exhaustive, MinChosen: &c.least}).Choose(c.scores, nil)
		if len(r.Pairs) > 0 || r.Left.BelowMinChosen == 0 {
			t.Errorf("minimum %v, scores %v: %s%+v", c.least, c.scores, show(r.Pairs), r.Left)
		}
	}
}

func TestStrategies(t *testing.T) {
	half, low := 0.5, 0.3
	scores := []float64{0.2, 0.9, 0.5, 0.5, 0.1}
	cases := []struct {
		name string
		cfg  Config
		want string
		why  map[int]ledger.Reason // of candidates in no pair
		left Left
	}{
		{"exhaustive", Config{Strategy: Exhaustive}, "1>4 1>0 1>2 1>3 2>4 3>4 2>0 3>0 0>4 ", nil, Left{Tie: 1}},
		{
			"limit",
			Config{Strategy: Exhaustive, MaxPairs: 3},
			"1>4 1>0 1>2 ",
			map[int]ledger.Reason{3: NotChosen},
			Left{Tie: 1, NotChosen: 6},
		},
		{
			"margin",
			Config{Strategy: Exhaustive, MinMargin: 0.4},
			"1>4 1>0 1>2 1>3 2>4 3>4 ",
			nil,
			Left{Tie: 1, BelowMargin: 3},
		},
		{
			"wide margin",
			Config{Strategy: Exhaustive, MinMargin: 0.7},
			"1>4 1>0 ",
			map[int]ledger.Reason{2: BelowMargin, 3: BelowMargin},
			Left{Tie: 1, BelowMargin: 7},
		},
		{
			"min chosen",
			Config{Strategy: Exhaustive, MinChosen: &half},
			"1>4 1>0 1>2 1>3 2>4 3>4 2>0 3>0 ",
			nil,
			Left{Tie: 1, BelowMinChosen: 1},
		},
		{
			"best vs worst",
			Config{Strategy: BestVsWorst},
			"1>4 ",
			map[int]ledger.Reason{0: NotChosen, 2: NotChosen, 3: NotChosen},
			Left{Tie: 1, NotChosen: 8},
		},
		{"adjacent", Config{Strategy: Adjacent}, "1>2 2>0 3>0 0>4 ", nil, Left{Tie: 1, NotChosen: 5}},
		{
			"adjacent with margin",
			Config{Strategy: Adjacent, MinMargin: 0.35},
			"1>2 ",
			map[int]ledger.Reason{0: NotChosen, 3: NotChosen, 4: NotChosen},
			Left{Tie: 1, BelowMargin: 3, NotChosen: 5},
		},
		{"best vs rest", Config{Strategy: BestVsRest}, "1>4 1>0 1>2 1>3 ", nil, Left{Tie: 1, NotChosen: 5}},
		{
			"threshold",
			Config{Strategy: Threshold, Threshold: 0.5},
			"1>4 1>0 2>4 3>4 2>0 3>0 ",
			nil,
			Left{Tie: 1, NotChosen: 3},
		},
		{
			"threshold limit",
			Config{Strategy: Threshold, Threshold: 0.5, MaxPairs: 3},
			"1>4 1>0 2>4 ",
			map[int]ledger.Reason{3: NotChosen},
			Left{Tie: 1, NotChosen: 6},
		},
		{
			"lower is better",
			Config{Strategy: BestVsWorst, LowerIsBetter: true},
			"4>1 ",
			map[int]ledger.Reason{0: NotChosen, 2: NotChosen, 3: NotChosen},
			Left{Tie: 1, NotChosen: 8},
		},
		{
			"lower min chosen",
			Config{Strategy: Exhaustive, LowerIsBetter: true, MinChosen: &low, MinMargin: 0.4},
			"4>1 0>1 4>2 4>3 ",
			nil,
			Left{Tie: 1, BelowMargin: 3, BelowMinChosen: 2},
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := NewChooser(c.cfg).Choose(scores, nil)
			why := map[int]ledger.Reason{}
			for i, reason := range r.Why {
				if reason != "" {
					why[i] = reason
				}
			}
			diff := cmp.Diff(c.why, why, cmpopts.EquateEmpty())
			if show(r.Pairs) != c.want || diff != "" || r.Left != c.left {
				t.Errorf("got  %s %+v\nwant %s %+v\n%s", show(r.Pairs), r.Left, c.want, c.left, diff)
			}
		})
	}
}

func TestReasons(t *testing.T) {
	high := 0.9
	cases := []struct {
		name   string
		cfg    Config
		scores []float64
		want   ledger.Reason
	}{
		{"all tied", Config{Strategy: Exhaustive}, []float64{1, 1, 1}, Tie},
		{"too close", Config{Strategy: Exhaustive, MinMargin: 0.5}, []float64{1, 0.8}, BelowMargin},
		{"no winner", Config{Strategy: Exhaustive, MinChosen: &high}, []float64{0.8, 0.2}, BelowMinChosen},
		{"one", Config{Strategy: Exhaustive}, []float64{0.8}, Tie},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := NewChooser(c.cfg).Choose(c.scores, nil)
			if len(r.Pairs) > 0 || slices.ContainsFunc(r.Why, func(w ledger.Reason) bool { return w != c.want }) {
				t.Errorf("%s: %v %v", c.name, r.Pairs, r.Why)
			}
		})
	}
}

// naive is the specification: it considers every pair.
func naive(cfg Config, scores []float64, keys []uint64) []Pair {
	var rank []int
	for i := range scores {
		rank = append(rank, i)
	}
	better := func(a, b int) bool { return scores[a] > scores[b] }
	if cfg.LowerIsBetter {
		better = func(a, b int) bool { return scores[a] < scores[b] }
	}
	slices.SortStableFunc(rank, func(a, b int) int {
		if better(a, b) {
			return -1
		}
		if better(b, a) {
			return 1
		}
		return 0
	})
	var out []Pair
	for a := range rank {
		for b := a + 1; b < len(rank); b++ {
			i, j := rank[a], rank[b]
			m := scores[i] - scores[j]
			if cfg.LowerIsBetter {
				m = -scores[i] + scores[j]
			}
			good := m > 0 && m >= cfg.MinMargin
			if cfg.MinChosen != nil {
				good = good && (scores[i] == *cfg.MinChosen || (scores[i] > *cfg.MinChosen) != cfg.LowerIsBetter)
			}
			switch cfg.Strategy {
			case BestVsWorst:
				good = good && a == 0 && b == len(rank)-1
			case BestVsRest:
				good = good && a == 0
			case Adjacent:
				next := a + 1
				for next < len(rank) && scores[rank[next]] == scores[i] {
					next++
				}
				good = good && b == next
			case Threshold:
				above := func(k int) bool {
					return scores[k] == cfg.Threshold || (scores[k] > cfg.Threshold) != cfg.LowerIsBetter
				}
				good = good && above(i) && !above(j)
			}
			if good {
				out = append(out, Pair{i, j, m})
			}
		}
	}
	slices.SortStableFunc(out, func(a, b Pair) int {
		if a.Margin > b.Margin {
			return -1
		}
		if a.Margin < b.Margin {
			return 1
		}
		return 0
	})
	if cfg.MaxPairs > 0 && len(out) > cfg.MaxPairs {
		out = out[:cfg.MaxPairs]
	}
	return out
}

func TestChooseIsTheNaiveChoice(t *testing.T) {
	c := rapid.Custom(func(t *rapid.T) Config {
		cfg := Config{
			Strategy: rapid.SampledFrom([]Strategy{Exhaustive, BestVsWorst, Adjacent, BestVsRest, Threshold}).
				Draw(t, "strategy"),
			LowerIsBetter: rapid.Bool().Draw(t, "lower"),
			MinMargin:     rapid.SampledFrom([]float64{0, 0.1, 0.2, 0.5}).Draw(t, "margin"),
			Threshold:     rapid.SampledFrom([]float64{0.3, 0.5}).Draw(t, "threshold"),
			MaxPairs:      rapid.IntRange(0, 8).Draw(t, "max"),
		}
		if rapid.Bool().Draw(t, "has min chosen") {
			m := rapid.SampledFrom([]float64{0.2, 0.5, 0.7}).Draw(t, "min chosen")
			cfg.MinChosen = &m
		}
		return cfg
	})
	chooser := NewChooser(Config{})
	property.Check(t, func(t *rapid.T) {
		cfg := c.Draw(t, "config")
		scores := rapid.SliceOfN(rapid.OneOf(rapid.Map(rapid.IntRange(0, 10),
			func(n int) float64 { return float64(n) / 10 }), rapid.Float64Range(0, 1)), 1, 14).
			Draw(t, "scores")
		chooser.cfg = cfg
		r := chooser.Choose(scores, nil)
		if want := naive(cfg, scores, nil); show(r.Pairs) != show(want) {
			t.Fatalf("%+v %v\ngot  %s\nwant %s", cfg, scores, show(r.Pairs), show(want))
		}
		if r.Possible != int64(len(r.Pairs))+r.Left.Total() || r.Left.NotChosen < 0 {
			t.Fatalf("the pairs don't balance: %+v", r)
		}
		used := map[int]bool{}
		for _, p := range r.Pairs {
			used[p.Chosen], used[p.Rejected] = true, true
		}
		for i, why := range r.Why {
			if used[i] != (why == "") {
				t.Fatalf("candidate %d: used %v, why %q", i, used[i], why)
			}
		}
	})
}

func TestRandomKDoesNotDependOnOrder(t *testing.T) {
	scores := []float64{0.9, 0.1, 0.4, 0.7, 0.3, 0.6, 0.2}
	keys := []uint64{11, 22, 33, 44, 55, 66, 77}
	draw := func(seed uint64, order []int) string {
		var s []float64
		var k []uint64
		for _, i := range order {
			s, k = append(s, scores[i]), append(k, keys[i])
		}
		r := NewChooser(Config{Strategy: RandomK, K: 5, Seed: seed}).Choose(s, k)
		out := ""
		for _, p := range r.Pairs {
			out += fmt.Sprintf("%d>%d ", k[p.Chosen], k[p.Rejected])
		}
		return out
	}
	order := []int{0, 1, 2, 3, 4, 5, 6}
	want := draw(1, order)
	if len(want) != 5*6 {
		t.Fatal(want)
	}
	others := 0
	for seed := range uint64(20) {
		rand.New(rand.NewSource(int64(seed))).
			Shuffle(len(order), func(a, b int) { order[a], order[b] = order[b], order[a] })
		if got := draw(1, order); got != want {
			t.Errorf("order %v: got %s, want %s", order, got, want)
		}
		if draw(seed, order) != want {
			others++
		}
	}
	if others < 15 {
		t.Error("the seed changes nothing")
	}
	if r := NewChooser(Config{Strategy: RandomK, K: 100}).Choose(scores, keys); len(r.Pairs) != 21 {
		t.Error(len(r.Pairs))
	}
}

func BenchmarkTop5Of2000(b *testing.B) {
	r := rand.New(rand.NewSource(1))
	scores := make([]float64, 2000)
	for i := range scores {
		scores[i] = r.Float64()
	}
	c := NewChooser(Config{Strategy: Exhaustive, MaxPairs: 5})
	b.ReportAllocs()
	for b.Loop() {
		c.Choose(scores, nil)
	}
}

func BenchmarkExhaustiveOf8(b *testing.B) {
	scores := []float64{0.3, 0.1, 0.9, 0.4, 0.5, 0.8, 0.2, 0.7}
	c := NewChooser(Config{Strategy: Exhaustive})
	b.ReportAllocs()
	for b.Loop() {
		c.Choose(scores, nil)
	}
}

// TestCheck: a turn whose pairs can't all be made is refused before any are made.
func TestCheck(t *testing.T) {
	for _, c := range []struct {
		cfg  Config
		n    int
		fine bool
	}{
		{Config{}, 447, true},
		{Config{}, 448, false},
		{Config{Strategy: Exhaustive}, 180_000, false},
		{Config{Strategy: Exhaustive, MaxPairs: 10}, 180_000, true},
		{Config{Strategy: Threshold}, 180_000, false},
		{Config{Strategy: BestVsRest}, 180_000, true},
		{Config{Strategy: RandomK, K: 4}, 30_000, true},
		{Config{Strategy: RandomK, K: 4}, 180_000, false},
	} {
		t.Run(fmt.Sprintf("%+v of %d", c.cfg, c.n), func(t *testing.T) {
			if err := c.cfg.Check(c.n); (err == nil) != c.fine {
				t.Errorf("%+v of %d candidates: %v", c.cfg, c.n, err)
			}
		})
	}
}
