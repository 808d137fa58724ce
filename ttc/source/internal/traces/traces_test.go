package traces

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nat-go/nat-go/internal/oracletest"

	"github.com/nat-go/nat-go/builders/schema"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/ledger"
	"github.com/nat-go/nat-go/ttc/source/internal/source"
)

type result struct {
	examples []*ttc.Example
	cursors  []source.Cursor
	drops    []ledger.Drop
	stats    source.Stats
	inputs   []source.Input
}

func write(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func read(t testing.TB, change func(*Config), opt source.Options, paths ...string) (r result, err error) {
	t.Helper()
	cfg := schema.New[Config]()
	cfg.Path = paths
	if change != nil {
		change(&cfg)
	}
	opt.Drop = func(d ledger.Drop) { r.drops = append(r.drops, d) }
	s, err := Open(context.Background(), cfg, opt)
	if err != nil {
		return r, err
	}
	defer s.Close()
	for {
		ex, at, err := s.Next(context.Background())
		if err == io.EOF {
			r.stats, r.inputs = *s.Stats(), s.Inputs()
			return r, nil
		}
		if err != nil {
			return r, err
		}
		r.examples, r.cursors = append(r.examples, ex), append(r.cursors, at)
	}
}

func one(t testing.TB, change func(*Config), entry string) *ttc.Example {
	t.Helper()
	r, err := read(t, change, source.Options{}, write(t, fileName, entry))
	if err != nil || len(r.examples) != 1 {
		t.Fatalf("%d examples, drops %+v, error %v", len(r.examples), r.drops, err)
	}
	return r.examples[0]
}

// TestDuplicateKeys: the last of duplicates wins, also one that has no value.
func TestDuplicateKeys(t *testing.T) {
	ex := one(t, nil, `{"id":"a","task_id":"t","id":"b","task_id":null,"reward":1,"r\u0065ward":0,`+
		`"messages":[{"role":"user","content":"u"},{"role":"assistant","content":"a"}]}`)
	if ex.ID != "b" || ex.Task != "" || ex.Reward == nil || *ex.Reward != 0 {
		t.Errorf("id %q, task %q, reward %v", ex.ID, ex.Task, ex.Reward)
	}
}

func sampled(ex *ttc.Example) string {
	var b strings.Builder
	for _, n := range ex.Graph.Nodes {
		b.WriteByte("NYA"[n.Sampled])
	}
	return b.String()
}

const plain = `{"task_id": 3, "trial": 1, "reward": 0.5, "model": "m", "tools": [{"type": "function", "function": {"name": "f"}}], "messages": [
 {"role": "system", "content": "s"}, {"role": "user", "content": "u"}, {"role": "assistant", "content": null, "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{\"a\": 1}"}}]},
 {"role": "tool", "tool_call_id": "c", "name": "f", "content": "Error", "is_error": true}, {"role": "assistant", "content": "done", "reasoning_content": "hm"}], "finish_reason": "stop", "info": {"truth": 1}}`

// TestBeside: a demonstration has the text that stands below its prompt, and a pair its own system message.
func TestBeside(t *testing.T) {
	use := func(c *Config) { c.ContextKey, c.SystemKey = "input", "setup" }
	shown := one(t, use, `{"prompt": "q", "input": "c", "response": "a"}`)
	if got := shown.Graph.Nodes[0].Message.Text; got != "q\n\nc" {
		t.Errorf("the prompt is %q", got)
	}
	pair := one(t, use, `{"setup": "of all", "dpo_pairs": [`+
		`{"prompt": "q", "input": "c", "setup": "s", "chosen": "a", "rejected": "b"}]}`)
	m := pair.Candidates[0].Prompt.Messages
	if len(m) != 2 || m[0].Role != "system" || m[0].Text != "s" || m[1].Text != "q\n\nc" {
		t.Errorf("the pair was given %+v", m)
	}
}

// TestRepeatedTools: each entry has its own definitions, although definitions that repeat are read once.
func TestRepeatedTools(t *testing.T) {
	var text strings.Builder
	for _, name := range []string{"f", "f", "g", "f"} {
		fmt.Fprintf(&text, `{"tools": [{"name": %q}], "messages": [{"role": "user", "content": "u"}]}`+"\n", name)
	}
	r, err := read(t, nil, source.Options{}, write(t, "in.jsonl", text.String()))
	if err != nil {
		t.Fatal(err)
	}
	var got string
	for _, ex := range r.examples {
		got += ex.Tools[0].Name
	}
	if got != "ffgf" || &r.examples[0].Tools[0] != &r.examples[1].Tools[0] {
		t.Errorf("the tools are %s; the first two are read once: %t", got, &r.examples[0].Tools[0] == &r.examples[1].Tools[0])
	}
}

// TestMessageShapes reads a user's message as several writers have it, beside one as the chat API has it.
func TestMessageShapes(t *testing.T) {
	for name, message := range map[string]string{
		"chat API":          `{"role": "user", "content": "u"}`,
		"capitals":          `{"role": "USER", "content": "u"}`,
		"ShareGPT":          `{"from": "human", "value": "u"}`,
		"text":              `{"role": "user", "text": "u"}`,
		"Google":            `{"role": "user", "parts": [{"text": "u"}]}`,
		"Amazon":            `{"role": "user", "content": [{"text": "u"}]}`,
		"text beside":       `{"role": "user", "content": "u", "text": "another"}`,
		"of duplicate keys": `{"role": "model", "role": "user", "content": "u"}`,
	} {
		t.Run(name, func(t *testing.T) {
			m := one(t, nil, `{"messages": [`+message+`, {"role": "assistant", "content": "a"}]}`).Graph.Nodes[0].Message
			if m.Role != "user" || m.Text != "u" {
				t.Errorf("%+v", m)
			}
		})
	}
}

func TestEntry(t *testing.T) {
	ex := one(t, nil, plain)
	if ex.ID != "3/1" || ex.Task != "3" || ex.Trial != "1" || *ex.Reward != 0.5 || ex.Policy != "m" ||
		len(ex.Tools) != 1 || ex.Tools[0].Name != "f" {
		t.Errorf("%+v", ex)
	}
	n := ex.Graph.Nodes
	if sampled(ex) != "NNANA" || n[2].Message.Form != chat.Null || n[2].Message.ToolCalls[0].Arguments != `{"a": 1}` || string(n[2].Message.ToolCalls[0].Parsed) != `{"a": 1}` {
		t.Errorf("%s %+v", sampled(ex), n[2])
	}
	if n[3].Error == nil || !*n[3].Error || n[3].Message.Extra != nil || n[4].FinishReason != "stop" ||
		n[4].Message.Reasoning != "hm" || ex.Fidelity != ttc.TextOnly {
		t.Errorf("%+v %+v %d", n[3], n[4], ex.Fidelity)
	}
}

func TestAssumeSampled(t *testing.T) {
	for how, want := range map[string]string{"assistant": "NNANA", "last": "NNNNA", "none": "NNNNN"} {
		t.Run(how, func(t *testing.T) {
			if got := sampled(one(t, func(c *Config) { c.AssumeSampled = how }, plain)); got != want {
				t.Errorf("%s: got %s, want %s", how, got, want)
			}
		})
	}
}

func TestTraceSaysWhatWasSampled(t *testing.T) {
	ex := one(t, nil, `{"messages": [{"role": "user", "content": "u", "sampled": true}, {"role": "assistant", "content": "a", "weight": 0}, {"role": "assistant", "content": "b", "sampled": false},
	 {"role": "assistant", "content": "c", "token_ids": [5, 6], "logprobs": {"content": [{"logprob": -0.5}, {"logprob": 0}]}, "finish_reason": "length", "model": "other"}]}`)
	last := ex.Graph.Nodes[3]
	if sampled(ex) != "NNNY" || last.FinishReason != "length" || last.Policy != "other" ||
		!cmp.Equal(last.TokenIDs, []int32{5, 6}) || !cmp.Equal(last.LogProbs, []float32{-0.5, 0}) ||
		ex.Fidelity != ttc.IDsLogProbs {
		t.Errorf("%s %+v %d", sampled(ex), last, ex.Fidelity)
	}
	if ex.ID != "#0" {
		t.Errorf("id %q", ex.ID)
	}
}

func TestLegacyFunctionCall(t *testing.T) {
	ex := one(t, nil, `{"functions": "[{\"name\": \"f\"}]", "traj": [{"role": "assistant", "content": null, "function_call": {"name": "f", "arguments": "{}"}}, {"role": "function", "name": "f", "content": "r"}]}`)
	n := ex.Graph.Nodes
	if len(ex.Tools) != 1 || len(n[0].Message.ToolCalls) != 1 || n[0].Message.ToolCalls[0].Name != "f" ||
		n[1].Message.Role != "tool" || n[0].Message.Extra != nil {
		t.Errorf("%+v", n)
	}
}

// TestMembersBesideCalls: what a message with calls says about itself is read, also if the calls are written elsewhere.
func TestMembersBesideCalls(t *testing.T) {
	ex := one(t, nil, `{"messages": [{"from": "human", "value": "q"},
		{"from": "function_call", "value": "{\"name\": \"f\"}", "weight": 0, "model": "m"},
		{"from": "observation", "value": "r"}, {"from": "function_call", "value": "{\"name\": \"g\"}"}]}`)
	n := ex.Graph.Nodes
	if sampled(ex) != "NNNA" || n[1].Policy != "m" || n[1].Message.Form != chat.Null ||
		len(n[1].Message.ToolCalls) != 1 || n[1].Message.ToolCalls[0].Name != "f" {
		t.Errorf("%s %+v", sampled(ex), n[1])
	}
	ex = one(t, func(c *Config) { c.Shape = "ai_sdk" }, `{"messages": [{"role": "user", "content": "q"},
		{"role": "assistant", "weight": 0, "content": [
			{"type": "tool-call", "toolCallId": "c", "toolName": "f", "input": {}}]},
		{"role": "tool", "is_error": true, "content": [{"type": "tool-result", "toolCallId": "c", "output": "r"}]},
		{"role": "assistant", "content": [{"type": "text", "text": "a"}]}]}`)
	if n = ex.Graph.Nodes; sampled(ex) != "NNNA" || n[2].Error == nil || !*n[2].Error {
		t.Errorf("%s %+v", sampled(ex), n[2])
	}
}

func TestBadEntriesAreDroppedWithAReason(t *testing.T) {
	r, err := read(t, nil, source.Options{}, write(t, fileName, strings.Join([]string{
		`3`, `{}`, `{"messages": []}`, `{"messages": [{"content": "x"}]}`, `{"messages": [{"role": "assistant", "content": "x", "token_ids": [1], "logprobs": [-1, -2]}]}`,
		`{"messages": [{"role": "user", "content": "x"}], "reward": "good"}`, `{"messages": [{"role": "user", "content": "x"}], "reward": NaN, "id": "a"}`,
		`{"messages": [{"role": "user", "content": "x"}], "reward": NaN, "id": "a"}`, `{"messages": [{"role": "user", "content": "y"}], "id": "a"}`,
		`{"messages": [{"role": "assistant", "content": "x", "token_ids": [-1]}]}`, `{"messages": [{"role": "user", "content": "x"}], "tools": [3]}`,
	}, "\n")))
	if err != nil {
		t.Fatal(err)
	}
	var reasons []string
	for _, d := range r.drops {
		reasons = append(reasons, string(d.Reason))
		if d.Detail == "" || d.Example == "" {
			t.Errorf("drop %+v says nothing", d)
		}
	}
	if got := strings.Join(reasons, " "); got != "bad_example bad_example bad_example bad_example bad_example bad_example identical_row bad_example bad_example" {
		t.Error(got)
	}
	if len(r.examples) != 2 || r.examples[0].Reward != nil || r.examples[1].ID != "a#2" {
		t.Errorf("%+v", r.examples)
	}
	for _, a := range r.stats.Accounts() {
		if a.In != a.Out+a.DroppedTotal() {
			t.Errorf("books don't balance: %+v", a)
		}
	}
}

func TestArrayCompressedAndResumed(t *testing.T) {
	var packed bytes.Buffer
	gz := gzip.NewWriter(&packed)
	if _, err := io.WriteString(gz, "["+plain+","+strings.Replace(plain, `"trial": 1`, `"trial": 2`, 1)+","+strings.Replace(plain, `"trial": 1`, `"trial": 3`, 1)+"]"); err != nil {
		t.Fatal(err)
	}
	if err := gz.Close(); err != nil {
		t.Fatal(err)
	}
	path := write(t, "t.json.gz", packed.String())
	all, err := read(t, nil, source.Options{}, path)
	if err != nil || len(all.examples) != 3 {
		t.Fatalf("%d %v", len(all.examples), err)
	}
	rest, err := read(t, nil, source.Options{Resume: &all.cursors[0], Inputs: all.inputs}, path)
	if err != nil || len(rest.examples) != 2 || rest.examples[0].ID != "3/2" || rest.cursors[1] != all.cursors[2] {
		t.Fatalf("%+v %v", rest.cursors, err)
	}
	wrong := all.cursors[0]
	wrong.Sum++
	if _, err := read(t, nil, source.Options{Resume: &wrong}, path); err == nil {
		t.Error("a changed input was resumed")
	}
}

func TestToolsFile(t *testing.T) {
	tools := write(t, "tools.json", `[{"name": "g"}]`)
	ex := one(t, func(c *Config) { c.ToolsFile = tools }, `{"messages": [{"role": "user", "content": "x"}]}`)
	if len(ex.Tools) != 1 || ex.Tools[0].Name != "g" {
		t.Errorf("%+v", ex.Tools)
	}
	if _, err := read(t, func(c *Config) { c.ToolsFile = "missing.json" }, source.Options{},
		write(t, fileName, "{}")); err == nil {
		t.Error("a missing tools file was accepted")
	}
}

// TestTornLines: of a file whose first or last line is torn, the rest is read, and the loss is counted with its place.
func TestTornLines(t *testing.T) {
	row := func(id string) string {
		return `{"id": "` + id + `", "messages": [{"role": "user", "content": "q"}]}` + "\n"
	}
	long := strings.Repeat("x", 100_000)
	for name, c := range map[string]struct{ text, want string }{
		"first":            {`"content": "q"}]}` + "\n" + row("a") + row("b"), "a b, line at 0"},
		"the object first": {`{"content": "q"}]}` + "\n" + row("a"), "a, line at 0"},
		"not JSON":         {"not json\n" + row(long[:9]) + row("b"), long[:9] + " b, line at 0"},
		"before long ones": {"}\n" + row(long[:300]) + row("b"), long[:300] + " b, line at 0"},
		"last":             {row("a") + row("b") + `{"messages": [`, "a b, line at 120"},
		"a long last one":  {row("a") + `{"x": "` + long, "a, line at 60"},
		"both":             {"}\n" + row("a") + `{`, "a, line at 0, line at 62"},
		"whole":            {row("a") + strings.TrimSpace(row("b")), "a b"},
		"in the middle":    {row("a") + "}\n" + row("b"), "error"},
		"a list":           {"[" + row("a") + "," + `{"messages": [`, "error"},
		"several lines":    {"{\n" + row("a")[1:] + row("b"), "a b"},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := read(t, nil, source.Options{}, write(t, fileName, c.text))
			var ids []string
			for _, ex := range r.examples {
				ids = append(ids, ex.ID)
			}
			got := strings.Join(ids, " ")
			for _, d := range r.drops {
				got += fmt.Sprint(", ", d.Unit, " at ", d.Offset)
			}
			if err != nil {
				got = "error"
			}
			if got != c.want {
				t.Errorf("got %s (%v), want %s", got, err, c.want)
			}
		})
	}
}

