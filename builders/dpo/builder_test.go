package dpo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/builders/schema"
	"github.com/nat-go/nat-go/internal/property"
	"github.com/nat-go/nat-go/pairs"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/ledger"
)

type recorder struct {
	records []*builders.Preference
	drops   []ledger.Drop
	counts  map[string]int64
}

func (r *recorder) Record(rec builders.Record) error {
	kept := *rec.(*builders.Preference) // the builder reuses its memory
	r.records = append(r.records, &kept)
	return nil
}
func (r *recorder) Drop(d ledger.Drop) error { r.drops = append(r.drops, d); return nil }
func (r *recorder) Count(name string, n int64) error {
	if r.counts == nil {
		r.counts = map[string]int64{}
	}
	r.counts[name] += n
	return nil
}

// full is an output that takes nothing.
type full struct{ builders.Output }

func (full) Record(builders.Record) error { return io.ErrShortWrite }

// TestEndsAtOnce checks that a build stops making pairs when its output fails.
func TestEndsAtOnce(t *testing.T) {
	cfg := schema.New[Config]()
	cfg.Metadata = true
	b, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	var cands []ttc.Candidate
	for i := range 300 {
		cands = append(cands, cand(fmt.Sprint("move ", i), float64(i)))
	}
	g := &ttc.Group{Examples: []*ttc.Example{example(cands...)}}
	if n := testing.AllocsPerRun(2, func() { err = b.Build(t.Context(), g, full{}) }); n > 10_000 ||
		!errors.Is(err, io.ErrShortWrite) {
		t.Errorf("%v after %v allocations", err, n)
	}
}

func build(t testing.TB, cfg Config, ex *ttc.Example) *recorder {
	b, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	out := &recorder{}
	if err := b.Build(context.Background(), &ttc.Group{Examples: []*ttc.Example{ex}}, out); err != nil {
		t.Fatal(err)
	}
	return out
}

// cand returns a candidate of the default step in turn "t".
func cand(output string, score float64) ttc.Candidate {
	return ttc.Candidate{
		Step:   "dpo_candidate_move",
		Turn:   "t",
		Output: output,
		Score:  score,
		Prompt: ttc.Prompt{Text: "Which move?"},
	}
}

func example(cands ...ttc.Candidate) *ttc.Example {
	for i := range cands {
		cands[i].Index = int64(i)
	}
	return &ttc.Example{ID: "e", Candidates: cands}
}

// summary prints pairs and drops in short form.
func summary(ex *ttc.Example, r *recorder) string {
	var s []string
	for _, p := range r.records {
		s = append(s, ex.Candidates[p.Chosen.Ref.Candidate].Output+">"+ex.Candidates[p.Rejected.Ref.Candidate].Output)
	}
	for _, d := range r.drops {
		if d.Unit == "pair" {
			s = append(s, fmt.Sprintf("[%s]", d.Detail))
		} else {
			s = append(s, fmt.Sprintf("-%d:%s", d.Index, d.Reason))
		}
	}
	return strings.Join(s, " ")
}

