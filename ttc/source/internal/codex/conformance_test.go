package codex

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/internal/sessiontest"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/source/internal/exchange"
)

// item is one item from the wire.
type item struct {
	Type, Role, Name, Arguments, Input string
	CallID                             string `json:"call_id"`
	Content                            []struct{ Text string }
	Output                             string
}

// TestRecordedCalls compares the calls of a session with what was sent over the wire, item by item.
func TestRecordedCalls(t *testing.T) {
	dir := sessiontest.Recorded(t, "codex")
	b, err := os.ReadFile(filepath.Join(dir, "truth.json"))
	if err != nil {
		t.Fatal(err)
	}
	var truth struct {
		Calls []struct {
			ID       string `json:"response_id"`
			Messages int    `json:"messages_in_request"`
			Output   []item
		} `json:"model_calls"`
		Input []item `json:"input_of_last_call"`
	}
	if err := json.Unmarshal(b, &truth); err != nil {
		t.Fatal(err)
	}
	r := sessiontest.Read(t, Factory(), dir)
	if len(r.Examples) != 1 || r.Stats.Calls != int64(len(truth.Calls)) {
		t.Fatalf("%d examples, %+v", len(r.Examples), r.Stats)
	}
	ex := r.Examples[0]
	// The instructions that a session records are not quite those that were sent: the program left out a line about a
	// tool it didn't offer. Nothing in the session indicates this.
	const unsent = "- If you create a checklist or task list, you update item statuses incrementally as each item is completed " +
		"rather than marking every item done only at the end.\n"
	got := map[string][]string{} // the items in a call's history, by its answer
	for i := range ex.Graph.Nodes {
		if ex.Graph.Nodes[i].Sampled != ttc.Yes {
			continue
		}
		var history []string
		walk := ex.Graph.Branch(i)
		for _, n := range walk[:len(walk)-1] {
			for _, it := range items(&ex.Graph.Nodes[n].Message) {
				history = append(history, strings.Replace(it, unsent, "", 1))
			}
		}
		got[join(items(&ex.Graph.Nodes[i].Message))] = history
	}
	input := wire(truth.Input)
	for _, c := range truth.Calls {
		history, ok := got[join(wire(c.Output))]
		if !ok {
			t.Errorf("the call %s is not among the examples:\n%s", c.ID, join(wire(c.Output)))
			continue
		}
		if len(input) < len(history) || join(history) != join(input[:len(history)]) {
			t.Errorf("%s: the history is\n%s", c.ID, join(history))
		}
		if n := c.Messages - reasoningBefore(truth.Input[:c.Messages]); len(history) != n {
			t.Errorf("%s: a history of %d items, the request had %d", c.ID, len(history), n)
		}
	}
	if len(got) != len(truth.Calls) {
		t.Errorf("%d answers trained, %d calls", len(got), len(truth.Calls))
	}
}

// reasoningBefore counts reasoning, which is encrypted.
func reasoningBefore(items []item) (n int) {
	for _, it := range items {
		if it.Type == "reasoning" {
			n++
		}
	}
	return n
}

func items(m *chat.Message) (out []string) {
	if m.Role == "tool" {
		return []string{"result " + m.ToolCallID + " " + m.Text}
	}
	if m.Text != "" {
		out = append(out, m.Role+" "+m.Text)
	}
	for _, c := range m.ToolCalls {
		arguments := c.Arguments
		var patch struct{ Input *string }
		if json.Unmarshal([]byte(arguments), &patch) == nil && patch.Input != nil {
			arguments = *patch.Input
		}
		out = append(out, "call "+c.ID+" "+c.Name+" "+arguments)
	}
	return out
}

func wire(list []item) (out []string) {
	for _, it := range list {
		switch it.Type {
		case "message":
			text := ""
			for i, c := range it.Content {
				if i > 0 {
					text += "\n"
				}
				text += c.Text
			}
			out = append(out, exchange.Role(it.Role)+" "+text)
		case "function_call", "custom_tool_call":
			out = append(out, "call "+it.CallID+" "+it.Name+" "+it.Arguments+it.Input)
		case "function_call_output", "custom_tool_call_output":
			out = append(out, "result "+it.CallID+" "+it.Output)
		}
	}
	return out
}

func join(items []string) (s string) {
	for _, it := range items {
		s += it + "\n"
	}
	return s
}
