package scores

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/json"
)

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestGive(t *testing.T) {
	lines := write(t, "a.jsonl", `{"id": "x", "score": 0.5}
{"id": 7, "score": true}
{"id": "none", "score": null}
{"id": "two", "score": 1}
{"id": "two", "score": 0}
{"id": "same", "score": 1}
{"id": "same", "score": 1.0}
{"id": "gap", "score": NaN}
{"id": "empty", "score": ""}
{"id": "same", "score": NaN}
`)
	table := write(t, "b.csv", "id,score\nblank,\ny,0.25\nwon,True\nlost,false\nanother blank,\n")
	s, err := Read(context.Background(), &Config{Path: []string{lines, table}, Key: "id", Value: "score"})
	if err != nil {
		t.Fatal(err)
	}
	had := 1.0
	for id, want := range map[string]any{
		"x": 0.5, "7": 1.0, "none": nil, "two": nil, "same": 1.0, "y": 0.25, "won": 1.0, "lost": 0.0,
		"blank": nil, "gap": nil, "empty": nil, "unknown": nil,
	} {
		t.Run(id, func(t *testing.T) {
			ex := &ttc.Example{ID: id}
			s.Give(ex)
			switch {
			case want == nil && ex.Reward != nil:
				t.Errorf("%s: %v", id, *ex.Reward)
			case want != nil && (ex.Reward == nil || *ex.Reward != want):
				t.Errorf("%s: got %v, want %v", id, ex.Reward, want)
			}
		})
	}
	ex := &ttc.Example{ID: "two", Reward: &had}
	if s.Give(ex); *ex.Reward != 1 {
		t.Errorf("an id with two scores: %v", *ex.Reward)
	}
	ex = &ttc.Example{ID: "x", Reward: &had}
	if s.Give(ex); *ex.Reward != 0.5 || had != 1 {
		t.Errorf("%v, %v", *ex.Reward, had)
	}
	if given, replaced := s.Given(); given != 7 || replaced != 1 {
		t.Errorf("%d given, %d replaced", given, replaced)
	}
	if got := s.Conflicts(); got != `1 id with several scores, none of which is used: "two" has 1 and 0` {
		t.Error(got)
	}
}

func TestRefused(t *testing.T) {
	for text, why := range map[string]string{
		`{"name": "x", "score": 1}`:   `entry 1: entry has no "id"; its keys are name, score: specify the id's key with dataset.scores.key`,
		`{"id": "x", "reward": 1}`:    `dataset.scores.value`,
		`{"id": "x"} {"id": "y"}`:     `entry 1: entry has no "score"; its keys are id: specify the score's key`,
		`{"id": "x", "score": "hi"}`:  "expected a number as the score",
		`{"id": "x", "score": "inf"}`: "expected a number as the score",
		`{"id": "x", "score": "nan"}`: "no score",
		`{"id": "x", "score": [1]}`:   "expected a number as the score",
		`{"id": "x", "score": null}`:  "no score",
		`{"id": `:                     "a.jsonl",
	} {
		t.Run(text, func(t *testing.T) {
			_, err := Read(
				context.Background(),
				&Config{Path: []string{write(t, "a.jsonl", text)}, Key: "id", Value: "score"},
			)
			if err == nil || !strings.Contains(err.Error(), why) {
				t.Errorf("%s: got %v, want %s", text, err, why)
			}
		})
	}
}

// ran returns an example whose model ran commands, each given with its output: "command => result".
func ran(runs ...string) *ttc.Example {
	ex := &ttc.Example{ID: "x"}
	add := func(m chat.Message, s ttc.Sampled) {
		ex.Graph.Nodes = append(ex.Graph.Nodes,
			ttc.Node{Parent: len(ex.Graph.Nodes) - 1, Message: m, Sampled: s})
	}
	add(chat.Message{Role: "user", Text: "Fix it: 7 passed"}, ttc.No)
	for i, r := range runs {
		command, result, _ := strings.Cut(r, " => ")
		arguments := json.AppendString([]byte(`{"command":`), command)
		id := strconv.Itoa(i)
		add(chat.Message{Role: "assistant", ToolCalls: []chat.ToolCall{{
			ID: id, Name: "Bash", Arguments: string(arguments) + "}", Parsed: json.Raw(string(arguments) + "}"),
		}}}, ttc.Yes)
		add(chat.Message{Role: "tool", ToolCallID: id, Text: result}, ttc.No)
	}
	return ex
}

func TestRules(t *testing.T) {
	zero, one := 0.0, 1.0
	rules := []Rule{
		{Name: "failed", Tool: "^Bash$", Call: `(?m)^command: pytest "a b"`, Result: `\d+ failed`, Score: &zero},
		{Name: "passed", Tool: "^Bash$", Call: `pytest`, Result: `\d+ passed`, Score: &one},
		{Name: "share", Result: `score=(?P<score>\S+)`},
	}
	branched := ran(`pytest => 1 passed`, `pytest => 9 passed`)
	branched.Graph.Nodes[3].Parent = 0 // the first run is in an abandoned branch
	for name, c := range map[string]struct {
		ex   *ttc.Example
		want Evidence
	}{
		"nothing":            {ran(), Evidence{}},
		"what the user says": {ran("ls => x"), Evidence{}},
		"the last run":       {ran(`pytest "a b" => 2 failed`, "pytest => 3 passed"), Evidence{"passed", 1, 4, "Bash", "3 passed"}},
		"the first of rules": {ran(`pytest "a b" => 2 failed, 1 passed`), Evidence{"failed", 0, 2, "Bash", "2 failed, 1 passed"}},
		"another command": {
			ran("pytest => 3 passed", "echo 1 failed => 1 failed"),
			Evidence{"passed", 1, 2, "Bash", "3 passed"},
		},
		"a captured score": {
			ran("bench => a\n  score=0.25 ok\nb"),
			Evidence{"share", 0.25, 2, "Bash", "score=0.25 ok"},
		},
		"a captured no number":  {ran("bench => score=NaN"), Evidence{}},
		"the branch that lasts": {branched, Evidence{"passed", 1, 2, "Bash", "9 passed"}},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := NewRules(rules)
			if err != nil {
				t.Fatal(err)
			}
			got, _ := r.Of(c.ex)
			if d := cmp.Diff(c.want, got); d != "" {
				t.Error(d)
			}
			if r.Give(c.ex); (c.ex.Reward != nil) != (c.want.Rule != "") {
				t.Errorf("the reward is %v", c.ex.Reward)
			}
		})
	}
}

func TestRulesRefused(t *testing.T) {
	one := 1.0
	for want, rule := range map[string]Rule{
		"[0].tool: error parsing regexp": {Tool: "(", Result: "x", Score: &one},
		"[0].call: error parsing regexp": {Call: "[", Result: "x", Score: &one},
		"[0].result is empty":            {Score: &one},
		"[0]: expected a score, or a group (?P<score>...) in result, got neither": {Result: "x"},
		"[0]: expected a score, or a group (?P<score>...) in result, got both":    {Result: "(?P<score>x)", Score: &one},
	} {
		t.Run(want, func(t *testing.T) {
			if _, err := NewRules([]Rule{rule}); err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("%v", err)
			}
		})
	}
}
