package states

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/builders/finding"
	"github.com/nat-go/nat-go/builders/schema"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/ledger"
)

type collected struct {
	records []*builders.State
	drops   []ledger.Drop
}

func (c *collected) Record(r builders.Record) error {
	c.records = append(c.records, r.(*builders.State))
	return nil
}
func (c *collected) Drop(d ledger.Drop) error  { c.drops = append(c.drops, d); return nil }
func (c *collected) Count(string, int64) error { return nil }

func says(role, text string) chat.Message {
	return chat.Message{Role: role, Form: chat.Text, Text: text}
}

func calls(name, args string) chat.Message {
	return chat.Message{Role: "assistant", Form: chat.Null, ToolCalls: []chat.ToolCall{
		{ID: "1", Name: name, Arguments: args, Parsed: json.Raw(args)},
	}}
}

func answers(text string) chat.Message {
	m := says("tool", text)
	m.ToolCallID = "1"
	return m
}

func rollout(id string, reward float64, ms ...chat.Message) *ttc.Example {
	return &ttc.Example{ID: id, Task: "t", Reward: &reward, Graph: ttc.Chain(ms, ttc.Yes)}
}

func build(t *testing.T, cfg Config, exs ...*ttc.Example) (*collected, *ttc.Group) {
	t.Helper()
	b, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	c, g := &collected{}, &ttc.Group{Examples: exs}
	if err := b.Build(context.Background(), g, c); err != nil {
		t.Fatal(err)
	}
	return c, g
}

// TestStates: a state ends before the turn at which it is taken, which the metadata describes.
func TestStates(t *testing.T) {
	good := rollout("good", 1, says("user", "pay 7"), calls("pay", `{"id":7}`), answers("ok"), says("assistant", "Paid."))
	bad := rollout("bad", 0, says("user", "pay 7"), calls("look", `{"id":7}`), answers("Error: no tool look"),
		calls("pay", `{"id":8}`), answers("paid"), says("assistant", "It is done."))
	for _, tt := range []struct {
		at   []string
		want []string // "example: messages, at"
	}{
		{[]string{"failed_calls"}, []string{"bad: 1, message"}},
		{[]string{"divergence"}, []string{"bad: 3, divergence"}},
		{[]string{"failed_calls", "divergence"}, []string{"bad: 1, message", "bad: 3, divergence"}},
		{[]string{"turns"}, []string{"good: 1, turns", "good: 3, turns", "bad: 1, turns", "bad: 3, turns", "bad: 5, turns"}},
	} {
		cfg := schema.New[Config]()
		cfg.At, cfg.Agent = tt.at, "payer"
		got, g := build(t, cfg, good, bad)
		var have []string
		for _, s := range got.records {
			p, err := builders.Resolve(g, s.Messages)
			if err != nil {
				t.Fatal(err)
			}
			at, _ := s.Metadata.Get("at")
			text, _ := at.Text()
			have = append(have, fmt.Sprintf("%s: %d, %s", g.Examples[s.Example].ID, len(p.Nodes), text))
			if s.Task != "t" {
				t.Errorf("got the task %q", s.Task)
			}
		}
		if !slices.Equal(have, tt.want) {
			t.Errorf("%v: got %q, want %q", tt.at, have, tt.want)
		}
	}
	cfg := schema.New[Config]()
	cfg.At, cfg.Agent = []string{"divergence"}, "payer"
	got, _ := build(t, cfg, good, bad)
	const want = `{"at": "divergence", "message": 3, "action": {"role": "assistant", "content": "", "tool_calls": ` +
		`[{"name": "pay", "arguments": "{\"id\":8}"}]}, "outcome": [{"role": "tool", "content": "paid"}], "reward": 0, ` +
		`"agent_ref": {"type": "responses_api_agents", "name": "payer"}}`
	if m := string(got.records[0].Metadata); m != want {
		t.Errorf("got %s\nwant %s", m, want)
	}
	given := rollout("given", 0, says("user", "pay 7"), calls("look", `{"id":7}`), answers("Error: no tool look"))
	given.Graph.Nodes[1].Sampled = ttc.No
	cfg.At = []string{"failed_calls"}
	if got, _ := build(t, cfg, given); len(got.records) > 0 || len(got.drops) != 1 {
		t.Errorf("a call that the model didn't sample: got %+v", got.records)
	}
	if len(got.drops) != 1 || got.drops[0].Reason != noState || got.drops[0].Example != "good" {
		t.Errorf("got the drops %+v", got.drops)
	}
}

