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
	Step      string  `yaml:"ttc_step_name" doc:"name of the steps to pair; if empty, all steps"`
	MaxRatio  float64 `yaml:"max_length_ratio" default:"1.25" validate:"gte=1,lte=10" doc:"largest ratio of the answers' lengths"`
	MinMargin float64 `yaml:"min_score_diff" default:"0" validate:"gte=0" doc:"smallest score difference"`
}

type builder struct{ Config }

func newBuilder(c *Config) (builders.Builder, error) { return builder{*c}, nil }

// Build emits at most one pair per turn. Every candidate is part of a pair or dropped with a reason, because a run
// accounts for every candidate.
func (b builder) Build(_ context.Context, g *ttc.Group, out builders.Output) error {
	for e, ex := range g.Examples {
		var turns []string
		skipped := 0
		members := map[string][]int{}
		for i := range ex.Candidates {
			c := &ex.Candidates[i]
			if b.Step != "" && c.Step != b.Step || c.ScoreError != "" {
				skipped++
				continue
			}
			if members[c.Turn] == nil {
				turns = append(turns, c.Turn)
			}
			members[c.Turn] = append(members[c.Turn], i)
		}
		if err := drop(out, ex, "", "other_step_or_no_score", skipped, ""); err != nil {
			return err
		}
		for _, turn := range turns {
			if err := b.turn(e, ex, turn, members[turn], out); err != nil {
				return err
			}
		}
	}
	return nil
}

// turn emits the pair with the widest margin among answers of similar length, and drops the other candidates.
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
		detail := fmt.Sprintf("%d pairs of answers that differ in length by more than %gx", tooLong, b.MaxRatio)
		return drop(out, ex, turn, "no_pair_of_equal_length", len(members), detail)
	}
	if err := drop(out, ex, turn, "not_the_widest_margin", len(members)-2, ""); err != nil {
		return err
	}
	return out.Record(preference(e, ex, chosen, rejected))
}

// drop reports why n candidates for a turn aren't in any record.
func drop(out builders.Output, ex *ttc.Example, turn, reason string, n int, detail string) error {
	if n == 0 {
		return nil
	}
	return out.Drop(ledger.Drop{
		Reason: ledger.Reason(reason), Unit: "candidate", Run: ex.Run, Example: ex.ID, Turn: turn, Index: -1,
		Detail: detail, Count: int64(n),
	})
}

func (b builder) close(x, y string) bool {
	n, m := utf8.RuneCountInString(x), utf8.RuneCountInString(y)
	return float64(max(n, m)) <= b.MaxRatio*float64(min(n, m))
}

// preference refers to the candidates, so their text doesn't have to be sent back.
func preference(e int, ex *ttc.Example, chosen, rejected int) *builders.Preference {
	c, r := &ex.Candidates[chosen], &ex.Candidates[rejected]
	ref := func(part builders.Part, i int) builders.Content {
		return builders.Content{Ref: builders.Ref{Part: part, Example: e, Candidate: i}}
	}
	return &builders.Preference{
		Head:          builders.Head{Example: e, Turn: c.Turn},
		Prompt:        ref(builders.CandidatePrompt, chosen),
		Chosen:        ref(builders.CandidateOutput, chosen),
		Rejected:      ref(builders.CandidateOutput, rejected),
		Reward:        c.Score - r.Score,
		ScoreName:     c.Step,
		ChosenScore:   c.Score,
		RejectedScore: r.Score,
		ChosenIndex:   c.Index,
		RejectedIndex: r.Index,
	}
}
