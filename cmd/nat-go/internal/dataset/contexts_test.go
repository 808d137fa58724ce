package dataset

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/curate"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/recordlog"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/collator/rows"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	ownjson "github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// conversation is a rollout with a call and its result. Plain, it has neither.
func conversation(plain bool) *ttc.Example {
	ex := &ttc.Example{ID: "a", Task: "a"}
	messages := []chat.Message{
		{Role: "system", Form: chat.Text, Text: "be brief"},
		{Role: "user", Form: chat.Text, Text: "when is high tide?"},
	}
	if !plain {
		ex.Tools = []chat.Tool{{Name: "tide", Raw: ownjson.Raw(`{"type":"function","function":{"name":"tide"}}`)}}
		call := chat.ToolCall{ID: "1", Type: "function", Name: "tide", Arguments: `{"port": "\u00c5bo"}`}
		call.Parsed = ownjson.Raw(call.Arguments)
		messages = append(messages, chat.Message{Role: "assistant", ToolCalls: []chat.ToolCall{call}},
			chat.Message{Role: "tool", Form: chat.Text, Text: "at noon", ToolCallID: "1"})
	}
	messages = append(messages, chat.Message{Role: "assistant", Form: chat.Text, Text: "at noon, they say"})
	ex.Graph = ttc.Chain(messages, ttc.Yes)
	for i := range ex.Graph.Nodes {
		ex.Graph.Nodes[i].TokenIDs = []int32{int32(i), 7}
	}
	return ex
}

// recordsOf makes a demonstration, a preference, a rollout, a hint and a state of a conversation.
func recordsOf(ex *ttc.Example) []builders.Record {
	last, reward := len(ex.Graph.Nodes)-1, 1.0
	span := func(to, skip int) builders.Content {
		return builders.Content{Ref: builders.Ref{Part: builders.NodeSpan, Last: to, Skip: skip}}
	}
	return []builders.Record{
		&builders.Demonstration{Messages: span(last, 0), Weight: 1},
		&builders.Preference{
			Prompt: span(last-1, 0), Chosen: span(last, last), Reward: 1, ChosenScore: 1,
			Rejected: builders.Content{
				Ref:      builders.Ref{Part: builders.InlineMessages},
				Messages: []chat.Message{{Role: "assistant", Form: chat.Text, Text: "no idea"}},
			},
		},
		&builders.Rollout{Messages: span(last, 0), Reward: &reward, Task: "a"},
		&builders.Distillation{Messages: span(last, 0), Sites: []builders.Site{{Call: 2, Result: -1, Hint: "say when"}}},
		&builders.State{Messages: span(last-1, 0), Task: "a"},
	}
}