func TestBuild(t *testing.T) {
	messages := func(m ...chat.Message) ttc.Prompt { return ttc.Prompt{Form: ttc.MessagesPrompt, Messages: m} }
	with := func(c ttc.Candidate, change func(*ttc.Candidate)) ttc.Candidate { change(&c); return c }
	prompt := func(c ttc.Candidate, p ttc.Prompt) ttc.Candidate {
		return with(c, func(c *ttc.Candidate) { c.Prompt = p })
	}
	long := strings.Repeat("the long way round the harbour ", 3)
	one, two, half := 1, 2, 0.5
	user := chat.Message{Role: "user", Form: chat.Text, Text: "hi"}
	cases := []struct {
		name string
		cfg  func(*Config)
		ex   *ttc.Example
		want string
	}{
		{"all pairs", nil, example(cand("a", 0.1), cand("b", 0.9), cand("c", 0.5)), "b>a b>c c>a"},
		{
			"best against worst", func(c *Config) { c.ExhaustivePairs = false },
			example(cand("a", 0.1), cand("b", 0.9), cand("c", 0.5)),
			"b>a -2:not_chosen_by_strategy [not_chosen_by_strategy 2]",
		},
		{
			"limit", func(c *Config) { c.MaxPairsPerTurn = &one },
			example(cand("a", 0.1), cand("b", 0.9), cand("c", 0.5)),
			"b>a -2:not_chosen_by_strategy [not_chosen_by_strategy 2]",
		},
		{"tie", nil, example(cand("a", 0.5), cand("b", 0.5)), "-0:tie -1:tie [tie 1]"},
		{
			"not a number",
			nil,
			example(cand("a", math.NaN()), cand("b", 0.5), cand("c", 0.1), cand("d", math.Inf(1))),
			"b>c -0:non_finite_score -3:non_finite_score",
		},
		{
			"failed scorer",
			nil,
			example(cand("a", 0.5), cand("c", 0.1),
				with(cand("b", 0), func(c *ttc.Candidate) { c.ScoreError = "timeout" })),
			"a>c -2:failed_scorer",
		},
		{"empty", nil, example(cand("a", 0.5), cand(" \n", 0.7), cand("c", 0.1)), "a>c -1:empty_response"},
		{"same text", nil, example(cand("a", 0.5), cand("a", 0.9), cand("c", 0.1)), "a>c -1:same_text"},
		{"only the same text", nil, example(cand("a", 0.5), cand("a", 0.9)), "-1:same_text -0:single_candidate"},
		{"single", nil, example(cand("a", 0.5)), "-0:single_candidate"},
		{
			"two prompts",
			nil,
			example(cand("a", 0.5), prompt(cand("b", 0.9), ttc.Prompt{Text: "Other?"}), cand("c", 0.1)),
			"a>c -1:different_prompt",
		},
		{
			"two prompts of two",
			nil,
			example(cand("a", 0.5), prompt(cand("b", 0.9), ttc.Prompt{Text: "Other?"}), cand("c", 0.1),
				prompt(cand("d", 0.2), ttc.Prompt{Text: "Other?"})),
			"a>c b>d",
		},
		{
			"each its own prompt",
			nil,
			example(cand("a", 0.5), prompt(cand("b", 0.9), ttc.Prompt{Text: "Other?"})),
			"-0:different_prompt -1:different_prompt",
		},
		{
			"equal messages",
			nil,
			example(prompt(cand("a", 0.5), messages(user)), prompt(cand("b", 0.9), messages(user))),
			"b>a",
		},
		{
			"text and message",
			nil,
			example(prompt(cand("a", 0.5), messages(user)), prompt(cand("b", 0.9), ttc.Prompt{Text: "hi"})),
			"-0:different_prompt -1:different_prompt",
		},
		{
			"the reply was appended",
			nil,
			example(prompt(cand("a", 0.5), messages(user, chat.Message{Role: "assistant", Form: chat.Text, Text: "a"})),
				prompt(cand("b", 0.9), messages(user, chat.Message{Role: "assistant", Form: chat.Text, Text: "b"}))),
			"-0:answer_in_prompt -1:answer_in_prompt",
		},
		{
			"the prompt ends with the answer",
			nil,
			example(cand("move?", 0.5), cand("b", 0.9), cand("c", 0.2)),
			"b>c b>move? move?>c",
		},
		{
			"the prompt ends with the reply",
			nil,
			example(prompt(cand("e4", 0.5), ttc.Prompt{Text: "Your move?\nAssistant: e4"}), cand("b", 0.9),
				cand("c", 0.2)),
			"b>c -0:answer_in_prompt",
		},
		{
			"a word ends with the answer",
			nil,
			example(prompt(cand("a", 0.5), ttc.Prompt{Text: "banana"}),
				prompt(cand("b", 0.9), ttc.Prompt{Text: "banana"})),
			"b>a",
		},
		{
			"a long answer inside the prompt",
			nil,
			example(prompt(cand(long, 0.5), ttc.Prompt{Text: "so: " + long + ". Which?"}),
				prompt(cand("b", 0.9), ttc.Prompt{Text: "so: " + long + ". Which?"}),
				prompt(cand("c", 0.1), ttc.Prompt{Text: "so: " + long + ". Which?"})),
			"b>c -0:answer_in_prompt",
		},
		{
			"all choose from the prompt", nil,
			example(prompt(cand(long+"1", 0.5), ttc.Prompt{Text: long + "1 or " + long + "2 or not?"}),
				prompt(cand(long+"2", 0.9), ttc.Prompt{Text: long + "1 or " + long + "2 or not?"})),
			long + "2>" + long + "1",
		},
		{
			"a short answer inside the prompt",
			nil,
			example(prompt(cand("b2", 0.5), ttc.Prompt{Text: "b2 or c3, which?"}),
				prompt(cand("d4", 0.9), ttc.Prompt{Text: "b2 or c3, which?"})),
			"d4>b2",
		},
		{
			"printed prompt",
			nil,
			example(prompt(cand("a", 0.5), ttc.Prompt{Text: "[{'role': 'user', 'content': 'hi'}]"}),
				prompt(cand("b", 0.9), ttc.Prompt{Text: "[HumanMessage(content='hi')]"}),
				prompt(cand("c", 0.9), ttc.Prompt{Form: ttc.OtherPrompt, Text: "{}"})),
			"-0:repr_prompt -1:repr_prompt -2:repr_prompt",
		},
		{
			"least difference",
			func(c *Config) { c.MinScoreDiff = 0.3 },
			example(cand("a", 0.1), cand("b", 0.9), cand("c", 0.75)),
			"b>a c>a [below_min_score_diff 1]",
		},
		{"weak winner", func(c *Config) { c.MinChosenScore = &half }, example(cand("a", 0.1), cand("b", 0.3)), "-0:below_min_chosen_score -1:below_min_chosen_score [below_min_chosen_score 1]"},
		{
			"lower is better",
			func(c *Config) { c.ScoreDirection = "lower" },
			example(cand("a", 0.1), cand("b", 0.3)),
			"a>b",
		},
		{
			"threshold",
			func(c *Config) { c.Strategy, c.Threshold = "threshold", &half },
			example(cand("a", 0.1), cand("b", 0.5), cand("c", 0.9)),
			"c>a b>a [not_chosen_by_strategy 1]",
		},
		{
			"drawn",
			func(c *Config) { c.Strategy, c.K = "random_k", &two },
			example(cand("a", 0.1), cand("b", 0.5), cand("c", 0.9)),
			"c>a b>a [not_chosen_by_strategy 1]",
		},
		{
			"other step",
			nil,
			example(with(cand("a", 0.1), func(c *ttc.Candidate) { c.Step = "x" }), cand("b", 0.5), cand("c", 0.9)),
			"c>b --1:other_step_name",
		},
		{
			"turns apart",
			nil,
			example(cand("a", 0.1), with(cand("b", 0.5), func(c *ttc.Candidate) { c.Turn = "u" }), cand("c", 0.9),
				with(cand("d", 0.2), func(c *ttc.Candidate) { c.Turn = "u" })),
			"c>a b>d",
		},
		{"nothing", nil, example(), ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			cfg := schema.New[Config]()
			if c.cfg != nil {
				c.cfg(&cfg)
			}
			if got := summary(c.ex, build(t, cfg, c.ex)); got != c.want {
				t.Errorf("%s:\ngot  %s\nwant %s", c.name, got, c.want)
			}
		})
	}
}

