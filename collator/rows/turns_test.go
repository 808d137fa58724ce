package rows

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	natjson "github.com/nat-go/nat-go/ttc/json"
)

// failing is a rollout of five turns, the second of which made a call that failed and is context only.
func failing() *builders.Resolved {
	result := func(id, text string) chat.Message {
		return chat.Message{Role: "tool", Form: chat.Text, Text: text, ToolCallID: id}
	}
	made := func(id string) chat.Message {
		m := call
		m.ToolCalls = []chat.ToolCall{{ID: id, Name: "f", Arguments: `{"a": 1}`, Parsed: natjson.Raw(`{"a": 1}`)}}
		return m
	}
	return &builders.Resolved{
		Record: &builders.Demonstration{Train: builders.TrainFlagged, Trained: []bool{
			false, true, false, false, false, true, false, true, false, true,
		}},
		Origin: &builders.Origin{Tools: []chat.Tool{{Raw: natjson.Raw(`{"name": "f"}`)}}},
		Messages: messages(says("user", "q0"), made("1"), result("1", "r1"), made("2"), result("2", "failed"),
			made("3"), result("3", "r3"), says("assistant", "a7"), says("user", "q8"), says("assistant", "a9")),
	}
}

// TestMaskedTurns: whatever a format can't train apart from the rest, it never trains, and counts turn by turn.
func TestMaskedTurns(t *testing.T) {
	for name, c := range map[string]struct {
		format        Format
		opts          Options
		rows          int
		carried, lost int64
		last          string // the end of the last row
	}{
		"messages":      {chatRows, Options{}, 1, 1, 3, `"arguments": {"a":1}}}]}], "tools": [{"name":"f"}]}`},
		"customizer":    {customizer, Options{}, 1, 1, 3, `"arguments": {"a":1}}}]}], "tools": [{"name":"f"}]}`},
		"verl":          {verl, Options{}, 1, 1, 3, `"arguments": {"a":1}}}]}], "tools": [{"name":"f"}]}`},
		"last turn":     {chatRows, Options{LastTurn: true}, 4, 4, 0, `"content": "a9"}], "tools": [{"name":"f"}]}`},
		"trl":           {trl, Options{}, 4, 4, 0, `"completion": [{"role": "assistant", "content": "a9"}], "tools": [{"name":"f"}]}`},
		"trl, stretch":  {trl, Options{Stretch: true}, 2, 4, 0, `"content": "a9"}], "tools": [{"name":"f"}]}`},
		"axolotl":       {axolotl, Options{}, 1, 4, 0, `"content": "a9", "train": true}], "tools": "[{\"name\":\"f\"}]"}`},
		"ms_swift":      {msSwift, Options{}, 1, 4, 0, `"content": "a9", "loss": true}], "tools": "[{\"name\":\"f\"}]"}`},
		"openai_sft":    {openAISFT, Options{}, 1, 4, 0, `"content": "a9"}], "tools": [{"name":"f"}]}`},
		"axolotl table": {tableOf(axolotl), Options{}, 1, 4, 0, `"content": "a9", "train": true}], "tools": "[{\"name\":\"f\"}]"}`},
	} {
		t.Run(name, func(t *testing.T) {
			enc := NewEncoder(c.format, c.opts)
			got, n, err := enc.Append(nil, Train, failing())
			turns := enc.Turns()
			if err != nil || n != c.rows || turns.Carried != c.carried || turns.Lost != c.lost ||
				!strings.HasSuffix(string(got), c.last) {
				t.Fatalf("%d rows, %+v, %v:\n%s", n, turns, err, got)
			}
			if repeats := n > 1; repeats != (turns.Repeated > 0) {
				t.Errorf("%d rows repeat %d bytes", n, turns.Repeated)
			}
			counted := int64(0)
			for line := range strings.Lines(string(got)) {
				row, err := c.format.Read([]byte(strings.TrimSpace(line)))
				if err != nil {
					t.Fatalf("%v in %s", err, line)
				}
				counted += trainedIn(t, row, c.opts.LastTurn)
			}
			if counted != c.carried {
				t.Errorf("the rows train %d turns, not %d:\n%s", counted, c.carried, got)
			}
		})
	}
}

func tableOf(f Format) Format {
	table, _ := f.Table()
	return table
}

