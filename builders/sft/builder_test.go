package sft

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/builders/schema"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// sink stores what a builder emits, one line per item.
type sink struct {
	lines   []string
	records []builders.Record
	counts  []string
}

func (s *sink) Record(r builders.Record) error {
	d := r.(*builders.Demonstration)
	line := fmt.Sprintf("record e%d", d.Example)
	if d.Turn != "" {
		line += " " + d.Turn + " " + d.Messages.Messages[len(d.Messages.Messages)-1].Text
	} else {
		line += fmt.Sprintf(" leaf%d train%d %v", d.Messages.Ref.Last, d.Train, d.Trained)
	}
	s.lines = append(s.lines, line)
	s.records = append(s.records, r)
	return nil
}

func (s *sink) Drop(d ledger.Drop) error {
	s.lines = append(s.lines, fmt.Sprintf("drop %s %s %s", d.Unit, d.Example, d.Reason))
	return nil
}

func (s *sink) Count(name string, n int64) error {
	s.counts = append(s.counts, fmt.Sprintf("%s %d", name, n))
	return nil
}

// remarks returns what Remarks says of the counts.
func (s *sink) remarks() []string {
	counters := map[string]int64{}
	for _, c := range s.counts {
		name, _, _ := strings.Cut(c, " ")
		counters[name]++
	}
	return Remarks(counters)
}

func messages(n int) (ms []chat.Message) {
	ms = append(ms, chat.Message{Role: "user", Form: chat.Text, Text: "q"})
	for range n {
		ms = append(ms, chat.Message{Role: "assistant", Form: chat.Text, Text: "a"})
	}
	return ms
}

func rollout(id string, reward any) *ttc.Example {
	ex := &ttc.Example{ID: id, Graph: ttc.Chain(messages(2), ttc.Yes)}
	switch r := reward.(type) {
	case float64:
		ex.Reward = &r
	case int:
		f := float64(r)
		ex.Reward = &f
	}
	return ex
}

func build(t *testing.T, cfg Config, g *ttc.Group) *sink {
	t.Helper()
	b, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	s := &sink{}
	if err := b.Build(context.Background(), g, s); err != nil {
		t.Fatal(err)
	}
	for _, r := range s.records {
		if _, err := builders.Resolve(g, r.(*builders.Demonstration).Messages); err != nil {
			t.Error(err)
		}
	}
	return s
}

func config(change func(*Config)) Config {
	c := schema.New[Config]()
	change(&c)
	return c
}

func TestSelect(t *testing.T) {
	half := 0.5
	group := &ttc.Group{Examples: []*ttc.Example{rollout("a", 0), rollout("b", 1), rollout("c", nil), rollout("d", 1)}}
	for i := range group.Examples { // of different lengths
		group.Examples[i].Graph = ttc.Chain(messages(2+i), ttc.Yes)
	}
	for name, c := range map[string]struct {
		cfg  Config
		want string
	}{
		"best":  {schema.New[Config](), "drop rollout a failed_task|record e1 leaf3 train0 []|drop rollout c no_reward|record e3 leaf5 train0 []"},
		"one":   {config(func(c *Config) { c.N = 1 }), "drop rollout a failed_task|record e1 leaf3 train0 []|drop rollout c no_reward|drop rollout d enough_taken"},
		"lower": {config(func(c *Config) { c.Direction = "lower" }), "record e0 leaf2 train0 []|drop rollout b failed_task|drop rollout c no_reward|drop rollout d failed_task"},
		"all":   {config(func(c *Config) { c.Select = "all" }), "record e0 leaf2 train0 []|record e1 leaf3 train0 []|record e2 leaf4 train0 []|record e3 leaf5 train0 []"},
		"threshold": {
			config(func(c *Config) { c.Select, c.MinScore, c.Train = "threshold", &half, "last" }),
			"drop rollout a below_min_score|record e1 leaf3 train1 []|drop rollout c no_reward|record e3 leaf5 train1 []",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := strings.Join(build(t, c.cfg, group).lines, "|"); got != c.want {
				t.Errorf("%s:\n got %s\nwant %s", name, got, c.want)
			}
		})
	}
}