func TestRecord(t *testing.T) {
	a, b := cand("a", 0.2), cand("b", 0.9)
	a.Metadata = json.Raw(`{"z": 1}`)
	ex := example(a, b)
	ex.Policy = "m"
	cfg := schema.New[Config]()
	cfg.Metadata = true
	r := build(t, cfg, ex).records[0]
	want := `{"dpo_type": "preference_pair", "score_diff": 0.7, "example_id": "e", "turn_id": "t", "chosen_score": 0.9, "rejected_score": 0.2, "chosen_index": 1, "rejected_index": 0, "chosen_raw_metadata": {}, "rejected_raw_metadata": {"z": 1}}`
	if string(r.Metadata) != want {
		t.Errorf("metadata\ngot  %s\nwant %s", r.Metadata, want)
	}
	if r.Reward != 0.9-0.2 || r.ScoreName != "dpo_candidate_move" || r.ChosenPolicy != "m" || r.ChosenIndex != 1 ||
		r.RejectedScore != 0.2 || r.Turn != "t" {
		t.Errorf("%+v", r)
	}
	cfg.RewardFromDiff, cfg.Metadata, cfg.ScoreName = false, false, "judge"
	if r := build(t, cfg, ex).records[0]; r.Reward != 0.9 || r.Metadata != nil || r.ScoreName != "judge" {
		t.Errorf("%+v", r)
	}
}

