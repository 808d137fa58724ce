package grpo

import (
	"testing"

	"github.com/nat-go/nat-go/builders/schema"
	"github.com/nat-go/nat-go/ttc"
)

func TestLabels(t *testing.T) {
	two := 2.0
	graded, binary := new(ttc.Scales), new(ttc.Scales)
	for _, v := range []float64{0, 0.5, 9} {
		graded.Rewards.Add(v)
	}
	for _, v := range []float64{0, 1} {
		binary.Rewards.Add(v)
	}
	for name, c := range map[string]struct {
		rewards  []float64
		scales   *ttc.Scales
		goodFrom *float64
		want     string
	}{
		"above the mean":                      {[]float64{1, 2, 6}, nil, nil, "--+"},
		"all alike":                           {[]float64{3, 3}, nil, nil, "??"},
		"zero and one":                        {[]float64{0, 1}, nil, nil, "-+"},
		"all failed":                          {[]float64{0, 0}, binary, nil, "--"},
		"all succeeded":                       {[]float64{1, 1}, binary, nil, "++"},
		"zero and one, but others are graded": {[]float64{0, 1}, graded, nil, "-+"},
		"alike, and others are graded":        {[]float64{1, 1}, graded, nil, "??"},
		"as configured":                       {[]float64{1, 2, 6}, nil, &two, "-++"},
		"alike, as configured":                {[]float64{3, 3}, nil, &two, "++"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := schema.New[Config]()
			cfg.GoodFrom = c.goodFrom
			b, err := New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			g := &ttc.Group{Scales: c.scales, Examples: []*ttc.Example{{ID: "unscored"}}}
			for i := range c.rewards {
				g.Examples = append(g.Examples, &ttc.Example{Reward: &c.rewards[i]})
			}
			label := b.labels(g)
			got := ""
			for _, ex := range g.Examples[1:] {
				switch good, known := label(ex); {
				case !known:
					got += "?"
				case good:
					got += "+"
				default:
					got += "-"
				}
			}
			if _, known := label(g.Examples[0]); got != c.want || known {
				t.Errorf("got %s, want %s; unscored: %v", got, c.want, known)
			}
		})
	}
}