func TestCandidatesOfATurn(t *testing.T) {
	prompt := ttc.Prompt{Form: ttc.TextPrompt, Text: "q"}
	ex := &ttc.Example{ID: "x", Candidates: []ttc.Candidate{
		{Step: "s", Turn: "1", Prompt: prompt, Output: "bad", Score: 1},
		{Step: "s", Turn: "2", Prompt: prompt, Output: "only", Score: 2},
		{Step: "s", Turn: "3", Prompt: prompt, Output: "failed", Score: 0},
		{Step: "s", Turn: "1", Prompt: prompt, Output: "good", Score: 2},
		{Step: "s", Turn: "1", Prompt: prompt, Output: "good", Score: 2},
		{Step: "s", Turn: "1", Prompt: prompt, Output: "", Score: 3},
		{Step: "other", Turn: "1", Prompt: prompt, Output: "no", Score: 9},
		{Step: "s", Turn: "4", Prompt: ttc.Prompt{Text: "q\nassistant: said"}, Output: "said", Score: 2},
	}}
	s := build(t, config(func(c *Config) { c.StepName = "s" }), &ttc.Group{Examples: []*ttc.Example{ex}})
	want := "drop candidate x other_step_name|drop candidate x not_best|record e0 1 good|drop candidate x equal_to_taken|drop candidate x empty_response|record e0 2 only|drop candidate x failed_task|drop candidate x answer_in_prompt"
	if got := strings.Join(s.lines, "|"); got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
	p, _ := builders.Resolve(&ttc.Group{Examples: []*ttc.Example{ex}}, s.records[0].(*builders.Demonstration).Messages)
	if n := p.Nodes; len(n) != 2 || n[0].Message.Role != "user" || n[1].Sampled != ttc.Assumed {
		t.Errorf("%+v", n)
	}
}

// TestFailedTask checks that what has the lowest score of the run is not imitated, whatever its group holds.
func TestFailedTask(t *testing.T) {
	scales := func(scores ...float64) *ttc.Scales {
		s := new(ttc.Scales)
		for _, score := range scores {
			s.Rewards.Add(score)
		}
		return s
	}
	half, zero := 0.5, 0.0
	for name, c := range map[string]struct {
		scales *ttc.Scales
		reward float64
		change func(*Config)
		fails  bool
	}{
		"zero of zero and one":        {scales(0, 1), 0, nil, true},
		"every one failed":            {scales(0), 0, nil, true},
		"every one succeeded":         {scales(1), 1, nil, false},
		"zero in the middle":          {scales(-1, 0, 1), 0, nil, false},
		"lowest of several":           {scales(0.5, 3, 4), 0.5, nil, true},
		"the only score there is":     {scales(0.5), 0.5, nil, false},
		"one is worst":                {scales(0, 1), 1, func(c *Config) { c.Direction = "lower" }, true},
		"highest is worst":            {scales(2, 9), 9, func(c *Config) { c.Direction = "lower" }, true},
		"min_score says it is enough": {scales(0.5, 3), 0.5, func(c *Config) { c.MinScore = &half }, false},
		"a min_score of zero":         {scales(0, 1), 0, func(c *Config) { c.MinScore = &zero }, false},
		"all are asked for":           {scales(0, 1), 0, func(c *Config) { c.Select = "all" }, false},
		"the group's own scale":       {nil, 0, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := schema.New[Config]()
			if c.change != nil {
				c.change(&cfg)
			}
			g := &ttc.Group{Examples: []*ttc.Example{rollout("a", c.reward)}, Scales: c.scales}
			s := build(t, cfg, g)
			if remarks := len(s.remarks()) > 0; remarks != (name == "the only score there is") {
				t.Errorf("%s: remarks: %v", name, s.remarks())
			}
			if failed := s.lines[0] == "drop rollout a failed_task"; failed != c.fails || len(s.lines) != 1 {
				t.Errorf("got %v", s.lines)
			}
		})
	}
}

