package rows

import (
	"bytes"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/json"
)

// declared are records of all kinds: first plain ones, then ones with everything that a message can have.
func declared(rich bool) (all []*builders.Resolved) {
	prompt := messages(says("system", "2024-01-01"), says("user", "é"))
	answer := says("assistant", "2024-02-03")
	origin := &builders.Origin{}
	if rich {
		arguments := `{"date": "2024-01-01", "zone": null, "a": [1, "x", {}]}`
		answer = chat.Message{
			Role: "assistant", Form: chat.Null, ReasoningKey: "reasoning", Reasoning: "look it up",
			ToolCalls: []chat.ToolCall{{ID: "c1", Name: "f", Arguments: arguments, Parsed: json.Raw(arguments)}},
		}
		result := chat.Message{Role: "tool", Form: chat.Text, Text: "{}", ToolCallID: "c1", Name: "f"}
		call := answer
		prompt = messages(says("user", "q"), call, result)
		origin.Tools = []chat.Tool{{Raw: json.Raw(`{"type": "function", "function": {"name": "f", "default": null}}`)}}
	}
	pair := preference(prompt, messages(answer), messages(says("assistant", "no")))
	pair.Origin = origin
	lesson := &builders.Resolved{
		Record: &builders.Demonstration{Train: builders.TrainLast}, Origin: origin,
		Messages: messages(says("user", "q"), answer),
	}
	talk := &builders.Resolved{Record: &builders.Demonstration{}, Origin: origin, Messages: lesson.Messages}
	group := withIDs(rollout("t", 0.5, says("user", "q"), says("assistant", "a")))
	return []*builders.Resolved{preference(text("2024-01-01"), text("a"), text("b")), pair, lesson, talk, group}
}

// TestTablesReturnTheirLines checks that a format's table holds what its lines hold, with keys in order and dates and
// nulls unchanged, whatever a reader would guess, and that the same rows give the same bytes.
func TestTablesReturnTheirLines(t *testing.T) {
	tables := 0
	for _, f := range Formats() {
		table, ok := f.Table()
		if !ok {
			continue
		}
		for _, opts := range []Options{{}, {JSONColumns: JSONText}, {TextPrompt: PlainText}, {FullHistory: true}} {
			for _, rich := range []bool{false, true} {
				for _, kind := range f.Carries {
					tables += givesBack(t, f, table, opts, kind, declared(rich))
				}
			}
		}
	}
	if tables < 40 {
		t.Errorf("%d tables had rows", tables)
	}
}

