package host

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/rs/zerolog"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/json"
)

// branched returns a rollout with two failed calls, ids, log-probs and a branch.
func branched(id string, reward float64) *ttc.Example {
	ex := &ttc.Example{
		ID: id, Task: "task", Trial: id, Reward: &reward, Policy: "model-a", Fidelity: ttc.IDsLogProbs,
		Sampling: &ttc.Sampling{Temperature: 0.8, TopP: 0.95, Processed: true},
		Tools:    []chat.Tool{{Name: "search", Raw: json.Raw(`{"type":"function","function":{"name":"search"}}`)}},
	}
	failed := true
	add := func(parent int, sampled ttc.Sampled, m chat.Message) *ttc.Node {
		m.Form = chat.Text
		ex.Graph.Nodes = append(ex.Graph.Nodes, ttc.Node{Parent: parent, Sampled: sampled, Message: m})
		return &ex.Graph.Nodes[len(ex.Graph.Nodes)-1]
	}
	add(-1, ttc.No, chat.Message{Role: "user", Text: "find it"})
	for i, parent := range []int{0, 2} {
		n := add(parent, ttc.Yes, chat.Message{Role: "assistant", ToolCalls: []chat.ToolCall{
			{ID: "c", Type: "function", Name: "search", Arguments: `{"limit":"x"}`, Parsed: json.Raw(`{"limit":"x"}`)}, {ID: "d", Name: "search", Arguments: "not json"},
		}})
		n.TokenIDs, n.LogProbs, n.FinishReason = []int32{5, 6, int32(7 + i)}, []float32{-0.5, -0.25, -1}, "tool_calls"
		n = add(len(ex.Graph.Nodes)-1, ttc.No, chat.Message{Role: "tool", Text: "Error: limit", ToolCallID: "c"})
		n.Error, n.TokenIDs = &failed, []int32{}
	}
	add(4, ttc.Yes, chat.Message{
		Role:         "assistant",
		Text:         "here",
		Reasoning:    "hm",
		ReasoningKey: "reasoning_content",
	}).FinishReason = "stop"
	add(4, ttc.Assumed, chat.Message{Role: "assistant", Text: "or here"}) // the branch
	return ex
}

// TestAllKinds checks that the protocol carries everything: a distillation with two sites and hints, a rollout with
// ids, log-probs and a branch, and a task of three examples, through SDK, wire and host, in a real process.
func TestAllKinds(t *testing.T) {
	t.Parallel()
	p, err := Start(t.Context(), Spec{Name: "test", Path: testPlugin}, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	info, err := p.Builder("all")
	if err != nil || info.Unit != builders.UnitTask || len(info.Kinds) != 5 {
		t.Fatalf("%+v %v", info, err)
	}
	s, err := p.Open(context.Background(), "all", "mine", []byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	g := &ttc.Group{Key: "task", Examples: []*ttc.Example{branched("a", 1), branched("b", 0), branched("c", 0.5)}}
	got, err := collect(t, s, []*ttc.Group{g})
	if err != nil || got[0].Err != nil {
		t.Fatal(err, got[0].Err)
	}
	span := func(leaf int) builders.Content {
		return builders.Content{Ref: builders.Ref{Part: builders.NodeSpan, Last: leaf}}
	}
	var ms []chat.Message
	for _, n := range g.Examples[0].Graph.Nodes {
		ms = append(ms, n.Message)
	}
	score, one := 0.5, 1.0
	want := []builders.Record{
		&builders.Distillation{Head: builders.Head{Turn: "d", Metadata: []byte(`{"x":NaN}`)}, Messages: span(5), Sites: []builders.Site{
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
		&builders.Rollout{Messages: span(6), Reward: &one, Task: "task"},
		&builders.State{Messages: span(5), Task: "task"},
		&builders.Demonstration{
			Messages: builders.Content{Ref: builders.Ref{Part: builders.InlineMessages}, Messages: ms},
			Train:    builders.TrainFlagged,
			Trained:  make([]bool, 7),
			Weight:   1,
			Score:    &score,
		},
		&builders.Preference{
			Prompt:   builders.Content{Text: "p"},
			Chosen:   builders.Content{Text: "c"},
			Rejected: builders.Content{Text: "r"},
			Reward:   1,
		},
	}
	if d := cmp.Diff(want, got[0].Records, cmpopts.EquateEmpty()); d != "" {
		t.Error(d)
	}
	passage, err := builders.Resolve(g, got[0].Records[1].(*builders.Rollout).Messages)
	if err != nil {
		t.Fatal(err)
	}
	if n := passage.Nodes[3]; len(passage.Nodes) != 6 || n.TokenIDs[2] != 8 || n.LogProbs[1] != -0.25 ||
		passage.Nodes[5].Message.Text != "or here" {
		t.Errorf("%+v", passage.Nodes)
	}
}
