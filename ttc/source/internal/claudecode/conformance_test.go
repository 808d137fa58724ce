package claudecode

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nat-go/nat-go/internal/sessiontest"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/source/internal/session"
)

// truth is what was sent over the wire while the session was recorded.
type truth struct {
	Calls []struct {
		ResponseID string `json:"response_id"`
		Messages   int    `json:"messages_in_request"`
		Output     []struct {
			Type, Text, Thinking, Name, ID string
			Input                          json.RawMessage
		}
	} `json:"model_calls"`
}

func recorded(t *testing.T) (string, truth) {
	t.Helper()
	dir := sessiontest.Recorded(t, "claude_code")
	b, err := os.ReadFile(filepath.Join(dir, "truth.json"))
	if err != nil {
		t.Fatal(err)
	}
	var want truth
	if err := json.Unmarshal(b, &want); err != nil {
		t.Fatal(err)
	}
	return dir, want
}

// said returns an answer in the form that a comparison needs.
func said(m *chat.Message) string {
	out := "text " + m.Text + "\nreasoning " + m.Reasoning
	for _, c := range m.ToolCalls {
		out += "\ncall " + c.ID + " " + c.Name + " " + compact(c.Arguments)
	}
	return out
}

func compact(text string) string {
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		return text
	}
	b, _ := json.Marshal(v)
	return string(b)
}

// requestMessages returns how many request messages a history amounts to: the results of one turn go into one.
func requestMessages(g *ttc.Graph, walk []int) (n int) {
	last := ""
	for _, at := range walk {
		role := g.Nodes[at].Message.Role
		if role != "system" && (role != "tool" || last != "tool") {
			n++
		}
		last = role
	}
	return n
}

// TestRecordedCalls compares the calls of a session with what was sent over the wire: every answer appears once, with a
// history of the same number of messages; the call that the session doesn't contain is counted.
func TestRecordedCalls(t *testing.T) {
	dir, want := recorded(t)
	check := func(r sessiontest.Reading) {
		t.Helper()
		got := map[string]int{}
		for _, ex := range r.Examples {
			for i, n := range ex.Graph.Nodes {
				if n.Sampled == ttc.Yes {
					walk := ex.Graph.Branch(i)
					got[said(&n.Message)] = requestMessages(&ex.Graph, walk[:len(walk)-1])
				}
			}
		}
		stored := 0
		for _, c := range want.Calls {
			m := chat.Message{}
			for _, b := range c.Output {
				switch b.Type {
				case "text":
					m.Text = b.Text
				case "thinking":
					m.Reasoning = b.Thinking
				case "tool_use":
					m.ToolCalls = append(m.ToolCalls, chat.ToolCall{ID: b.ID, Name: b.Name, Arguments: string(b.Input)})
				}
			}
			n, ok := got[said(&m)]
			switch {
			case !ok && strings.Contains(c.ResponseID, "compact_5"):
			case !ok:
				t.Errorf("the call %s is not among the examples", c.ResponseID)
			case n != c.Messages:
				t.Errorf("%s: a history of %d messages, the request had %d", c.ResponseID, n, c.Messages)
			}
			if ok {
				stored++
			}
		}
		if stored != len(got) || r.Stats.Calls != int64(len(want.Calls)) ||
			r.Stats.Dropped["call"][session.UnstoredCall] != 1 {
			t.Errorf("%d answers trained, %d of %d calls stored, stats %+v", len(got), stored, len(want.Calls), r.Stats)
		}
	}
	r := sessiontest.Read(t, Factory(), dir)
	check(r)
	if len(r.Examples) != 1 || r.Examples[0].Fidelity != ttc.TextOnly || len(r.Examples[0].Tools) != 12 {
		t.Errorf("%+v", r.Examples)
	}

	// Without the logged requests the histories are pieced together, and are the same except for the joints between
	// texts.
	files, err := filepath.Glob(filepath.Join(dir, "projects", "*", "*.jsonl"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	b, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	old := slices.DeleteFunc(
		strings.Split(string(b), "\n"),
		func(l string) bool { return strings.HasPrefix(l, `{"type":"api-request`) },
	)
	rebuilt := sessiontest.ReadText(t, Factory(), "s.jsonl", strings.Join(old, "\n"))
	if len(rebuilt.Examples) != 1 || rebuilt.Examples[0].Fidelity != ttc.Partial {
		t.Errorf("%+v", rebuilt.Examples)
	}
	flat := func(ex *ttc.Example) []string {
		var out []string
		for _, leaf := range ex.Graph.Leaves() {
			text := ""
			for _, n := range ex.Graph.Branch(leaf) {
				m := ex.Graph.Nodes[n].Message
				text += said(&m)
			}
			text = strings.ReplaceAll(text, "text ", "\n")
			out = append(out, strings.Join(strings.Fields(strings.ReplaceAll(text, "reasoning ", "\n")), " "))
		}
		return out
	}
	if d := cmp.Diff(flat(r.Examples[0]), flat(rebuilt.Examples[0])); d != "" {
		t.Error(d)
	}
}