// TestEqualWords checks that rollouts which differ only in the ids of their calls are taken once.
func TestEqualWords(t *testing.T) {
	trial := func(id, call, answer string) *ttc.Example {
		ex := rollout(id, 1)
		ex.Graph = ttc.Chain([]chat.Message{
			{Role: "assistant", ToolCalls: []chat.ToolCall{{ID: call, Name: "look", Arguments: "{}"}}},
			{Role: "tool", Form: chat.Text, Text: "sunny", ToolCallID: call},
			{Role: "assistant", Form: chat.Text, Text: answer},
		}, ttc.Yes)
		return ex
	}
	g := &ttc.Group{Examples: []*ttc.Example{
		trial("a", "1", "x"), trial("b", "2", "x"), trial("c", "1", "y"),
		rollout("d", 0),
	}}
	want := "record e0 leaf2 train0 []|drop rollout b equal_to_taken|record e2 leaf2 train0 []|drop rollout d failed_task"
	if got := strings.Join(build(t, schema.New[Config](), g).lines, "|"); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

// TestBranches checks that what branches share is trained only once.
func TestBranches(t *testing.T) {
	ex := rollout("x", 1)
	n := ex.Graph.Nodes[2]
	n.Parent = 1
	ex.Graph.Nodes = append(ex.Graph.Nodes, n)
	s := build(t, schema.New[Config](), &ttc.Group{Examples: []*ttc.Example{ex}})
	want := "record e0 leaf2 train3 [false true true]|record e0 leaf3 train3 [false false true]"
	if got := strings.Join(s.lines, "|"); got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
}

func TestContextIsNotImitated(t *testing.T) {
	one := 1.0
	ex := &ttc.Example{ID: "x", Reward: &one, Graph: ttc.Chain(messages(1), ttc.No)}
	if got := build(t, schema.New[Config](), &ttc.Group{Examples: []*ttc.Example{ex}}).lines; len(got) != 1 ||
		got[0] != "drop rollout x nothing_to_train" {
		t.Error(got)
	}
}

func TestBadConfigs(t *testing.T) {
	for _, change := range []func(*Config){
		func(c *Config) { c.Select = "x" }, func(c *Config) { c.N = 0 }, func(c *Config) { c.Select = "threshold" },
		func(c *Config) { c.Train = "" },
	} {
		if _, err := New(config(change)); err == nil {
			t.Errorf("%+v", config(change))
		}
	}
}

// calling returns a rollout: two calls in one turn, the first of which fails; one call that fails alone; an answer; and
// a thank-you.
func calling() *ttc.Example {
	call := func(id string) chat.ToolCall { return chat.ToolCall{ID: id, Name: "look", Arguments: "{}"} }
	result := func(id, text string) chat.Message {
		return chat.Message{Role: "tool", Form: chat.Text, Text: text, ToolCallID: id}
	}
	failure := "Traceback (most recent call last):\n  File \"x.py\", line 1, in <module>\nValueError: bad date\n"
	return &ttc.Example{ID: "x", Graph: ttc.Chain([]chat.Message{
		{Role: "user", Form: chat.Text, Text: "q"},
		{Role: "assistant", ToolCalls: []chat.ToolCall{call("1"), call("2")}},
		result("1", failure),
		result("2", "sunny"),
		{Role: "assistant", ToolCalls: []chat.ToolCall{call("3")}},
		result("3", failure),
		{Role: "assistant", Form: chat.Text, Text: "sunny"},
		{Role: "user", Form: chat.Text, Text: "thanks"},
	}, ttc.Yes)}
}

// TestFailedCalls checks that failed calls are, as configured, context, imitated or cut out with their results, and
// that anything recorded by its token ids stays whole. A demonstration ends with the last turn that is trained.
func TestFailedCalls(t *testing.T) {
	set := func(to FailedCalls) Config { return config(func(c *Config) { c.FailedCalls = to }) }
	const masked = "record e0 leaf6 train3 [false false false false false false true]"
	recorded := calling()
	recorded.Graph.Nodes[6].TokenIDs = []int32{1}
	flagged := calling()
	for _, at := range []int{2, 5} {
		m := &flagged.Graph.Nodes[at].Message
		m.Text, m.Extra = "Seats 12A", []chat.Member{{Key: "status", Value: json.Raw(`"error"`)}}
	}
	for name, c := range map[string]struct {
		cfg  Config
		ex   *ttc.Example
		want string
	}{
		"default":  {schema.New[Config](), calling(), masked},
		"flagged":  {schema.New[Config](), flagged, masked},
		"context":  {set(contextFailed), calling(), masked},
		"imitated": {set(trainFailed), calling(), "record e0 leaf6 train0 []"},
		"recorded": {set(removeFailed), recorded, masked},
	} {
		t.Run(name, func(t *testing.T) {
			s := build(t, c.cfg, &ttc.Group{Examples: []*ttc.Example{c.ex}})
			if got := s.lines; len(got) != 1 || got[0] != c.want {
				t.Errorf("%s: got %v, want %s", name, got, c.want)
			}
			if edits := s.records[0].Header().Edits; edits != 0 {
				t.Errorf("the context as it was counts as edited: %v", edits.Names())
			}
		})
	}
	only := calling()
	only.Graph.Nodes = only.Graph.Nodes[:1]
	only.Graph.Nodes = append(only.Graph.Nodes, calling().Graph.Nodes[4:6]...)
	only.Graph.Nodes[1].Parent, only.Graph.Nodes[2].Parent = 0, 1
	if got := build(t, schema.New[Config](), &ttc.Group{Examples: []*ttc.Example{only}}).lines; len(got) != 1 ||
		got[0] != "drop rollout x only_failed_calls" {
		t.Error(got)
	}
}

// TestRemovedCalls: what is cut out is reported turn by turn, once even if branches share it, and the record says so.
func TestRemovedCalls(t *testing.T) {
	remove := config(func(c *Config) { c.FailedCalls = removeFailed })
	s := build(t, remove, &ttc.Group{Examples: []*ttc.Example{calling()}})
	d := s.records[0].(*builders.Demonstration)
	var kept []string
	for i, m := range d.Messages.Messages {
		kept = append(kept, fmt.Sprintf("%s%d%v", m.Role[:1], len(m.ToolCalls), d.Trained[i]))
	}
	if got, want := strings.Join(kept, " "), "u0false a1true t0false a0true"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := d.Edits.Names(); len(got) != 1 || got[0] != "failed_calls_removed" {
		t.Error(got)
	}
	const told = "drop turn x failed_call_removed"
	if len(s.lines) != 3 || s.lines[0] != told || s.lines[1] != told {
		t.Error(s.lines)
	}
	branched := calling()
	again := branched.Graph.Nodes[6]
	again.Message.Text = "rainy"
	branched.Graph.Nodes = append(branched.Graph.Nodes, again)
	s = build(t, remove, &ttc.Group{Examples: []*ttc.Example{branched}})
	if got := strings.Count(strings.Join(s.lines, "\n"), told); got != 2 || len(s.records) != 2 {
		t.Errorf("%d turns of %d branches are reported: %v", got, len(s.records), s.lines)
	}
}

// TestRemovedAfterTheEnd: what comes after the last trained turn isn't there to be edited.
func TestRemovedAfterTheEnd(t *testing.T) {
	ex := calling()
	ex.Graph.Nodes = ex.Graph.Nodes[:6]
	ex.Graph.Nodes[1].Message.ToolCalls = nil
	ex.Graph.Nodes = append(ex.Graph.Nodes[:2:2], ex.Graph.Nodes[4:]...)
	ex.Graph.Nodes[2].Parent, ex.Graph.Nodes[3].Parent = 1, 2
	s := build(t, config(func(c *Config) { c.FailedCalls = removeFailed }), &ttc.Group{Examples: []*ttc.Example{ex}})
	if len(s.lines) != 1 || s.lines[0] != "record e0 leaf1 train3 [false true]" || s.records[0].Header().Edits != 0 {
		t.Error(s.lines)
	}
}

// TestCountsAreInOrder: counts are in the record log, which is the same each time.
func TestCountsAreInOrder(t *testing.T) {
	for range 20 {
		s := build(t, schema.New[Config](), &ttc.Group{Examples: []*ttc.Example{calling()}})
		if got := strings.Join(s.counts, ", "); got != "trailing_messages 1, failed_calls 2, failed_turns 2" {
			t.Fatal(got)
		}
	}
}

// TestUnscored checks that a task without scores is treated as not meant to be chosen from.
func TestUnscored(t *testing.T) {
	none := &ttc.Group{Examples: []*ttc.Example{rollout("a", nil), rollout("b", nil)}}
	if got := build(t, schema.New[Config](), none).records; len(got) != 2 {
		t.Errorf("%d records of two conversations without scores", len(got))
	}
	best := config(func(c *Config) { c.Select = "best" })
	if got := build(t, best, none).lines; got[0] != "drop rollout a no_reward" {
		t.Error(got)
	}
}

// TestReasoning: reasoning is trained unless the configuration says otherwise.
func TestReasoning(t *testing.T) {
	ex := rollout("x", 1)
	candidates := &ttc.Example{ID: "c", Candidates: []ttc.Candidate{
		{Step: "s", Turn: "1", Prompt: ttc.Prompt{Form: ttc.TextPrompt, Text: "q"}, Output: "good", Score: 1},
	}}
	for _, trained := range []bool{true, false} {
		cfg := schema.New[Config]()
		if !cfg.TrainReasoning {
			t.Fatal("the default leaves reasoning out of the loss")
		}
		cfg.TrainReasoning = trained
		s := build(t, cfg, &ttc.Group{Examples: []*ttc.Example{ex, candidates}})
		for _, r := range s.records {
			if masked := r.(*builders.Demonstration).MaskReasoning; masked == trained {
				t.Errorf("train_reasoning: %v masks it: %v", trained, masked)
			}
		}
		if len(s.records) != 2 {
			t.Error(s.lines)
		}
	}
}
