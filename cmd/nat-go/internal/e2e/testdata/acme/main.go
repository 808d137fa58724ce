// Command acme is a third party's plugin for the scripts, which find it on PATH under the name nat-go-builder-acme.
package main

import (
	"context"
	"errors"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/plugins/sdk"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/ledger"
)

func main() {
	sdk.Serve(sdk.Plugin{Name: "acme", Version: "1.2.0", Builders: []sdk.Factory{
		sdk.New(builders.Info{
			Name: "curriculum", Stability: "beta",
			Doc:   "the best candidate of each turn against the worst",
			Kinds: []builders.Kind{builders.KindPreference},
		}, func(c *acmeConfig) (builders.Builder, error) {
			if c.Order == "hard" && c.Margin > 1 {
				return nil, errors.New("order hard and a margin over 1 leave nothing")
			}
			return curriculum{*c}, nil
		}),
	}})
}

type acmeConfig struct {
	Margin float64 `yaml:"margin" default:"0.1" validate:"gte=0,lte=2" doc:"smallest score difference"`
	Order  string  `yaml:"order" default:"easy" validate:"oneof=easy hard" doc:"which pairs come first"`
}

type curriculum struct{ acmeConfig }

func (b curriculum) Build(_ context.Context, g *ttc.Group, out builders.Output) error {
	for e, ex := range g.Examples {
		if len(ex.Candidates) > 0 && ex.Candidates[0].Output == "panic" {
			panic("a bug in acme")
		}
		best, worst := 0, 0
		for i := range ex.Candidates {
			if ex.Candidates[i].Score > ex.Candidates[best].Score {
				best = i
			}
			if ex.Candidates[i].Score < ex.Candidates[worst].Score {
				worst = i
			}
		}
		if best == worst || ex.Candidates[best].Score-ex.Candidates[worst].Score < b.Margin {
			if err := out.Drop(ledger.Drop{
				Reason: "too_close", Unit: "example", Example: ex.ID, Run: ex.Run, Index: -1,
			}); err != nil {
				return err
			}
			continue
		}
		c, r := &ex.Candidates[best], &ex.Candidates[worst]
		ref := func(p builders.Part, i int) builders.Content {
			return builders.Content{Ref: builders.Ref{Part: p, Example: e, Candidate: i}}
		}
		if err := out.Record(&builders.Preference{
			Head:   builders.Head{Example: e, Turn: c.Turn},
			Prompt: ref(builders.CandidatePrompt, best), Chosen: ref(builders.CandidateOutput, best),
			Rejected: ref(builders.CandidateOutput, worst), Reward: c.Score - r.Score,
			ChosenScore: c.Score, RejectedScore: r.Score, ChosenIndex: c.Index, RejectedIndex: r.Index,
		}); err != nil {
			return err
		}
	}
	return nil
}