// trainedIn counts the turns of the record that a row trains, and fails for the one that is context only.
func trainedIn(t *testing.T, row *Row, last bool) (n int64) {
	t.Helper()
	nodes := append(row.Prompt.Nodes[:len(row.Prompt.Nodes):len(row.Prompt.Nodes)], row.Completion.Nodes...)
	for i := range nodes {
		m := &nodes[i].Message
		in := i >= len(row.Prompt.Nodes)
		trains := m.Role == "assistant" && (in || row.WholePrompt && !last)
		if row.Trained != nil {
			trains = row.Trained[i]
		}
		if !trains {
			continue
		}
		n++
		if i == 3 {
			t.Errorf("the turn whose call failed is trained: %+v", m)
		}
	}
	return n
}

// TestNothingBeforeTheMaskedTurn checks that a conversation whose first turn is only context isn't a row for a trainer
// of every turn.
func TestNothingBeforeTheMaskedTurn(t *testing.T) {
	r := failing()
	r.Record.(*builders.Demonstration).Trained[1] = false
	enc := NewEncoder(chatRows, Options{})
	_, _, err := enc.Append(nil, Train, r)
	var cannot *CannotCarry
	if !errors.As(err, &cannot) || enc.Turns() != (Turns{Lost: 3}) {
		t.Errorf("%v, %+v", err, enc.Turns())
	}
}

// TestSwiftResults: ms-swift knows results by their order alone.
func TestSwiftResults(t *testing.T) {
	two := call
	two.ToolCalls = []chat.ToolCall{
		{ID: "1", Name: "f", Arguments: "{}", Parsed: natjson.Raw("{}")},
		{ID: "2", Name: "g", Arguments: "{}", Parsed: natjson.Raw("{}")},
	}
	first := chat.Message{Role: "tool", Form: chat.Text, Text: "one", ToolCallID: "1"}
	second := chat.Message{Role: "tool", Form: chat.Text, Text: "two", ToolCallID: "2"}
	thought := says("assistant", "a")
	thought.Reasoning, thought.ReasoningKey = "so", "reasoning_content"
	record := func(ms ...chat.Message) *builders.Resolved {
		return &builders.Resolved{
			Record: &builders.Demonstration{}, Origin: &builders.Origin{}, Messages: messages(ms...),
		}
	}
	got, _, err := NewEncoder(msSwift, Options{}).Append(nil, Train, record(says("user", "q"), two, first, second,
		thought))
	const want = `{"messages": [{"role": "user", "content": "q"}, ` +
		`{"role": "tool_call", "content": "{\"name\": \"f\", \"arguments\": {}}", "loss": true}, ` +
		`{"role": "tool_call", "content": "{\"name\": \"g\", \"arguments\": {}}", "loss": true}, ` +
		`{"role": "tool_response", "content": "one"}, {"role": "tool_response", "content": "two"}, ` +
		`{"role": "assistant", "content": "<think>\nso\n</think>\n\na", "loss": true}]}`
	if err != nil || string(got) != want {
		t.Fatalf("%v\n%s\n%s", err, got, want)
	}
	row, err := msSwift.Read(got)
	if err != nil || len(row.Prompt.Nodes) != 4 || len(row.Prompt.Nodes[1].Message.ToolCalls) != 2 ||
		row.Completion.Nodes[0].Message.Reasoning != "so" {
		t.Errorf("%+v, %v", row, err)
	}
	_, _, err = NewEncoder(msSwift, Options{}).Append(nil, Train, record(says("user", "q"), two, second, first,
		thought))
	if err == nil || !strings.Contains(err.Error(), "is not the result of the next call") {
		t.Error(err)
	}
}