func givesBack(t *testing.T, f, table Format, opts Options, kind builders.Kind, records []*builders.Resolved) int {
	t.Helper()
	var want []string
	var lines [][]byte
	var has Contents
	enc := NewEncoder(f, opts)
	for _, r := range records {
		if r.Record.Kind() != kind {
			continue
		}
		line, _, err := enc.Append(nil, Train, r)
		if err != nil {
			continue // not in this format
		}
		has.Note(r)
		for one := range bytes.Lines(line) {
			lines, want = append(lines, bytes.TrimSpace(one)), append(want, shown(t, f, one))
		}
	}
	if len(lines) == 0 {
		return 0
	}
	var files [2]bytes.Buffer
	for i := range files {
		w := table.NewTable(&files[i], kind, opts, has)
		for _, line := range lines {
			if err := w.Append(line); err != nil {
				t.Fatalf("%s of %ss: %v\n%s", table.Name, kind, err, line)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(files[0].Bytes(), files[1].Bytes()) {
		t.Errorf("%s: the same rows gave other bytes", table.Name)
	}
	whole, n := files[0].Bytes(), 0
	err := EachTableRow(bytes.NewReader(whole), int64(len(whole)), 0, func(_ int64, line []byte) error {
		if got := shown(t, table, line); n < len(want) && got != want[n] {
			t.Errorf("%s of %ss, %+v:\n%s, want\n%s", table.Name, kind, opts, got, want[n])
		}
		n++
		return nil
	})
	if err != nil || n != len(want) {
		t.Errorf("%s of %ss: %d rows of %d, %v", table.Name, kind, n, len(want), err)
	}
	return 1
}

// TestMessagesRows checks that what follows the last turn is left out and counted, and that trainers that train only
// the last turn are given what trains it.
func TestMessagesRows(t *testing.T) {
	talk := []chat.Message{says("user", "q"), says("assistant", "a"), says("user", "r"), says("assistant", "b")}
	trailing := append(talk[:4:4], says("user", "and?"), says("tool", "x"))
	const whole = `{"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}, ` +
		`{"role": "user", "content": "r"}, {"role": "assistant", "content": "b"}]}`
	for _, c := range []struct {
		name    string
		ms      []chat.Message
		train   builders.Train
		last    bool
		want    string // a refusal, or empty for the whole conversation
		trimmed int
	}{
		{"every turn", talk, builders.TrainAll, false, "", 0},
		{"every turn, with more after it", trailing, builders.TrainAll, false, "", 2},
		{
			"every turn of what trains the last", talk, builders.TrainLast, false,
			"the first one, message 1, is context only",
			0,
		},
		{"the last turn", talk, builders.TrainLast, true, "", 0},
		{"the last turn, with more after it", trailing, builders.TrainLast, true, "", 2},
		{"no turn", talk[:1], builders.TrainAll, false, "no turn of the record is trained on", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := &builders.Resolved{
				Record:   &builders.Demonstration{Train: c.train},
				Origin:   &builders.Origin{},
				Messages: messages(c.ms...),
			}
			enc := NewEncoder(chatRows, Options{LastTurn: c.last})
			got, _, err := enc.Append(nil, Train, r)
			trimmed, _ := enc.Omitted()
			switch {
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("%s: %s, %v", c.name, got, err)
			case c.want == "" && (err != nil || string(got) != whole || trimmed != c.trimmed):
				t.Errorf("%s: %s, %v, %d trimmed", c.name, got, err, trimmed)
			}
		})
	}
}

// shown returns a row as the format's reader sees it: every text, call, argument and label.
func shown(t *testing.T, f Format, line []byte) string {
	t.Helper()
	row, err := f.Read(bytes.TrimSpace(line))
	if err != nil {
		t.Fatalf("%s: %v\n%s", f.Name, err, line)
	}
	return inWords(row)
}

func inWords(row *Row) string {
	var b bytes.Buffer
	for _, p := range []builders.Passage{row.Prompt, row.Chosen, row.Rejected, row.Completion} {
		b.WriteString("| " + p.Text + " ")
		for i := range p.Nodes {
			m := &p.Nodes[i].Message
			b.WriteString(m.Role + ": " + m.Text + " " + m.Reasoning + " " + m.ToolCallID + " " + m.Name + " ")
			for _, c := range m.ToolCalls {
				b.WriteString(c.ID + c.Name)
				b.Write(json.AppendCompact(nil, c.Parsed))
			}
		}
	}
	if row.Label != nil && *row.Label {
		b.WriteString("good")
	}
	return strings.ReplaceAll(b.String(), ", ", ",")
}

// TestOptionalFalseStaysFalse: a loss of false that came back as null would be trained.
func TestOptionalFalseStaysFalse(t *testing.T) {
	const line = `{"messages": [{"role": "assistant", "content": "", "loss": false}, {"role": "user", "content": "q"}, ` +
		`{"role": "assistant", "content": "a", "loss": true}]}`
	var file bytes.Buffer
	table := msSwift.NewTable(&file, builders.KindDemonstration, Options{}, Contents{})
	if err := table.Append([]byte(line)); err != nil {
		t.Fatal(err)
	}
	if err := table.Close(); err != nil {
		t.Fatal(err)
	}
	var got string
	err := EachTableRow(bytes.NewReader(file.Bytes()), int64(file.Len()), 0, func(_ int64, line []byte) error {
		got = string(line)
		return nil
	})
	if err != nil || strings.Count(got, `"loss":false`)+strings.Count(got, `"loss": false`) != 1 {
		t.Errorf("%s (%v)", got, err)
	}
}
