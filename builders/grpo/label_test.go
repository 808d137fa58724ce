package grpo

import (
	"testing"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/builders/schema"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// marks holds a character for each record: + for a good rollout, - for a bad one, ? for one without a label.
type marks string

func (m *marks) Record(r builders.Record) error {
	of := map[string]marks{"": "?", `{"label": true}`: "+", `{"label": false}`: "-"}
	*m += of[string(r.Header().Metadata)]
	return nil
}
func (m *marks) Drop(ledger.Drop) error    { return nil }
func (m *marks) Count(string, int64) error { return nil }

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
			g := &ttc.Group{Scales: c.scales, Examples: []*ttc.Example{rollout("unscored", nil)}}
			for i := range c.rewards {
				g.Examples = append(g.Examples, rollout("scored", &c.rewards[i]))
			}
			var got marks
			if err := b.Build(t.Context(), g, &got); err != nil {
				t.Fatal(err)
			}
			if want := "?" + c.want; string(got) != want {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}