// TestConformance loads the real runs as they are.
func TestConformance(t *testing.T) {
	dir := oracletest.Path(t, "chat", "traces")
	r, err := read(t, func(c *Config) { c.ToolsFile = filepath.Join(dir, "tools.json") }, source.Options{},
		filepath.Join(dir, "gpt-4o-airline-dev.json"))
	if err != nil {
		t.Fatal(err)
	}
	calls, tasks := 0, map[string]int{}
	for _, ex := range r.examples {
		tasks[ex.Task]++
		if ex.Reward == nil || ex.Trial == "" || len(ex.Tools) == 0 {
			t.Fatalf("%s: %+v", ex.ID, ex)
		}
		for _, n := range ex.Graph.Nodes {
			calls += len(n.Message.ToolCalls)
			if len(n.Message.Extra) > 0 {
				t.Errorf("%s: extra keys %v", ex.ID, n.Message.Extra)
			}
		}
	}
	if len(r.examples) != 100 || len(r.drops) != 0 || calls != 545 || len(tasks) != 25 || r.stats.MissingIDs != 0 {
		t.Errorf("%d examples, %d drops, %d calls, %d tasks, %d missing ids", len(r.examples), len(r.drops), calls,
			len(tasks), r.stats.MissingIDs)
	}
}

func BenchmarkRead(b *testing.B) {
	path := write(b, fileName, strings.Repeat(strings.ReplaceAll(plain, "\n", "")+"\n", 1000))
	b.SetBytes(int64(len(plain) * 1000))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := read(b, nil, source.Options{}, path); err != nil {
			b.Fatal(err)
		}
	}
}