// writeConversation makes a run of records, all of them kept.
func writeConversation(t *testing.T, f Format, ex *ttc.Example, records ...builders.Record) (*Place,
	*runfolder.Manifest,
) {
	t.Helper()
	run := runfolder.Folder(t.TempDir())
	if err := os.MkdirAll(run.Records(), 0o750); err != nil {
		t.Fatal(err)
	}
	w, err := recordlog.Create(run.Records())
	if err != nil {
		t.Fatal(err)
	}
	b := recordlog.NewBuilder([]string{"mine"})
	b.Begin(&ttc.Group{Key: "a", Examples: []*ttc.Example{ex}})
	var sides []curate.Decision
	for _, r := range records {
		if err := b.Record(0, r); err != nil {
			t.Fatal(err)
		}
		sides = append(sides, curate.Train)
	}
	if err := w.Append(b.Group()); err != nil {
		t.Fatal(err)
	}
	if err := w.Commit(nil, true); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	m := &runfolder.Manifest{Rows: withTemplate}
	m.Dataset, err = Write(context.Background(), Spec{
		Options: withTemplate,
		Dir:     run.Dataset(), Log: run.Records(), Decisions: curate.Decided(sides), Formats: []Format{f},
		Dropped: func(ledger.Drop) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	if m.Dataset[0].Dropped > 0 {
		return nil, m
	}
	p, err := Find(string(run), DefaultLimits)
	if err != nil {
		t.Fatal(err)
	}
	return p, m
}

// holes are what makes the context of a row foreign: each changes a row, and reports whether it has such a place.
var holes = map[string]func(row map[string]any) bool{
	"a message is deleted": func(row map[string]any) bool {
		return eachList(row, func(list []any) ([]any, bool) {
			if len(list) < 2 || roleOf(list[0]) != "system" {
				return list, false
			}
			return list[1:], true
		})
	},
	"a result is another": func(row map[string]any) bool {
		if text, ok := row["prompt"].(string); ok {
			row["prompt"] = text + "!"
			return true
		}
		return eachList(row, func(list []any) ([]any, bool) {
			for _, m := range list {
				if role := roleOf(m); role == "tool" || role == "tool_response" || role == "user" && len(list) == 2 {
					m.(map[string]any)["content"] = "at dusk"
					return list, true
				}
			}
			return list, false
		})
	},
	"the tools are left out": func(row map[string]any) bool {
		for _, in := range []any{row, row["input"], row["extra_info"], row["responses_create_params"]} {
			if object, ok := in.(map[string]any); ok && object["tools"] != nil {
				delete(object, "tools")
				return true
			}
		}
		return false
	},
	"a turn is another": func(row map[string]any) bool {
		for _, key := range []string{"chosen", "chosen_response"} {
			if _, ok := row[key].(string); ok {
				row[key] = "no"
				return true
			}
		}
		done := false
		return eachList(row, func(list []any) ([]any, bool) {
			for _, m := range list {
				if object, ok := m.(map[string]any); ok && object["role"] == "assistant" && object["content"] != nil {
					object["content"] = "no"
					done = true
				}
			}
			return list, done
		}) && done
	},
}

func roleOf(m any) string {
	object, _ := m.(map[string]any)
	role, _ := object["role"].(string)
	return role
}

// eachList calls f for each list in a row, however deep, until it changes one.
func eachList(v any, f func([]any) ([]any, bool)) bool {
	switch v := v.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(func(yield func(string) bool) {
			for k := range v {
				if !yield(k) {
					return
				}
			}
		}) {
			if list, ok := v[key].([]any); ok {
				if out, did := f(list); did {
					v[key] = out
					return true
				}
			}
			if eachList(v[key], f) {
				return true
			}
		}
	case []any:
		for _, x := range v {
			if eachList(x, f) {
				return true
			}
		}
	}
	return false
}

// noPlace are the holes for which the rows of a format have no place, by the format's lines.
var noPlace = map[string][]string{
	"nemo_gym":       {"a turn is another"}, // the only one of the state is a call
	"trl_prompts":    {"a turn is another", "a message is deleted", "the tools are left out"},
	"nemo_rl":        {"the tools are left out"},
	"nemo_rl_ranked": {"the tools are left out"},
	"privileged":     {"the tools are left out", "a turn is another"}, // the hint is about the first turn
	"atropos":        slices.Collect(maps.Keys(holes)),                // it has token ids, which TestVerifyTokens changes
}

// TestAHoleIsFound: a row whose turn isn't trained in the context of its record is found in every format, by what the
// row says or by encoding the record again. Untouched, the rows are sound.
func TestAHoleIsFound(t *testing.T) {
	found := map[[2]string]bool{}
	for _, f := range Formats() {
		if f.FromBatches() {
			continue
		}
		for _, plain := range []bool{false, true} {
			for i, r := range recordsOf(conversation(plain)) {
				if !slices.Contains(f.Carries, r.Kind()) {
					continue
				}
				name := fmt.Sprintf("%s/%s/plain=%v", f.Name, r.Kind(), plain)
				t.Run(name, func(t *testing.T) {
					ex := conversation(plain)
					p, m := writeConversation(t, f, ex, recordsOf(ex)[i])
					if m.Dataset[0].Dropped > 0 {
						t.Skip("the format can't carry it")
					}
					if codes := verified(t, p, m); slices.Contains(codes, foreignContext) {
						t.Fatalf("as written: %v", codes)
					}
					for hole, cut := range holes {
						if !injected(t, p, f, m, cut) {
							continue
						}
						found[[2]string{f.Name, hole}] = true
						if codes := verified(t, p, m); !slices.Contains(codes, foreignContext) {
							t.Errorf("%s: not found; got %v", hole, codes)
						}
					}
				})
			}
		}
	}
	for _, f := range Formats() {
		for hole := range holes {
			if in := found[[2]string{f.Name, hole}]; !f.FromBatches() && in == slices.Contains(noPlace[f.Lines()], hole) {
				t.Errorf("%s: %s: was injected: %v", f.Name, hole, in)
			}
		}
	}
}

// verified returns the codes of what Verify and VerifyLog find.
func verified(t *testing.T, p *Place, m *runfolder.Manifest) (codes []string) {
	t.Helper()
	r, err := Verify(p, nil, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	d := curate.Decided([]curate.Decision{curate.Train})
	v := &verifier{report: r, more: map[string]int{}}
	if err := v.again(p, d, m); err != nil {
		t.Fatal(err)
	}
	for _, x := range r.Findings {
		codes = append(codes, x.Code)
	}
	return codes
}

// injected writes the files of a data set with a hole in their first row in which there is place for it. Each call
// begins with the rows as they were written.
func injected(t *testing.T, p *Place, f Format, m *runfolder.Manifest, cut func(map[string]any) bool) bool {
	t.Helper()
	did := false
	for _, file := range p.Formats[0].Files {
		whole := file.Path + ".whole"
		if _, err := os.Stat(whole); err != nil {
			b, err := os.ReadFile(file.Path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(whole, b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		var lines [][]byte
		err := summedLines(whole, rows.IsTable(file.Path), func(line []byte) {
			row := map[string]any{}
			if err := json.Unmarshal(line, &row); err != nil {
				t.Fatal(err)
			}
			if !did && cut(row) {
				did = true
				line, _ = json.Marshal(row)
			}
			lines = append(lines, bytes.Clone(line))
		})
		if err != nil {
			t.Fatal(err)
		}
		writeRows(t, file.Path, f, m.Dataset[0].Files[0].Kind, lines)
	}
	return did
}

// summedLines calls do for each row of a file.
func summedLines(path string, table bool, do func(line []byte)) error {
	each := func(_ int64, line []byte) error { do(line); return nil }
	if !table {
		return eachLine(path, DefaultLimits, each)
	}
	in, err := os.Open(path)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	return rows.EachTableRow(in, info.Size(), 0, each)
}

func writeRows(t *testing.T, path string, f Format, kind string, lines [][]byte) {
	t.Helper()
	out, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if !rows.IsTable(path) {
		fmt.Fprintf(out, "%s\n", bytes.Join(lines, []byte("\n")))
		return
	}
	k := builders.KindPreference
	for _, x := range f.Carries {
		if x.String() == kind {
			k = x
		}
	}
	table := f.NewTable(out, k, rows.Options{}, rows.Contents{
		Rich: bytes.Contains(bytes.Join(lines, nil), []byte("tool_calls")), Tools: bytes.Contains(bytes.Join(lines, nil), []byte(`"tools"`)),
	})
	for _, line := range lines {
		if err := table.Append(line); err != nil {
			t.Fatal(err)
		}
	}
	if err := table.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestChangedContextsAreNamed: rows.jsonl names what changed the contexts of a record's turns.
func TestChangedContextsAreNamed(t *testing.T) {
	trl, _ := Lookup("messages")
	inlined := func(change func([]chat.Message) []chat.Message) builders.Record {
		var ms []chat.Message
		for _, n := range conversation(false).Graph.Nodes {
			ms = append(ms, n.Message)
		}
		return &builders.Demonstration{Weight: 1, Messages: builders.Content{
			Ref: builders.Ref{Part: builders.InlineMessages}, Messages: change(ms),
		}}
	}
	redacted := conversation(false)
	redacted.Recorded = []ttc.History{1, 2, 3, 4, 5}
	for name, c := range map[string]struct {
		ex     *ttc.Example
		record builders.Record
		want   string
	}{
		"as recorded": {conversation(false), recordsOf(conversation(false))[0], ""},
		"written out": {conversation(false), inlined(func(ms []chat.Message) []chat.Message { return ms }), ""},
		"redacted": {
			redacted, recordsOf(conversation(false))[0],
			`,"changed":[{"turn":0,"by":"redaction","was":"0000000000000003"},{"turn":1,"by":"redaction","was":"0000000000000005"}]`,
		},
		"a call taken out": {
			conversation(false),
			inlined(func(ms []chat.Message) []chat.Message { return append(ms[:2:2], ms[4]) }),
			`,"changed":[{"turn":0,"by":"remove","was":`,
		},
		"other ids": {
			conversation(false),
			inlined(func(ms []chat.Message) []chat.Message {
				ms[2].ToolCalls[0].ID, ms[3].ToolCallID = "2", "2"
				return ms
			}),
			`"by":"call_ids"`,
		},
		"made up": {
			conversation(false),
			inlined(func(ms []chat.Message) []chat.Message { ms[3].Text = "at dusk"; return ms }),
			`,"changed":[{"turn":1,"by":"unknown"}]`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, _ := writeConversation(t, trl, c.ex, c.record)
			b, err := os.ReadFile(filepath.Join(p.Formats[0].Dir, originsName))
			if err != nil {
				t.Fatal(err)
			}
			if got := string(b); !strings.Contains(got, c.want) || c.want == "" && strings.Contains(got, "changed") {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

// TestSilentTurnsHaveNoContext checks that changes stay with their contexts when the contexts of silent turns are
// removed.
func TestSilentTurnsHaveNoContext(t *testing.T) {
	change := func(turn int, was ttc.History) builders.Change {
		return builders.Change{Turn: turn, By: builders.Redacted, Was: was}
	}
	got, changes := without([]int{1}, []ttc.History{10, 11, 12, 13},
		[]builders.Change{change(0, 1), change(1, 2), change(2, 3), change(3, 4)}, 2)
	if !slices.Equal(got, []ttc.History{10, 12}) ||
		!slices.Equal(changes, []builders.Change{change(0, 1), change(1, 3)}) {
		t.Errorf("got %v, %v", got, changes)
	}
}