func TestCounts(t *testing.T) {
	ex := example(cand("a", 0.1), cand("b", 0.9), cand("c", 0.9))
	single := cand("x", 1)
	single.Turn = "u"
	ex.Candidates = append(ex.Candidates, single)
	got := build(t, schema.New[Config](), ex).counts
	for name, want := range map[string]int64{
		"total_examples":           1,
		"total_turns":              2,
		"total_candidates":         4,
		"total_pairs":              2,
		"skipped_single_candidate": 1,
		"pairs_tied":               1,
	} {
		t.Run(name, func(t *testing.T) {
			if got[name] != want {
				t.Errorf("%s is %d, want %d", name, got[name], want)
			}
		})
	}
}

func TestNewNamesTheSetting(t *testing.T) {
	zero, half := 0, 0.5
	for want, change := range map[string]func(*Config){
		"strategy can't be all":                   func(c *Config) { c.Strategy = "all" },
		"score_direction can't be up":             func(c *Config) { c.ScoreDirection = "up" },
		"min_score_diff must be at least 0":       func(c *Config) { c.MinScoreDiff = -1 },
		"must be at least 0, got NaN":             func(c *Config) { c.MinScoreDiff = math.NaN() },
		"max_pairs_per_turn must be at least 1":   func(c *Config) { c.MaxPairsPerTurn = &zero },
		"threshold has no effect unless strategy": func(c *Config) { c.Threshold = &half },
		"k is missing: it goes together with":     func(c *Config) { c.Strategy = "random_k" },
		"k must be at least 1":                    func(c *Config) { c.Strategy, c.K = "random_k", &zero },
	} {
		t.Run(want, func(t *testing.T) {
			cfg := schema.New[Config]()
			change(&cfg)
			if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %q", err, want)
			}
		})
	}
}

