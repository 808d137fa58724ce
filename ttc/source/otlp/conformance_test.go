package otlp

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/calls"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/source/session/sessiontest"
)

// sent is a message as it went over the wire.
type sent struct {
	Role, Content string
	ToolCallID    string `json:"tool_call_id"`
	ToolCalls     []struct {
		ID, Name  string
		Arguments string `json:"arguments_as_sampled"`
	} `json:"tool_calls"`
	Failed bool
}

// wire are the calls of the recorded session: what each was given and wrote. Ids are numbered, because some
// instrumentations record others than were sent; spelled says whether arguments count as texts or as values.
func wire(t *testing.T, spelled bool) (out []string) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(sessiontest.Recorded(t), "conversation_truth.json"))
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
			message.ToolCalls = append(
				message.ToolCalls,
				chat.ToolCall{ID: c.ID, Name: c.Name, Arguments: c.Arguments},
			)
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

// trained are the calls that a reading trains, in the same form.
func trained(r sessiontest.Reading, spelled bool) (out []string) {
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

// exports are the recorded exports. spelled: they keep the arguments as the model wrote them; tools: they say which
// there were; failures: they say which results are failures.
var exports = map[string]struct{ spelled, tools, failures bool }{
	"v2_legacy":               {spelled: true},
	"v2_latest_span":          {failures: true},
	"v2_latest_event":         {failures: true},
	"v2_latest_both":          {failures: true},
	"openinference":           {spelled: true, tools: true, failures: true},
	"openinference_stream":    {spelled: true, tools: true, failures: true},
	"openinference_responses": {spelled: true, tools: true, failures: true},
	"openllmetry":             {tools: true},
	"openllmetry_stream":      {tools: true},
	"openllmetry_responses":   {tools: true},
	"openllmetry_events":      {spelled: true},
	"openllmetry_old":         {spelled: true, tools: true},
}

// TestRecordedCalls compares the calls of each recorded export, as a multiset, with what went over the wire.
func TestRecordedCalls(t *testing.T) {
	for name, has := range exports {
		t.Run(name, func(t *testing.T) {
			r := sessiontest.Read(t, Factory(), filepath.Join(sessiontest.Recorded(t, "otlp"), name, "*.jsonl"))
			want := wire(t, has.spelled)
			if got := trained(r, has.spelled); !slices.Equal(got, want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "--\n"), strings.Join(want, "--\n"))
			}
			if r.Stats.Calls != int64(len(want)) || len(r.Stats.Dropped) != 0 || len(r.Examples) != 1 {
				t.Fatalf("%d examples, %+v", len(r.Examples), r.Stats)
			}
			ex := r.Examples[0]
			if (len(ex.Tools) == 3) != has.tools {
				t.Errorf("%d tools", len(ex.Tools))
			}
			if want := map[bool]ttc.Fidelity{false: ttc.Partial, true: ttc.TextOnly}[has.tools]; ex.Fidelity != want {
				t.Errorf("fidelity %s", ex.Fidelity)
			}
			failed := 0
			for _, n := range ex.Graph.Nodes {
				if n.Error != nil && *n.Error {
					failed++
				}
			}
			if failed != map[bool]int{true: 1}[has.failures] {
				t.Errorf("%d failures are known", failed)
			}
		})
	}
}
