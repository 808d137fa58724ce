package ttc_test

import (
	"math"
	"strconv"
	"testing"

	"github.com/nat-go/nat-go/ttc"
)

func TestScales(t *testing.T) {
	score := func(v float64) *float64 { return &v }
	var s ttc.Scales
	s.Add(&ttc.Example{Reward: score(1)})
	s.Add(&ttc.Example{Reward: score(math.NaN())})
	s.Add(&ttc.Example{Candidates: []ttc.Candidate{
		{Step: "a", Score: 3}, {Step: "a", Score: 7}, {Step: "a", Score: -9, ScoreError: "failed"}, {
			Step:  "b",
			Score: math.Inf(-1),
		},
	}})
	var o ttc.Scales
	o.Add(&ttc.Example{Reward: score(1), Candidates: []ttc.Candidate{{Step: "a", Score: 2}, {Step: "b", Score: 4}}})
	s.Merge(o)
	for name, c := range map[string]struct {
		scale ttc.Scale
		lower bool
		worst float64
		ok    bool
	}{
		"zero, although every score is one": {s.Rewards, false, 0, true},
		"the lowest":                        {s.Steps["a"], false, 2, true},
		"the highest":                       {s.Steps["a"], true, 7, true},
		"the only one":                      {s.Steps["b"], false, 0, false},
		"none":                              {ttc.Scale{}, false, 0, false},
	} {
		if worst, ok := c.scale.Worst(c.lower); ok != c.ok || ok && worst != c.worst {
			t.Errorf("%s: got %v, %v", name, worst, ok)
		}
	}
	for i := range 1000 {
		s.Add(&ttc.Example{Candidates: []ttc.Candidate{{Step: strconv.Itoa(i), Score: 1}}})
	}
	if n := len(s.Steps); n > 100 {
		t.Errorf("%d scales are held", n)
	}
}