// TestEveryCandidateIsUsedOrDroppedOnce checks that the builder's books balance.
func TestEveryCandidateIsUsedOrDroppedOnce(t *testing.T) {
	strategies := []string{"", "exhaustive", "best_vs_worst", "adjacent", "best_vs_rest", "threshold", "random_k"}
	property.Check(t, func(t *rapid.T) {
		cfg := schema.New[Config]()
		cfg.Strategy = rapid.SampledFrom(strategies).Draw(t, "strategy")
		cfg.MinScoreDiff = rapid.SampledFrom([]float64{0, 0.2}).Draw(t, "margin")
		if cfg.Strategy == "threshold" {
			cfg.Threshold = new(float64)
			*cfg.Threshold = 0.5
		}
		if n := rapid.IntRange(1, 3).Draw(t, "n"); cfg.Strategy == "random_k" {
			cfg.K = &n
		} else if rapid.Bool().Draw(t, "limit") {
			cfg.MaxPairsPerTurn = &n
		}
		prompts := []ttc.Prompt{
			{Text: "P"},
			{Text: "Q"},
			{Text: "P ends with b"},
			{Form: ttc.OtherPrompt, Text: "7"},
			{Form: ttc.MessagesPrompt, Messages: []chat.Message{{Role: "user", Form: chat.Text, Text: "P"}}},
		}
		ex := &ttc.Example{ID: "e"}
		for range rapid.IntRange(0, 14).Draw(t, "candidates") {
			c := cand(rapid.SampledFrom([]string{"a", "b", "c", "d", "e", ""}).Draw(t, "output"),
				rapid.SampledFrom([]float64{0, 0.1, 0.3, 0.5, 0.5, 1, math.NaN()}).Draw(t, "score"))
			c.Turn = rapid.SampledFrom([]string{"t", "u"}).Draw(t, "turn")
			c.Prompt = prompts[min(len(prompts)-1, rapid.IntRange(0, 12).Draw(t, "prompt")/2)]
			if rapid.IntRange(0, 9).Draw(t, "other") == 0 {
				c.Step = "other"
			}
			c.Index = int64(len(ex.Candidates))
			ex.Candidates = append(ex.Candidates, c)
		}
		b, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		out := &recorder{}
		if err := b.Build(context.Background(), &ttc.Group{Examples: []*ttc.Example{ex}}, out); err != nil {
			t.Fatal(err)
		}
		times := make([]int, len(ex.Candidates))
		others := int64(0)
		for _, d := range out.drops {
			switch {
			case d.Reason == pairs.OtherName:
				others += d.N()
			case d.Unit == "candidate":
				times[d.Index]++
			}
		}
		used := make([]bool, len(times))
		for _, r := range out.records {
			w, l := &ex.Candidates[r.Chosen.Ref.Candidate], &ex.Candidates[r.Rejected.Ref.Candidate]
			if !(w.Score > l.Score) || w.Output == l.Output || w.Turn != l.Turn || w.Prompt.Text != l.Prompt.Text ||
				w.Prompt.Form != l.Prompt.Form || !(r.Reward > 0) {
				t.Fatalf("a bad pair: %+v > %+v", w, l)
			}
			used[r.Chosen.Ref.Candidate], used[r.Rejected.Ref.Candidate] = true, true
		}
		for i, c := range ex.Candidates {
			n := times[i]
			if used[i] {
				n++
			}
			if c.Step == "other" {
				others--
			} else if n != 1 {
				t.Fatalf("candidate %d (%q) is used or dropped %d times", i, c.Output, n)
			}
		}
		if others != 0 {
			t.Fatalf("the drops and the candidates of other steps differ by %d", -others)
		}
	})
}

func BenchmarkBuild(b *testing.B) {
	var cands []ttc.Candidate
	for turn := range 3 {
		prompt := ttc.Prompt{Text: strings.Repeat("the agent reads a question ", 22)}
		for i := range 8 {
			c := cand(fmt.Sprintf("%d %d %s", turn, i, strings.Repeat("one move at a time ", 15)),
				float64((i*7+turn)%11)/11)
			c.Turn, c.Prompt = fmt.Sprint("turn_", turn), prompt
			cands = append(cands, c)
		}
	}
	ex := example(cands...)
	builder, err := New(schema.New[Config]())
	if err != nil {
		b.Fatal(err)
	}
	g := &ttc.Group{Examples: []*ttc.Example{ex}}
	out := &discard{}
	b.ReportAllocs()
	for b.Loop() {
		if err := builder.Build(context.Background(), g, out); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkTurnOf2000 builds one turn of 2,000 candidates from which five pairs are wanted. The limit is 5 ms.
func BenchmarkTurnOf2000(b *testing.B) {
	var cands []ttc.Candidate
	prompt := ttc.Prompt{Text: strings.Repeat("the agent reads a question ", 22)}
	for i := range 2000 {
		c := cand(fmt.Sprintf("%d %s", i, strings.Repeat("one move at a time ", 15)), float64((i*7919)%2003)/2003)
		c.Turn, c.Prompt = "turn", prompt
		cands = append(cands, c)
	}
	cfg, most := schema.New[Config](), 5
	cfg.MaxPairsPerTurn = &most
	builder, err := New(cfg)
	if err != nil {
		b.Fatal(err)
	}
	g := &ttc.Group{Examples: []*ttc.Example{example(cands...)}}
	b.ReportAllocs()
	for b.Loop() {
		if err := builder.Build(context.Background(), g, &discard{}); err != nil {
			b.Fatal(err)
		}
	}
}

type discard struct{}

func (*discard) Record(builders.Record) error { return nil }
func (*discard) Drop(ledger.Drop) error       { return nil }
func (*discard) Count(string, int64) error    { return nil }