// TestEvery takes each k-th turn; branches share the states of what they share, and a turn that wasn't sampled has
// none, nor has one without a prompt.
func TestEvery(t *testing.T) {
	cfg := schema.New[Config]()
	cfg.At, cfg.Every = []string{"turns"}, 2
	ex := rollout("e", 1, says("user", "a"), says("assistant", "b"), says("user", "c"), says("assistant", "d"),
		says("user", "e"), says("assistant", "f"))
	ex.Graph.Nodes = append(ex.Graph.Nodes, ttc.Node{Parent: 4, Message: says("assistant", "g"), Sampled: ttc.Yes})
	got, _ := build(t, cfg, ex)
	var last []int
	for _, s := range got.records {
		last = append(last, s.Messages.Ref.Last)
	}
	if !slices.Equal(last, []int{0, 4, 4}) { // the same prompt at two turns: curation keeps one
		t.Errorf("got states that end in %v", last)
	}
	ex.Graph.Nodes[1].Sampled = ttc.No
	if got, _ := build(t, cfg, ex); len(got.records) != 1 || got.records[0].Messages.Ref.Last != 2 {
		t.Errorf("a turn that wasn't sampled: got %+v", got.records)
	}
	if got, _ := build(t, cfg, rollout("e", 1, says("assistant", "hi"))); len(got.records) != 0 || len(got.drops) != 1 {
		t.Errorf("without a prompt: got %+v", got.records)
	}
	cfg.Detect.Writes = []string{"("}
	if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), "writes") {
		t.Errorf("got the error %v", err)
	}
}

// TestWhere: of the turns that at finds, those are taken for which where holds; the others are counted by clause.
func TestWhere(t *testing.T) {
	good := rollout("good", 1, says("user", "pay 7"), calls("pay", `{"id":7}`), answers("ok"), says("assistant", "Paid."))
	bad := rollout("bad", 0, says("user", "pay 7"), calls("look", `{"id":7}`), answers("Error: no tool look"),
		calls("pay", `{"id":8}`), answers("paid"), says("assistant", "It is done."))
	for filter, want := range map[string]string{
		`"pay" in uses`:                        `good:1 bad:3 drops: good turn 1 "pay" in uses; bad turn 2 "pay" in uses; `,
		`at == "turns" and position > 4`:       `bad:5 drops: good turn 2 position > 4; good example 0 the where expression excludes all turns at the requested points; bad turn 2 position > 4; `,
		`outcome contains "Error"`:             `bad:1 drops: good turn 2 outcome contains "Error"; good example 0 the where expression excludes all turns at the requested points; bad turn 2 outcome contains "Error"; `,
		`action contains "done" or reward > 0`: `good:1 good:3 bad:5 drops: bad turn 2 action contains "done" or reward > 0; `,
		`rollouts == 2 and spread == 1`:        `good:1 good:3 bad:1 bad:3 bad:5 drops: `,
	} {
		cfg := schema.New[Config]()
		cfg.At, cfg.Where = []string{"turns"}, filter
		got, g := build(t, cfg, good, bad)
		var have strings.Builder
		for _, s := range got.records {
			fmt.Fprintf(&have, "%s:%d ", g.Examples[s.Example].ID, s.Messages.Ref.Last+1)
		}
		have.WriteString("drops: ")
		for _, d := range got.drops {
			fmt.Fprintf(&have, "%s %s %d %s; ", d.Example, d.Unit, d.Count, d.Detail)
		}
		if have.String() != want {
			t.Errorf("%s: got %s\nwant %s", filter, have.String(), want)
		}
	}
	cfg := schema.New[Config]()
	cfg.Where = "kind == 3"
	var placed interface{ Finding() finding.Finding }
	if _, err := New(cfg); !errors.As(err, &placed) || placed.Finding().Pointer != "/where" {
		t.Errorf("got the error %v", err)
	}
}