// TestReasoningAsContext: a format whose consumer can mask a part of a turn does; the others refuse by their name.
func TestReasoningAsContext(t *testing.T) {
	thought, inText := says("assistant", "a"), says("assistant", "<think>so</think>\n\nb")
	thought.Reasoning, thought.ReasoningKey = "so", "reasoning_content"
	spaced := thought
	spaced.Text = "a\n"
	calls := call
	calls.Reasoning, calls.ReasoningKey = "so", "reasoning_content"
	calls.ToolCalls = []chat.ToolCall{{ID: "1", Name: "f", Arguments: "{}", Parsed: natjson.Raw("{}")}}
	calls.Form, calls.Text = chat.Null, ""
	record := func(ms ...chat.Message) *builders.Resolved {
		return &builders.Resolved{
			Record: &builders.Demonstration{MaskReasoning: true}, Origin: &builders.Origin{}, Messages: messages(ms...),
		}
	}
	result := chat.Message{Role: "tool", Form: chat.Text, Text: "r", ToolCallID: "1"}
	got, _, err := NewEncoder(msSwift, Options{}).Append(nil, Train,
		record(says("user", "q"), calls, result, thought, says("user", "r"), inText))
	const want = `{"messages": [{"role": "user", "content": "q"}, ` +
		`{"role": "assistant", "content": "<think>\nso\n</think>\n\n", "loss": false}, ` +
		`{"role": "tool_call", "content": "{\"name\": \"f\", \"arguments\": {}}", "loss": true}, ` +
		`{"role": "tool_response", "content": "r"}, ` +
		`{"role": "assistant", "content": "<think>\nso\n</think>\n\n", "loss": false}, ` +
		`{"role": "assistant", "content": "a", "loss": true}, {"role": "user", "content": "r"}, ` +
		`{"role": "assistant", "content": "<think>so</think>\n\n", "loss": false}, ` +
		`{"role": "assistant", "content": "b", "loss": true}]}`
	if err != nil || string(got) != want {
		t.Fatalf("%v\n%s\n%s", err, got, want)
	}
	row, err := msSwift.Read(got)
	if err != nil || !row.MaskReasoning || len(row.Prompt.Nodes) != 6 ||
		row.Prompt.Nodes[1].Message.Reasoning != "so" ||
		len(row.Prompt.Nodes[1].Message.ToolCalls) != 1 || row.Prompt.Nodes[3].Message.Text != "a" || !row.Trained[3] {
		t.Errorf("%+v, %v", row, err)
	}
	once := record(says("user", "q"), thought, says("user", "r"), says("assistant", "b"))
	got, _, err = NewEncoder(axolotl, Options{}).Append(nil, Train, once)
	const flagged = `{"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a", ` +
		`"reasoning_content": "so", "train": true, "train_detail": [{"begin_offset": 0, "end_offset": 0, "train": true}]}, ` +
		`{"role": "user", "content": "r"}, {"role": "assistant", "content": "b", "train": true}]}`
	if err != nil || string(got) != flagged {
		t.Fatalf("%v\n%s\n%s", err, got, flagged)
	}
	if row, err = axolotl.Read(got); err != nil || !row.MaskReasoning || !row.Trained[1] {
		t.Errorf("%+v, %v", row, err)
	}
	if _, err = axolotl.Read(bytes.Replace(got, []byte(`"end_offset": 0`), []byte(`"end_offset": 1`), 1)); err == nil {
		t.Error("a part that isn't the whole text is read")
	}
	for _, f := range Formats() {
		if f.Lines() == msSwift.Name || !slices.Contains(f.Carries, builders.KindDemonstration) {
			continue
		}
		enc := NewEncoder(f, Options{})
		for i, m := range []chat.Message{inText, calls, spaced, thought} {
			if i == 3 && f.Lines() == axolotl.Name {
				continue
			}
			_, _, err := enc.Append(nil, Train, record(says("user", "q"), m))
			if err == nil || !strings.Contains(err.Error(), "in "+f.Name+" rows: cannot mask only the reasoning of message 1") ||
				enc.Turns() != (Turns{Lost: 1}) {
				t.Errorf("%s: %v, %+v", f.Name, err, enc.Turns())
			}
		}
		if _, _, err := enc.Append(nil, Train, record(says("user", "q"), says("assistant", "a"))); err != nil {
			t.Errorf("%s refuses a turn without reasoning: %v", f.Name, err)
		}
	}
}

// TestReasoningAlone: where reasoning is context, nothing of a turn that has nothing else is trained, not even its end.
func TestReasoningAlone(t *testing.T) {
	silent, inText := says("assistant", ""), says("assistant", "<think>so</think>\n\n")
	silent.Reasoning, silent.ReasoningKey = "so", "reasoning_content"
	for _, silent := range []chat.Message{silent, inText} {
		r := &builders.Resolved{
			Record: &builders.Demonstration{MaskReasoning: true}, Origin: &builders.Origin{},
			Messages: messages(says("system", "s"), says("user", "q"), silent, says("user", "r"), says("assistant", "a"),
				says("user", "s"), silent),
		}
		for _, f := range []Format{msSwift, axolotl, trl} {
			enc := NewEncoder(f, Options{})
			got, n, err := enc.Append(nil, Train, r)
			if err != nil || n != 1 || enc.Turns().Carried != 1 || enc.Turns().Lost != 2 {
				t.Fatalf("%s: %d rows, %+v, %v:\n%s", f.Name, n, enc.Turns(), err, got)
			}
			row, err := f.Read(got)
			if err != nil || trainedIn(t, row, false) != 1 || row.Completion.Nodes[0].Message.Text != "a" {
				t.Errorf("%s: %v in %s", f.Name, err, got)
			}
		}
	}
}

