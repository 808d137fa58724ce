package finetune

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nat-go/nat-go/internal/oracletest"
	"github.com/nat-go/nat-go/internal/pythontest"
)

// variant is a recorded rollout with one message changed.
type variant struct {
	task    int
	score   float64
	at      int    // index of the changed message; 0 means none
	says    string // the new text
	until   int    // index of the last message; 0 means all
	calls   string // the arguments at that message, spelled differently or changed
	another bool   // whether the calls have different ids
}

// recordedVariants are the rollouts whose divergences are compared. They diverge at the first answer, in the arguments
// of a call, at the last answer, in the environment's text, in the system prompt, or not at all. If two have the same
// text, no other score lies between their scores, because such pairs contradict each other and are dropped later.
func recordedVariants() []variant {
	return []variant{
		{score: 0.1},
		{score: 0.5, at: 2, says: "I ask someone."},
		{score: 0.6, at: 2, says: "Let me look up the order.", calls: `{"order_id":"1043"}`},
		{score: 0.9, at: 9, says: "It is done."},
		{score: 0.85, at: 9, says: "It is done."},
		{score: 0.3, at: 3, says: "The service is down."},
		{score: 0.7, at: 7, says: "It is covered.", another: true},
		{score: 0.8, at: 7, says: "It is covered.", until: 8},
		{score: 0.2, until: 6},
		{score: 0.25, at: 0, another: true},
		{score: 0.95, at: -1, says: "You are somebody else."},
		{task: 1, score: 0.2, at: 1, says: "Where is order 7?"},
	}
}

// line returns the rollout as a line of an input file.
func (v variant) line(t *testing.T, recorded string, n int) string {
	t.Helper()
	var episode map[string]any
	if err := json.Unmarshal([]byte(recorded), &episode); err != nil {
		t.Fatal(err)
	}
	id := fmt.Sprintf("rollout-%d", n)
	episode["id"] = id
	trace := episode["traces"].([]any)[0].(map[string]any)
	trace["id"] = id
	trace["rewards"] = map[string]any{"done": map[string]any{"score": v.score, "weight": 1}}
	trace["task"].(map[string]any)["key"] = fmt.Sprint("task ", v.task)
	nodes := trace["nodes"].([]any)
	if v.until > 0 {
		nodes = nodes[:v.until+1]
		trace["nodes"], trace["calls"] = nodes, []any{}
	}
	for i := range nodes {
		m := nodes[i].(map[string]any)["message"].(map[string]any)
		if i == max(v.at, 0) && v.says != "" {
			m["content"] = v.says
		}
		list, _ := m["tool_calls"].([]any)
		for _, c := range list {
			call := c.(map[string]any)
			if i == v.at && v.calls != "" {
				call["arguments"] = v.calls
			}
			if v.another {
				call["id"] = "other_" + call["id"].(string)
			}
		}
		if to, ok := m["tool_call_id"].(string); ok && v.another {
			m["tool_call_id"] = "other_" + to
		}
	}
	b, err := json.Marshal(episode)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestDivergenceOfRecordedRollouts builds pairs from rollouts that a real program recorded, with known changes. The
// pairs are exactly the ones that an independent script finds by comparing every two rollouts. A rollout of another
// task doesn't change any pair.
func TestDivergenceOfRecordedRollouts(t *testing.T) {
	recorded, _, _ := strings.Cut(
		string(readFile(t, oracletest.Path(t, "readers", "verifiers_v1", "eval", "traces.jsonl"))), "\n")
	script, err := filepath.Abs("testdata/divergence.py")
	if err != nil {
		t.Fatal(err)
	}
	pythontest.Long(t, "no independent script counts the pairs")
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("SKIPPED: there is no python3 for the independent script")
	}
	t.Chdir(t.TempDir())
	var lines []string
	for i, v := range recordedVariants() {
		lines = append(lines, v.line(t, recorded, i))
	}
	got := divergences(t, "few", lines)
	if err := os.WriteFile("few.jsonl", []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	found, err := exec.Command("python3", script, "few.jsonl").Output()
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Split(strings.TrimSpace(string(found)), "\n")
	if len(want) < 15 {
		t.Fatalf("the script finds only %d pairs", len(want))
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%d pairs, %d by the script: %s", len(got), len(want), d)
	}
	stranger := variant{task: 2, score: 0.99, at: 2, says: "I know that."}.line(t, recorded, 100)
	if d := cmp.Diff(got, divergences(t, "more", append([]string{stranger}, lines...))); d != "" {
		t.Errorf("a rollout of another task changed pairs: %s", d)
	}
}

// divergences returns the pairs of rollouts, sorted, in the script's form.
func divergences(t *testing.T, name string, lines []string) (out []string) {
	t.Helper()
	for file, text := range map[string]string{
		name + ".jsonl": strings.Join(lines, "\n") + "\n",
		name + ".yml": fmt.Sprintf(`sources: {runs: {_type: verifiers, path: %s.jsonl}}
trajectory_builders: {all: {_type: divergence_traj_builder, strategy: exhaustive}}
dataset: {formats: [trl], split: {validation: 0}}
finetuning: {enabled: true, trajectory_builder: all, output_dir: o}
`, name),
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	sum, err := Run(context.Background(), Request{ConfigFile: name + ".yml", RunID: name}, testEnv(t))
	if err != nil {
		t.Fatal(err)
	}
	rows := string(readFile(t, filepath.Join(sum.DatasetDir, "trl", "train.jsonl")))
	for line := range strings.Lines(rows) {
		var row struct{ Prompt, Chosen, Rejected []rowMessage }
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			t.Fatal(err)
		}
		out = append(out, fmt.Sprintf("[%s,%s,%s]", spoken(row.Prompt), spoken(row.Chosen), spoken(row.Rejected)))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// rowMessage is a message of a row.
type rowMessage struct {
	Role, Content string
	Calls         []struct {
		Function struct {
			Name      string
			Arguments json.RawMessage
		}
	} `json:"tool_calls"`
}

// spoken returns messages in the script's format.
func spoken(messages []rowMessage) string {
	var all []any
	for _, m := range messages {
		calls := []any{}
		for _, c := range m.Calls {
			var arguments any
			_ = json.Unmarshal(c.Function.Arguments, &arguments)
			calls = append(calls, []any{c.Function.Name, arguments})
		}
		all = append(all, []any{m.Role, m.Content, calls})
	}
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(all)
	return strings.TrimSpace(b.String())
}
