package sessiontest

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/internal/calls"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
)

// sent is a message as sent over the wire.
type sent struct {
	Role, Content string
	ToolCallID    string `json:"tool_call_id"`
	ToolCalls     []struct {
		ID, Name  string
		Arguments string `json:"arguments_as_sampled"`
	} `json:"tool_calls"`
	Failed bool
}

// Wire returns the calls of the recorded session, each with its input and output. Call ids are replaced by numbers,
// because some instrumentations record ids that differ from the ones sent. If spelled is set, arguments are compared as
// text, otherwise as values.
func Wire(t testing.TB, spelled bool) (out []string) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(Recorded(t), "conversation_truth.json"))
	if err != nil {
		t.Fatal(err)
	}
	var truth struct{ Messages []sent }
	if err := json.Unmarshal(b, &truth); err != nil {
		t.Fatal(err)
	}
	var walk []chat.Message
	for _, m := range truth.Messages {
		message := chat.Message{Role: m.Role, Form: chat.Text, Text: m.Content, ToolCallID: m.ToolCallID}
		for _, c := range m.ToolCalls {
			message.ToolCalls = append(message.ToolCalls,
				chat.ToolCall{ID: c.ID, Name: c.Name, Arguments: c.Arguments})
		}
		walk = append(walk, message)
		if m.Role == "assistant" {
			out = append(out, shown(walk, spelled))
		}
	}
	slices.Sort(out)
	return out
}

func shown(walk []chat.Message, spelled bool) string {
	var b strings.Builder
	numbers := map[string]int{}
	number := func(id string) int {
		if _, ok := numbers[id]; !ok {
			numbers[id] = len(numbers) + 1
		}
		return numbers[id]
	}
	for _, m := range walk {
		text, _ := calls.Plain(&m)
		fmt.Fprintf(&b, "%s %q", m.Role, text)
		if m.Role == "tool" {
			fmt.Fprintf(&b, " answers %d", number(m.ToolCallID))
		}
		for _, c := range m.ToolCalls {
			arguments := c.Arguments
			if !spelled {
				var v any
				_ = json.Unmarshal([]byte(arguments), &v)
				arguments = fmt.Sprint(v)
			}
			fmt.Fprintf(&b, " call %d %s(%s)", number(c.ID), c.Name, arguments)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// Trained returns the calls in a reading that are trained on, in the same form as Wire.
func Trained(r Reading, spelled bool) (out []string) {
	for _, ex := range r.Examples {
		for i := range ex.Graph.Nodes {
			if ex.Graph.Nodes[i].Sampled != ttc.Yes {
				continue
			}
			var walk []chat.Message
			for _, n := range ex.Graph.Branch(i) {
				walk = append(walk, ex.Graph.Nodes[n].Message)
			}
			out = append(out, shown(walk, spelled))
		}
	}
	slices.Sort(out)
	return out
}