// TestHintsBeforeAUsersTurn: a hint makes a row if the turn that it is about answers a user; the others are counted.
func TestHintsBeforeAUsersTurn(t *testing.T) {
	result := chat.Message{Role: "tool", Form: chat.Text, Text: "r", ToolCallID: "1"}
	nodes := messages(says("user", "q"), call, result, says("assistant", "a"), says("user", "no"), call, result, says("user", "and"), call)
	r := &builders.Resolved{Origin: &builders.Origin{Tools: []chat.Tool{{Raw: natjson.Raw(`{"name": "f"}`)}}}, Messages: nodes}
	site := func(target builders.Target, call, result int, hint string) builders.Site {
		return builders.Site{Target: target, Call: call, Result: result, Hint: hint}
	}
	all := []builders.Site{
		site(builders.FailedTurn, 1, 2, "first"),   // after q
		site(builders.FailedTurn, 3, -1, "second"), // after a result
		site(builders.NextTurn, 1, 2, "third"),     // before message 3, after a result
		site(builders.NextTurn, 5, 6, "fourth"),    // before message 8, after a user
	}
	e := NewEncoder(privileged, Options{})
	r.Record = &builders.Distillation{Sites: all}
	got, n, err := e.Append(nil, Train, r)
	if err != nil || n != 2 || e.Turns() != (Turns{Carried: 2, Lost: 2}) {
		t.Fatalf("%d rows, %+v, %v: %s", n, e.Turns(), err, got)
	}
	first, second, _ := strings.Cut(string(got), "\n")
	if want := `{"prompt": [{"role": "user", "content": "q"}], "privileged_context": "first"}`; first != want {
		t.Errorf("got %s, want %s", first, want)
	}
	for _, line := range []string{first, second} {
		row, err := privileged.Read([]byte(line))
		if err != nil || row.Kind != builders.KindDistillation || len(row.Tools) != 0 {
			t.Errorf("%+v, %v", row, err)
		}
	}
	if !strings.HasSuffix(second, `{"role": "user", "content": "and"}], "privileged_context": "fourth"}`) {
		t.Error(second)
	}
	if !privileged.Partly(Options{}, r) {
		t.Error("the tools are not in the rows")
	}
	r.Record = &builders.Distillation{Sites: all[1:3]}
	if _, _, err = e.Append(nil, Train, r); err == nil || e.Turns() != (Turns{Lost: 2}) ||
		!strings.Contains(err.Error(), "no hint is about a turn that answers a user") {
		t.Errorf("%v, %+v", err, e.Turns())
	}
	_, err = privileged.Read([]byte(`{"prompt": [{"role": "assistant", "content": "a"}], "privileged_context": "h"}`))
	if err == nil || !strings.Contains(err.Error(), `"prompt" doesn't end in a user message`) {
		t.Error(err)
	}
}

// TestBeforeTarget checks where the prompt of a hint ends, and that damaged sites have none.
func TestBeforeTarget(t *testing.T) {
	nodes := make([]ttc.Node, 5)
	for i, role := range []string{"user", "assistant", "tool", "user", "assistant"} {
		nodes[i].Message.Role = role
	}
	for _, c := range []struct {
		site builders.Site
		want int
	}{
		{builders.Site{Call: 1, Result: 2, Target: builders.FailedTurn}, 1},
		{builders.Site{Call: 1, Result: 2, Target: builders.NextTurn}, 4},
		{builders.Site{Call: 1, Result: -1, Target: builders.FailedTurn}, 1},
		{builders.Site{Call: -1, Target: builders.FailedTurn}, 0},
		{builders.Site{Call: 6, Target: builders.FailedTurn}, 0},
		{builders.Site{Result: -2, Target: builders.NextTurn}, 0},
		{builders.Site{Result: 5, Target: builders.NextTurn}, 0},
		{builders.Site{Result: math.MaxInt, Target: builders.NextTurn}, 0},
	} {
		if got := len(beforeTarget(nodes, &c.site)); got != c.want {
			t.Errorf("%+v: got %d messages, want %d", c.site, got, c.want)
		}
	}
}
