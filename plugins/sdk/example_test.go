package sdk_test

import (
	"context"
	"fmt"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/plugins/sdk"
	"github.com/nat-go/nat-go/ttc"
)

// Config's tags are all that is needed to describe a builder's settings.
type Config struct {
	Least float64 `yaml:"least" default:"0.5" validate:"gte=0,lte=1" doc:"lowest score of an answer to imitate"`
}

// best emits each example's answers that are good enough.
type best struct{ Config }

func (b best) Build(_ context.Context, g *ttc.Group, out builders.Output) error {
	for e, ex := range g.Examples {
		for i := range ex.Candidates {
			if ex.Candidates[i].Score < b.Least {
				continue
			}
			answer := builders.Content{Ref: builders.Ref{Part: builders.CandidateOutput, Example: e, Candidate: i}}
			if err := out.Record(&builders.Demonstration{
				Head:     builders.Head{Example: e},
				Messages: answer,
				Weight:   1,
			}); err != nil {
				return err
			}
		}
	}
	return nil
}

func plugin() sdk.Plugin {
	return sdk.Plugin{Name: "acme", Version: "1.0.0", Builders: []sdk.Factory{sdk.New(builders.Info{
		Name:      "best",
		Stability: "beta",
		Doc:       "imitate good answers",
		Kinds:     []builders.Kind{builders.KindDemonstration},
	}, func(c *Config) (builders.Builder, error) { return best{*c}, nil })}}
}

// A complete plugin: main serves it with sdk.Serve(plugin()). Settings are checked by their tags.
func Example() {
	_, found := plugin().Builders[0].Open([]byte(`{"least": 7}`))
	fmt.Println(found[0].Pointer, found[0].Message)
	// Output: /least least must be at least 0 and at most 1, got 7
}
