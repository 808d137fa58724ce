package kit

import (
	"fmt"
	"strings"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/json"
)

// sampleGroups returns n varied groups, with scored candidates over several turns, a conversation with tool calls and
// an error, a branch, ids and log-probs, and rewards.
func sampleGroups(n int, unit builders.Unit) []*ttc.Group {
	var out []*ttc.Group
	for i := range n {
		g := &ttc.Group{Key: fmt.Sprintf("task%d", i)}
		members := 1
		if unit != builders.UnitExample {
			members = 3
		}
		for m := range members {
			g.Examples = append(g.Examples, sampleExample(fmt.Sprintf("ex%d-%d", i, m), g.Key, i*members+m))
		}
		out = append(out, g)
	}
	return out
}

func sampleExample(id, task string, row int) *ttc.Example {
	ex := &ttc.Example{
		ID: id, Task: task, Trial: fmt.Sprint(row), RawID: json.Raw(fmt.Sprintf("%q", id)),
		Row: int64(row), File: "sample.jsonl", Offset: int64(row) * 1000,
		Reward: new(float64(row%5) / 4), Policy: "sample-model", Fidelity: ttc.IDsLogProbs,
		Sampling: &ttc.Sampling{Temperature: 0.7, TopP: 1},
		Tools:    []chat.Tool{{Name: "search", Raw: json.Raw(`{"type":"function","function":{"name":"search","parameters":{"type":"object","properties":{"limit":{"type":"integer"}}}}}`)}},
	}
	say := func(parent int, role, text string, sampled ttc.Sampled) {
		ex.Graph.Nodes = append(ex.Graph.Nodes, ttc.Node{
			Parent: parent, Sampled: sampled, Message: chat.Message{Role: role, Form: chat.Text, Text: text},
		})
	}
	say(-1, "system", "You are helpful.", ttc.No)
	say(0, "user", "Find the answer to "+id, ttc.No)
	say(1, "assistant", "", ttc.Yes)
	ex.Graph.Nodes[2].Message.ToolCalls = []chat.ToolCall{{ID: "c1", Type: "function", Name: "search", Arguments: `{"limit":"many"}`, Parsed: json.Raw(`{"limit":"many"}`)}}
	ex.Graph.Nodes[2].TokenIDs, ex.Graph.Nodes[2].LogProbs = []int32{1, 2, 3}, []float32{-0.1, -0.2, -0.3}
	say(2, "tool", "Error: limit must be an integer", ttc.No)
	ex.Graph.Nodes[3].Message.ToolCallID, ex.Graph.Nodes[3].Error = "c1", new(true)
	say(3, "assistant", "It is forty-two.", ttc.Yes)
	say(3, "assistant", "I don't know.", ttc.Yes)
	for turn := range 2 {
		for c := range 4 {
			ex.Candidates = append(ex.Candidates, ttc.Candidate{
				Step:      "dpo_candidate_move",
				Turn:      fmt.Sprintf("turn%d", turn),
				TurnIndex: new(int64(turn)),
				Index:     int64(c),
				Prompt:    ttc.Prompt{Text: fmt.Sprintf("What now, %s, at %d?", id, turn)},
				Output:    fmt.Sprintf("Option %d of %s: %s", c, id, strings.Repeat("go on. ", c+1)),
				Score:     float64((c*7+row+turn)%4) / 3,
				Metadata:  json.Raw(`{"source":"sample"}`),
			})
		}
	}
	return ex
}

// emptyGroup returns a group whose example is empty.
func emptyGroup() *ttc.Group {
	return &ttc.Group{Key: "empty", Examples: []*ttc.Example{{ID: "empty"}}}
}

// hugeGroup returns a group far larger than a frame, with several strings longer than 1 MiB.
func hugeGroup() *ttc.Group {
	g := sampleGroups(1, builders.UnitExample)[0]
	ex := g.Examples[0]
	for i := range ex.Candidates {
		ex.Candidates[i].Output = fmt.Sprint(i, strings.Repeat(" long", 1<<19))
	}
	ex.Graph.Nodes[1].Message.Text = strings.Repeat("word ", 1<<18)
	return g
}

// oddTexts are strings that JSON can represent but that many programs handle wrongly: a lone surrogate in its 3-byte
// form, NUL, other planes, bidi controls, many combining characters.
var oddTexts = []string{
	"a\xed\xa0\x80b", "nul\x00nul", "🜁🜂\U0010ffff", "\u202eright to left", "e" + strings.Repeat("\u0301", 1000),
	"\r\n\u2028\u2029", "<|im_end|>",
}

func unicodeGroup() *ttc.Group {
	g := sampleGroups(1, builders.UnitExample)[0]
	g.Key = oddTexts[0]
	ex := g.Examples[0]
	for i := range ex.Candidates {
		ex.Candidates[i].Output = fmt.Sprint(i, oddTexts[i%len(oddTexts)])
		ex.Candidates[i].Prompt.Text = oddTexts[(i/4)%len(oddTexts)]
	}
	for i := range ex.Graph.Nodes {
		ex.Graph.Nodes[i].Message.Text = oddTexts[i%len(oddTexts)] + fmt.Sprint(i)
	}
	return g
}
