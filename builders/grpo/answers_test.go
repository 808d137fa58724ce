package grpo

import (
	"fmt"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/builders/schema"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/ledger"
)

type kept []string

func (k *kept) Record(r builders.Record) error {
	x := r.(*builders.Rollout)
	text := fmt.Sprintf("%s %g:", x.Task, *x.Reward)
	for _, m := range x.Messages.Messages {
		text += " " + m.Role + "=" + m.Text
	}
	*k = append(*k, text+" "+string(x.Metadata))
	return nil
}

func (k *kept) Drop(d ledger.Drop) error {
	*k = append(*k, fmt.Sprintf("%s %s %s", d.Example, d.Turn, d.Reason))
	return nil
}

func (k *kept) Count(string, int64) error { return nil }

// TestAnswers: scored answers are rollouts of one turn, in groups of one prompt, whichever examples they are in.
// Answers to several prompts of a turn aren't compared.
func TestAnswers(t *testing.T) {
	prompt := ttc.Prompt{Form: ttc.TextPrompt, Text: "q"}
	talk := ttc.Prompt{Form: ttc.MessagesPrompt, Messages: []chat.Message{
		{Role: "system", Form: chat.Text, Text: "s"}, {Role: "user", Form: chat.Text, Text: "q"},
	}}
	long := ttc.Prompt{Form: ttc.MessagesPrompt, Messages: append(talk.Messages[:2:2],
		chat.Message{Role: "assistant", Form: chat.Text, Text: "x"}, talk.Messages[1])}
	g := &ttc.Group{Examples: []*ttc.Example{
		{ID: "a", Task: "t", Candidates: []ttc.Candidate{
			{Prompt: prompt, Output: "1", Score: 1},
			{Prompt: talk, Output: "2", Score: 0},
			{Prompt: prompt, Output: "", Score: 1},
			{Prompt: prompt, Output: "3", Score: math.NaN()},
			{Prompt: long, Output: "4", Score: 1},
			{Prompt: prompt, Output: "5", ScoreError: "no"},
			{Prompt: ttc.Prompt{Form: ttc.TextPrompt, Text: "q\nassistant: 6"}, Output: "6", Score: 1},
			{Prompt: prompt, Output: "7", Score: 0},
		}},
		{ID: "b", Task: "t", Candidates: []ttc.Candidate{{Turn: "2", Prompt: prompt, Output: "6", Score: 1}}},
	}}
	for name, c := range map[string]struct {
		cfg  Config
		want kept
	}{
		"all": {Config{MinRollouts: 1}, kept{
			`t 1: user=q assistant=1 {"label": true}`, `t (prompt 2) 0: system=s user=q assistant=2 {"label": false}`,
			"a  empty_response", "a  non_finite_score", "a  earlier_turns", "a  failed_scorer", "a  answer_in_prompt",
			`t 0: user=q assistant=7 {"label": false}`, `t/2 1: user=q assistant=6 {"label": true}`,
		}},
		"of a few": {Config{MinRollouts: 2}, kept{
			`t 1: user=q assistant=1 {"label": true}`, "a  few_rollouts", "a  empty_response", "a  non_finite_score",
			"a  earlier_turns", "a  failed_scorer", "a  answer_in_prompt", `t 0: user=q assistant=7 {"label": false}`,
			"b 2 few_rollouts",
		}},
		"that differ": {Config{MinRollouts: 1, NeedSpread: true}, kept{
			`t 1: user=q assistant=1 {"label": true}`, "a  equal_rewards", "a  empty_response", "a  non_finite_score",
			"a  earlier_turns", "a  failed_scorer", "a  answer_in_prompt", `t 0: user=q assistant=7 {"label": false}`,
			"b 2 equal_rewards",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			c.cfg.Leaks = "drop"
			b, err := New(c.cfg)
			if err != nil {
				t.Fatal(err)
			}
			var got kept
			if err := b.Build(t.Context(), g, &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestCandidatesOfRollouts checks that a rollout's candidates aren't counted, because only the rollout is a record.
func TestCandidatesOfRollouts(t *testing.T) {
	ex := &ttc.Example{ID: "a", Candidates: []ttc.Candidate{
		{Prompt: ttc.Prompt{Form: ttc.TextPrompt, Text: "q"}, Output: "1"},
		{Prompt: ttc.Prompt{Form: ttc.TextPrompt, Text: "r"}, Output: "2"},
	}}
	answers := *ex
	ex.Graph.Nodes = []ttc.Node{{Parent: -1, Message: chat.Message{Role: "assistant", Text: "a"}, Sampled: ttc.Yes}}
	for want, ex := range map[int64]*ttc.Example{0: ex, 2: &answers} {
		b, err := New(schema.New[Config]())
		if err != nil {
			t.Fatal(err)
		}
		n := counts{}
		if err := b.Build(t.Context(), &ttc.Group{Examples: []*ttc.Example{ex}}, n); err != nil {
			t.Fatal(err)
		}
		if n[countedAlone] != want || (len(Remarks(n)) > 0) != (want > 0) {
			t.Errorf("%d answers stood alone, want %d", n[countedAlone], want)
		}
	}
}

// counts holds a builder's counters.
type counts map[string]int64

func (counts) Record(builders.Record) error { return nil }
func (counts) Drop(ledger.Drop) error       { return nil }

func (c counts) Count(name string, n int64) error {
	c[name] += n
	return nil
}