// TestCandidatesOfATrace: an entry may hold candidates, which are read the way the source candidates reads them;
// anything that isn't a candidate is dropped with its reason.
func TestCandidatesOfATrace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.jsonl")
	line := `{"id":"a","messages":[{"role":"user","content":"q"},{"role":"assistant","content":"a"}],"candidates":[` +
		`{"turn_id":"t","prompt":[{"role":"user","content":"q"}],"output":"a","score":1,"model":"m"},{"turn_id":"t","prompt":"q","output":"b","score":0.5,"model":"m"},` +
		`{"turn_id":"t","output":"c"},7,{"turn_id":"u","output":3,"score":1}]}` + "\n" + `{"id":"b","messages":[{"role":"user","content":"q"}],"candidates":null}` + "\n"
	if err := os.WriteFile(path, []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := schema.New[Config]()
	cfg.Path = []string{path}
	var drops []string
	s, err := Open(context.Background(), cfg,
		source.Options{Drop: func(d ledger.Drop) { drops = append(drops, d.Unit+" "+string(d.Reason)) }})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	a, _, err := s.Next(context.Background())
	if err != nil || len(a.Candidates) != 2 || a.Candidates[0].Turn != "t" || a.Candidates[1].Index != 1 ||
		a.Candidates[0].Prompt.Form != ttc.MessagesPrompt || a.Policy != "m" {
		t.Errorf("%v %+v", err, a)
	}
	if b, _, err := s.Next(context.Background()); err != nil || len(b.Candidates) != 0 {
		t.Errorf("%v %+v", err, b)
	}
	if got := strings.Join(drops, ", "); got != "step no_score, step bad_step, step bad_output" {
		t.Error(got)
	}
	if st := s.Stats(); st.Steps != 5 || st.Candidates != 2 || st.Names["dpo_candidate_move"] != 2 {
		t.Errorf("%+v", st)
	}
}

