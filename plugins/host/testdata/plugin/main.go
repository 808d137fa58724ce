// Command plugin is a plugin for the host's tests: a well-behaved builder, and many that are not.
package main

import (
	"context"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/plugins/sdk"
	"github.com/nat-go/nat-go/ttc"
)

func main() {
	sdk.Serve(sdk.Plugin{Name: "test", Version: "1.0.0", Builders: []sdk.Factory{
		sdk.New(builders.Info{Name: "pairs", Stability: "stable", Kinds: []builders.Kind{builders.KindPreference}}, newPairs),
	}})
}

type config struct{}

func newPairs(*config) (builders.Builder, error) { return pairs{}, nil }

// pairs pairs each candidate with the next.
type pairs struct{}

func (pairs) Build(_ context.Context, g *ttc.Group, out builders.Output) error {
	for e, ex := range g.Examples {
		for i := 0; i+1 < len(ex.Candidates); i++ {
			a, b := &ex.Candidates[i], &ex.Candidates[i+1]
			ref := func(p builders.Part, i int) builders.Content {
				return builders.Content{Ref: builders.Ref{Part: p, Example: e, Candidate: i}}
			}
			if err := out.Record(&builders.Preference{
				Head: builders.Head{Example: e, Turn: a.Turn, Metadata: []byte(`{"pair":true}`)}, Prompt: ref(builders.CandidatePrompt, i),
				Chosen: ref(builders.CandidateOutput, i), Rejected: ref(builders.CandidateOutput, i+1), Reward: a.Score - b.Score,
				ScoreName: a.Step, ChosenScore: a.Score, RejectedScore: b.Score, ChosenIndex: a.Index, RejectedIndex: b.Index,
			}); err != nil {
				return err
			}
		}
	}
	return out.Count("groups", 1)
}
