package main

import (
	"context"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
)

func newAll(*struct{}) (builders.Builder, error) { return all{}, nil }

// all emits a record of each kind for the first example of a group: everything a protocol must be able to carry.
type all struct{}

func (all) Build(_ context.Context, g *ttc.Group, out builders.Output) error {
	ex := g.Examples[0]
	leaves := ex.Graph.Leaves()
	span := func(leaf int) builders.Content {
		return builders.Content{Ref: builders.Ref{Part: builders.NodeSpan, Last: leaf}}
	}
	score := 0.5
	for _, r := range []builders.Record{
		&builders.Distillation{Head: builders.Head{Turn: "d", Metadata: []byte(`{"x":NaN}`)}, Messages: span(leaves[0]), Sites: []builders.Site{
			{
				Call:       1,
				CallSeq:    0,
				Result:     2,
				Target:     builders.FailedTurn,
				Tool:       "search",
				Error:      "schema",
				Hint:       "limit is a number",
				HintSource: "schema",
				HintKind:   builders.Knowable,
			},
			{
				Call:       3,
				CallSeq:    1,
				Result:     4,
				Target:     builders.NextTurn,
				Tool:       "search",
				Error:      "tool_error",
				Hint:       "a\xed\xa0\x80b",
				HintSource: "success",
				HintKind:   builders.Hindsight,
			},
		}},
		&builders.Rollout{Messages: span(leaves[len(leaves)-1]), Reward: ex.Reward, Task: ex.Task},
		&builders.State{Messages: span(leaves[0]), Task: ex.Task},
		&builders.Demonstration{
			Messages: builders.Content{Ref: builders.Ref{Part: builders.InlineMessages}, Messages: nodes(ex)},
			Train:    builders.TrainFlagged,
			Trained:  make([]bool, len(ex.Graph.Nodes)),
			Weight:   1,
			Score:    &score,
		},
		&builders.Preference{
			Prompt:   builders.Content{Text: "p"},
			Chosen:   builders.Content{Text: "c"},
			Rejected: builders.Content{Text: "r"},
			Reward:   1,
		},
	} {
		if err := out.Record(r); err != nil {
			return err
		}
	}
	return nil
}

func nodes(ex *ttc.Example) (out []chat.Message) {
	for _, n := range ex.Graph.Nodes {
		out = append(out, n.Message)
	}
	return out
}