// TestSampling checks that how a rollout was sampled is known completely or not at all.
func TestSampling(t *testing.T) {
	for raw, want := range map[string]*ttc.Sampling{
		`{"temperature":0.7,"top_p":0.9,"processed":true}`: {Temperature: 0.7, TopP: 0.9, Processed: true},
		`{"temperature":null}`:                             {Temperature: 1, TopP: 1},
		`{"temperature":"hot"}`:                            nil,
		`{"temperature":-1}`:                               nil,
		`{"temperature":NaN}`:                              nil,
		`{"top_p":Infinity}`:                               nil,
		`[]`:                                               nil,
	} {
		t.Run(raw, func(t *testing.T) {
			got := sampling(json.Raw(raw))
			if (got == nil) != (want == nil) || got != nil && *got != *want {
				t.Errorf("%s: %+v", raw, got)
			}
		})
	}
}

// TestTurnsAndPairs reads a trace as other collators store it, and ready-made pairs both in it and on their own, and
// counts what it can't use.
func TestTurnsAndPairs(t *testing.T) {
	text := `{"trace_id": "t1", "final_reward": 0.5, "turns": [
	  {"role": "user", "content": "fix main"},
	  {"role": "assistant", "content": "", "tool_call": {"name": "frob", "arguments": {"in": "main"}}, "tool_error": "unknown_tool"},
	  {"role": "tool", "content": "no such tool", "tool_error": "", "error_meta": {"tools": ["edit"]}},
	  {"role": "assistant", "content": "done", "tool_call": null, "tool_error": null}],
	 "dpo_pairs": [{"state_messages": [{"role": "user", "content": "q"}], "chosen": "c", "rejected": "r"}, {"chosen": "c", "rejected": 7},
	  {"chosen": "stateless", "rejected": "s"}]}
	{"prompt": "p", "chosen": [{"role": "assistant", "content": "good"}], "rejected": "bad"}`
	r, err := read(t, nil, source.Options{}, write(t, fileName, strings.ReplaceAll(text, "\n\t", " ")))
	if err != nil || len(r.examples) != 2 {
		t.Fatal(r.examples, err)
	}
	ex := r.examples[0]
	if ex.ID != "t1" || *ex.Reward != 0.5 || len(ex.Graph.Nodes) != 4 {
		t.Fatalf("%+v", ex)
	}
	if calls := ex.Graph.Nodes[1].Message.ToolCalls; len(calls) != 1 || calls[0].Name != "frob" || string(calls[0].Parsed) != `{"in": "main"}` {
		t.Errorf("%+v", calls)
	}
	if failed := ex.Graph.Nodes[2].Error; failed == nil || !*failed {
		t.Error("the result is not marked as an error")
	}
	var failures []string
	for _, n := range ex.Graph.Nodes {
		if f := n.Failure; f != nil {
			failures = append(failures, f.Kind+" "+string(f.Meta))
		}
		if n.Message.Extra != nil {
			t.Errorf("the message has %+v", n.Message.Extra)
		}
	}
	if want := []string{"unknown_tool ", ` {"tools": ["edit"]}`}; !slices.Equal(failures, want) {
		t.Errorf("got %q, want %q", failures, want)
	}
	var got []string
	for _, ex := range r.examples {
		for _, c := range ex.Candidates {
			got = append(got,
				fmt.Sprintf("%s %s %d %s%d %v", c.Turn, c.Output, c.Prompt.Form, c.Prompt.Text, len(c.Prompt.Messages), c.Score))
		}
	}
	want := []string{
		"dpo_pairs/0 c 1 1 1", "dpo_pairs/0 r 1 1 0", "dpo_pairs/2 stateless 1 0 1", "dpo_pairs/2 s 1 0 0",
		"pair good 0 p0 1", "pair bad 0 p0 0",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if len(r.drops) != 1 || r.drops[0].Reason != source.BadOutput || r.drops[0].N() != 2 ||
		r.drops[0].Turn != "dpo_pairs/1" {
		t.Errorf("%+v", r.drops)
	}
	for _, a := range r.stats.Accounts() {
		if a.In != a.Out+a.DroppedTotal() {
			t.Errorf("the books don't balance: %+v", a)
		}
	}
}

// TestReplays reads several teachers' answers to one state as a turn with that many candidates.
func TestReplays(t *testing.T) {
	ex := one(t, nil, `{"trace_id": "t1", "replays": [{"state_messages": [{"role": "user", "content": "q"}],
	  "answers": [{"content": "a", "score": 1, "teacher": "x"}, {"content": "b", "score": 0.5, "teacher": "y"},
	  {"content": "c", "score": 0.5}]}]}`)
	var got []string
	for _, c := range ex.Candidates {
		got = append(got, fmt.Sprintf("%s %d %s %v%s", c.Turn, c.Index, c.Output, c.Score, c.Metadata))
	}
	want := []string{`replays/0 0 a 1{"teacher": "x"}`, `replays/0 1 b 0.5{"teacher": "y"}`, "replays/0 2 c 0.5"}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// TestKeysWithoutAReader: a key that carries information but that nothing reads is reported with its position; others
// pass.
func TestKeysWithoutAReader(t *testing.T) {
	r, err := read(t, func(c *Config) { c.RewardKey = "score" }, source.Options{}, write(t, fileName,
		`{"id": "a", "score": 1, "info": 3, "advantages": [1], "mask": null, "traj": [], "messages": [
	  {"role": "user", "content": "q", "error_meta": {}}, {"role": "assistant", "content": "a", "weight": 0.5, "reward": 2, "color": 1, "tool_call": 7}, {"role": "assistant", "content": "b", "weight": 1}]}`))
	if err != nil || len(r.examples) != 1 {
		t.Fatal(err, r.drops)
	}
	var got []string
	for _, d := range r.drops {
		if d.Reason != source.KeyNotUsed || d.Unit != "key" || d.Example != "a" || d.File == "" {
			t.Errorf("%+v", d)
		}
		got = append(got, d.Detail)
	}
	slices.Sort(got)
	want := []string{
		"advantages", "assistant: reward", "assistant: tool_call", "assistant: weight", "traj",
		"user: error_meta without tool_error",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	for _, a := range r.stats.Accounts() {
		if a.In != a.Out+a.DroppedTotal() {
			t.Errorf("the books don't balance: %+v", a)
		}
	}
}

// TestComparisons: a pair's own scores count if they agree with it; several answers to one prompt become that many
// candidates.
func TestComparisons(t *testing.T) {
	for entry, want := range map[string]string{
		`{"prompt": "p", "chosen": "c", "rejected": "r", "score_chosen": 7, "score_rejected": 2.5}`:         "pair c 7, pair r 2.5",
		`{"prompt": "p", "chosen": "c", "rejected": "r", "chosen_score": 1, "rejected_score": 1}`:           "bad_score 2",
		`{"prompt": "p", "chosen": "c", "rejected": "r", "chosen_score": "x", "rejected_score": 1}`:         "bad_score 2",
		`{"prompt": "p", "answers": [{"content": "a", "score": 2}, {"text": "b", "reward": 1}]}`:            "answers a 2, answers b 1",
		`{"prompt": "p", "answers": [{"content": "a"}, 7, {"content": 3, "score": 1}, {"score": 1}]}`:       "no_score 1, bad_step 1, bad_output 1, bad_output 1",
		`{"replays": [{"state_messages": 3, "answers": []}, {"prompt": "p"}], "turns": [{"role": "user"}]}`: "bad_step 1, bad_step 1",
	} {
		t.Run(entry, func(t *testing.T) {
			r, err := read(t, nil, source.Options{}, write(t, "pairs.jsonl", entry))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, ex := range r.examples {
				for _, c := range ex.Candidates {
					got = append(got, fmt.Sprintf("%s %s %v", c.Turn, c.Output, c.Score))
				}
			}
			for _, d := range r.drops {
				got = append(got, fmt.Sprintf("%s %d", d.Reason, d.N()))
			}
			if strings.Join(got, ", ") != want {
				t.Errorf("%s: %q", entry, got)
			}
			for _, a := range r.stats.Accounts() {
				if a.In != a.Out+a.DroppedTotal() {
					t.Errorf("the books don't balance: %+v", a)
				}
			}
		})
	}
}

// TestGroupOverrides: a rollout's requests to a teacher for its task are read; nothing reads the rest of the object,
// and anything unreadable costs the entry.
func TestGroupOverrides(t *testing.T) {
	const entry = `{"id": "a", "group_overrides": %s, "messages": [
	  {"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]}`
	for overrides, want := range map[string]string{
		`null`:                  "nothing",
		`{}`:                    "nothing",
		`{"teacher_top_k": 40}`: "40",
		`{"teacher_top_k": 0}`:  "0",
		`{"teacher_top_k": -7, "skip_teacher_top_k": null}`:  "0",
		`{"teacher_top_k": null}`:                            "nothing",
		`{"skip_teacher_top_k": true, "teacher_top_k": 20}`:  "-1",
		`{"teacher_top_k": 20, "skip_teacher_top_k": true}`:  "-1",
		`{"teacher_top_k": 20, "skip_teacher_top_k": false}`: "20",
		`{"temperature": 1, "teacher_top_k": 1000}`:          "1000, unused group_overrides.temperature",
		`7`:                            "group_overrides: expected an object, got a number",
		`{"teacher_top_k": 1001}`:      "group_overrides: invalid teacher_top_k 1001: expected a whole number up to 1000",
		`{"teacher_top_k": "twenty"}`:  `group_overrides: invalid teacher_top_k "twenty": expected a whole number up to 1000`,
		`{"teacher_top_k": 1e400}`:     "group_overrides: invalid teacher_top_k 1e400: expected a whole number up to 1000",
		`{"teacher_top_k": 2.5}`:       "group_overrides: invalid teacher_top_k 2.5: expected a whole number up to 1000",
		`{"skip_teacher_top_k": "no"}`: `group_overrides: invalid skip_teacher_top_k "no": expected true or false`,
	} {
		t.Run(overrides, func(t *testing.T) {
			r, err := read(t, nil, source.Options{}, write(t, fileName, fmt.Sprintf(entry, overrides)))
			if err != nil {
				t.Fatal(err)
			}
			got := "nothing"
			if len(r.examples) == 1 && r.examples[0].TeacherTopK != nil {
				got = fmt.Sprint(*r.examples[0].TeacherTopK)
			}
			for _, d := range r.drops {
				switch d.Reason {
				case source.KeyNotUsed:
					got += ", unused " + d.Detail
				case source.BadExample:
					got = d.Detail
				}
			}
			if got != want {
				t.Errorf("%s: got %s, want %s", overrides, got, want)
			}
		})
	}
	ex := one(t, func(c *Config) { c.OverridesKey = "ask" }, `{"id": "a", "ask": {"teacher_top_k": 3}, "messages": [
	  {"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]}`)
	if ex.TeacherTopK == nil || *ex.TeacherTopK != 3 {
		t.Errorf("another key: %v", ex.TeacherTopK)
	}
}

// TestSidesOfPairs: the part with which both sides begin is the prompt; a side that is more than one assistant text is
// invalid.
func TestSidesOfPairs(t *testing.T) {
	const user = `{"role": "user", "content": "q"}`
	const call = `"tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]`
	side := func(text, more string) string {
		return `[` + user + `, {"role": "assistant", "content": "` + text + `"` + more + `}]`
	}
	ex := one(t, nil, `{"chosen": `+side("c", "")+`, "rejected": `+side("r", "")+`}`)
	for i, want := range []string{"c", "r"} {
		c := &ex.Candidates[i]
		if c.Output != want || c.Prompt.Form != ttc.MessagesPrompt || len(c.Prompt.Messages) != 1 ||
			c.Prompt.Messages[0].Text != "q" {
			t.Errorf("%+v", c)
		}
	}
	for _, bad := range []string{side("c", ", "+call), `7`, `[` + user + `]`} {
		r, err := read(t, nil, source.Options{}, write(t, fileName,
			`{"id": "a", "prompt": "q", "chosen": `+bad+`, "rejected": `+side("r", "")+`}`))
		if err != nil || len(r.drops) == 0 || r.drops[0].Reason != source.BadOutput {
			t.Errorf("%s: %+v, %v", bad, r.drops, err)
		}
	}
}

// TestNamedSides: the sides of a pair may be within objects, and a label may choose between them.
func TestNamedSides(t *testing.T) {
	nested := func(c *Config) { c.PromptKey, c.ChosenKey, c.RejectedKey = "f.q", "f.good", "f.bad" }
	chosen := func(c *Config) { c.PromptKey, c.FirstKey, c.SecondKey, c.ChoiceKey = "q", "a1", "a2", "best.is" }
	for text, set := range map[string]func(*Config){
		`{"f": {"q": "q", "good": "c", "bad": "r"}}`:               nested,
		`{"q": "q", "a1": "c", "a2": "r", "best": {"is": "left"}}`: chosen,
		`{"q": "q", "a1": "r", "a2": "c", "best": {"is": "2"}}`:    chosen,
		`{"q": "q", "a1": "r", "a2": "c", "best": {"is": ["a2"]}}`: chosen,
	} {
		ex := one(t, set, text)
		if len(ex.Candidates) != 2 || ex.Candidates[0].Output != "c" || ex.Candidates[1].Output != "r" ||
			ex.Candidates[0].Prompt.Text != "q" {
			t.Errorf("%s: %+v", text, ex.Candidates)
		}
	}
	for label, want := range map[string]string{"null": "neither answer is better", "3": "names neither a1 nor a2"} {
		r, err := read(t, chosen, source.Options{}, write(t, fileName,
			`{"q": "q", "a1": "r", "a2": "c", "best": {"is": `+label+`}}`))
		if err != nil || len(r.drops) == 0 || r.drops[0].Reason != source.BadScore ||
			!strings.Contains(r.drops[0].Detail, want) {
			t.Errorf("%s: %+v, %v", label, r.drops, err)
		}
	}
}
