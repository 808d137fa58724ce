package main

import (
	"context"
	"fmt"
	"unicode/utf8"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// Config is the builder's block in a YAML file.
type Config struct {
	Step      string  `yaml:"ttc_step_name" doc:"name of the steps to pair; empty: all"`
	MaxRatio  float64 `yaml:"max_length_ratio" default:"1.25" validate:"gte=1,lte=10" doc:"how much longer the longer answer may be"`
	MinMargin float64 `yaml:"min_score_diff" default:"0" validate:"gte=0" doc:"smallest difference of scores"`
}

type builder struct{ Config }

func newBuilder(c *Config) (builders.Builder, error) { return builder{*c}, nil }

// Build emits one pair a turn.
func (b builder) Build(_ context.Context, g *ttc.Group, out builders.Output) error {
	for e, ex := range g.Examples {
		var turns []string
		members := map[string][]int{}
		for i := range ex.Candidates {
			c := &ex.Candidates[i]
			if b.Step != "" && c.Step != b.Step || c.ScoreError != "" {
				continue
			}
			if members[c.Turn] == nil {
				turns = append(turns, c.Turn)
			}
			members[c.Turn] = append(members[c.Turn], i)
		}
		for _, turn := range turns {
			if err := b.turn(e, ex, turn, members[turn], out); err != nil {
				return err
			}
		}
	}
	return nil
}

// turn emits the widest margin among answers of about the same length.
func (b builder) turn(e int, ex *ttc.Example, turn string, members []int, out builders.Output) error {
	chosen, rejected, widest := -1, -1, 0.0
	tooLong := 0
	for _, i := range members {
		for _, j := range members {
			x, y := &ex.Candidates[i], &ex.Candidates[j]
			margin := x.Score - y.Score
			if !(margin > 0) || margin < b.MinMargin || x.Output == y.Output || x.Prompt.Text != y.Prompt.Text {
				continue
			}
			if !b.close(x.Output, y.Output) {
				tooLong++
				continue
			}
			if margin > widest {
				chosen, rejected, widest = i, j, margin
			}
		}
	}
	if err := out.Count("pairs_of_different_length", int64(tooLong)); err != nil {
		return err
	}
	if chosen < 0 {
		return out.Drop(ledger.Drop{
			Reason: "no_pair_of_equal_length", Unit: "turn", Run: ex.Run, Example: ex.ID, Turn: turn, Index: -1,
			Detail: fmt.Sprintf("%d candidates, %d pairs apart only by more than %gx in length", len(members), tooLong, b.MaxRatio),
		})
	}
	return out.Record(preference(e, ex, chosen, rejected))
}

func (b builder) close(x, y string) bool {
	n, m := utf8.RuneCountInString(x), utf8.RuneCountInString(y)
	return float64(max(n, m)) <= b.MaxRatio*float64(min(n, m))
}

// preference refers to the candidates: their texts need not be sent back.
func preference(e int, ex *ttc.Example, chosen, rejected int) *builders.Preference {
	c, r := &ex.Candidates[chosen], &ex.Candidates[rejected]
	ref := func(part builders.Part, i int) builders.Content {
		return builders.Content{Ref: builders.Ref{Part: part, Example: e, Candidate: i}}
	}
	return &builders.Preference{
		Head:   builders.Head{Example: e, Turn: c.Turn},
		Prompt: ref(builders.CandidatePrompt, chosen), Chosen: ref(builders.CandidateOutput, chosen), Rejected: ref(builders.CandidateOutput, rejected),
		Reward: c.Score - r.Score, ScoreName: c.Step, ChosenScore: c.Score, RejectedScore: r.Score, ChosenIndex: c.Index, RejectedIndex: r.Index,
	}
}
