//go:build tokenizers

package finetune

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage/read"
	"github.com/nat-go/nat-go/collator"
	"github.com/nat-go/nat-go/collator/batch"
	"github.com/nat-go/nat-go/collator/teacher"
	"github.com/nat-go/nat-go/collator/tokenizer"
	"github.com/nat-go/nat-go/collator/tokenview"
	"github.com/nat-go/nat-go/internal/tensors"
	"github.com/nat-go/nat-go/ttc/ledger"
)

const toolML = `{%- for m in messages %}<|im_start|>{{ m.role }}
{{ m.content or '' }}{%- for c in m.tool_calls or [] %}{{ '<tool_call>' + c.function.name + ' ' + c.function.arguments | tojson + '</tool_call>' }}{% endfor %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}`

const failedCall = `{"id":"e1","messages":[{"role":"user","content":"Weather in Oslo?"},` +
	`{"role":"assistant","content":"","tool_calls":[{"id":"c1","type":"function","function":{"name":"weather","arguments":"{\"town\": \"Oslo\"}"}}]},` +
	`{"role":"tool","tool_call_id":"c1","content":"Error: unknown argument town"},{"role":"assistant","content":"I could not find out."}]}` + "\n"

// standIn answers like a vLLM server, with a log-prob for the token at each position and lower ones for the following
// ids.
type standIn struct {
	t       *testing.T
	tok     *tokenizer.Tokenizer
	logProb func(text string) float64 // log-prob for sequences by their text
	closed  atomic.Bool               // whether it rejects the client's key
	spoils  atomic.Pointer[string]    // sequences with this text get an empty answer
	asked   atomic.Int64              // number of sequences
}

func (s *standIn) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.closed.Load() {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	var q struct {
		Prompt json.RawMessage `json:"prompt"`
		K      int             `json:"prompt_logprobs"`
	}
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		s.t.Error(err)
	}
	if r.URL.Path == "/tokenize" {
		var text string
		if err := json.Unmarshal(q.Prompt, &text); err != nil {
			s.t.Error(err)
		}
		enc, err := s.tok.Encode(text, tokenizer.Options{})
		if err != nil {
			s.t.Error(err)
		}
		json.NewEncoder(w).Encode(map[string]any{"tokens": enc.IDs})
		return
	}
	s.asked.Add(1)
	var ids []int32
	if err := json.Unmarshal(q.Prompt, &ids); err != nil {
		s.t.Error(err)
	}
	text, err := s.tok.Decode(ids, false)
	if err != nil {
		s.t.Error(err)
	}
	if bad := s.spoils.Load(); bad != nil && strings.Contains(text, *bad) {
		json.NewEncoder(w).Encode(map[string]any{"choices": []any{map[string]any{}}})
		return
	}
	list := []any{nil}
	for i := 1; i < len(ids); i++ {
		at := map[string]any{fmt.Sprint(ids[i]): map[string]any{"logprob": s.logProb(text)}}
		for k := range q.K {
			if id := fmt.Sprint((int(ids[i]) + 1 + k) % 300); at[id] == nil {
				at[id] = map[string]any{"logprob": -3 - float64(k)}
			}
		}
		list = append(list, at)
	}
	json.NewEncoder(w).Encode(map[string]any{"choices": []any{map[string]any{"prompt_logprobs": list}}})
}

// TestRunAsksTheTeacher checks that a run with collator.teacher has the teacher's columns in every sdpo batch and can
// be verified, and that a server's refusal to answer is an environment error.
func TestRunAsksTheTeacher(t *testing.T) {
	t.Chdir(t.TempDir())
	var works atomic.Bool
	stand := &standIn{t: t}
	stand.logProb = func(text string) float64 {
		if works.Load() && strings.Contains(text, "called city") {
			return -2
		}
		return -0.5
	}
	server := httptest.NewServer(stand)
	defer server.Close()
	yaml := `trajectory_builders: {hints: {_type: sdpo_traj_builder, detect: {match: [{pattern: "^Error", class: bad_args}]}, hints: {rules: [{text: "The argument is called city."}]}}}
finetuning: {enabled: true, trajectory_builder: hints, output_dir: o}
collator: {tokenizer: tokenizer.json, template: tool.jinja, max_length: 1024, batch_tokens: 8192, teacher: {endpoint: "` + server.URL + `", model: m, top_k: 3}}
`
	for name, content := range map[string][]byte{
		"tokenizer.json": bytesTokenizer(t),
		"tool.jinja":     []byte(toolML),
		"t.yml":          []byte(yaml),
		"in.jsonl":       []byte(failedCall),
	} {
		if err := os.WriteFile(name, content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	tok, err := tokenizer.Load("tokenizer.json")
	if err != nil {
		t.Fatal(err)
	}
	defer tok.Close()
	stand.tok = tok
	sum, err := Run(
		context.Background(),
		Request{ConfigFile: "t.yml", RunID: "a", OutputDir: "o", Choice: read.Choice{From: []string{"in.jsonl"}}},
		testEnv(t),
	)
	if err != nil {
		t.Fatal(err)
	}
	if sum.Batches == nil || sum.Batches.Teacher == nil || sum.Batches.Teacher.Asked.Pairs == 0 ||
		sum.Batches.Teacher.Asked.Scored != sum.Batches.Teacher.Asked.Pairs {
		t.Fatalf("batches: %+v", sum.Batches)
	}
	if report, err := collator.Verify("o/a", tok); err != nil || len(report.Problems) > 0 {
		t.Errorf("%v, %v", report, err)
	}
	files, _ := filepath.Glob("o/a/batches/sdpo/*/*.safetensors")
	if len(files) == 0 || !strings.Contains(string(readFile(t, files[0])), "pair_teacher_topk_logprobs") {
		t.Errorf("no teacher columns in %v", files)
	}
	// Logits dumped for the batches reweight the same run's sites; the batches can still be verified.
	for _, file := range files {
		name, _ := filepath.Rel("o/a/batches", file)
		if err := os.MkdirAll(filepath.Dir(filepath.Join("dumps", name)), 0o755); err != nil {
			t.Fatal(err)
		}
		n := sum.Batches.Teacher.Asked.Pairs
		const columns = 512 // more than the tokenizer has
		apart := make([]float32, columns*n)
		apart[0] = 3
		var b bytes.Buffer
		if err := tensors.Write(&b,
			[]tensors.Tensor{
				tensors.Of("student_logits", make([]float32, columns*n), n, columns),
				tensors.Of("teacher_logits", apart, n, columns),
			}, nil); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join("dumps", name), b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	weighed := strings.Replace(yaml, "top_k: 3", "top_k: 3, dumps: dumps, use: weights, min_jsd: 1e-6", 1)
	if err := os.WriteFile("w.yml", []byte(weighed), 0o644); err != nil {
		t.Fatal(err)
	}
	sum, err = Run(
		context.Background(),
		Request{ConfigFile: "w.yml", RunID: "w", OutputDir: "o", Choice: read.Choice{From: []string{"in.jsonl"}}},
		testEnv(t),
	)
	if err != nil || sum.Batches.Teacher.Weighed == nil || sum.Batches.Teacher.Weighed.Sites != 1 ||
		sum.Batches.Teacher.Weighed.Mean <= 0 {
		t.Fatalf("%v, %+v", err, sum.Batches)
	}
	if report, err := collator.Verify("o/w", tok); err != nil || len(report.Problems) > 0 {
		t.Errorf("%v, %v", report, err)
	}
	// A hint without effect is dropped, listed and counted, and gets no weight. A hint that makes the failed turn less
	// likely stays.
	effect := strings.Replace(yaml, "top_k: 3", "top_k: 3, hint_effect: true, min_effect: 0.1", 1)
	if err := os.WriteFile("e.yml", []byte(effect), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		id     string
		works  bool
		reason ledger.Reason
	}{{"idle", false, teacher.HintNoEffect}, {"works", true, ""}} {
		t.Run(c.id, func(t *testing.T) {
			works.Store(c.works)
			sum, err := Run(
				context.Background(),
				Request{
					ConfigFile: "e.yml", RunID: c.id, OutputDir: "o", Choice: read.Choice{From: []string{"in.jsonl"}},
				},
				testEnv(t),
			)
			if err != nil || sum.Batches.Teacher.Hints == nil || sum.Batches.Teacher.Hints.Sites != 1 ||
				sum.Batches.Teacher.Hints.Neutral != 1 {
				t.Fatalf("%s: %v, %+v", c.id, err, sum.Batches)
			}
			dropped := string(readFile(t, filepath.Join("o", c.id, "dropped.jsonl")))
			if c.works {
				if sum.Batches.Teacher.Kept() != 1 || strings.Contains(dropped, `"stage":"teacher"`) ||
					math.Abs(sum.Batches.Teacher.Hints.Mean-1.5) > 1e-6 {
					t.Errorf("%+v %s", sum.Batches.Teacher, dropped)
				}
			} else if sum.Batches.Teacher.Kept() != 0 || sum.Counts.Dropped[c.reason] != 1 || !strings.Contains(dropped, `"stage":"teacher","reason":"hint_no_effect","unit":"site","run":0,"example":"e1"`) {
				t.Errorf("%+v %+v %s", sum.Batches.Teacher, sum.Counts, dropped)
			}
			if report, err := collator.Verify(filepath.Join("o", c.id), tok); err != nil || len(report.Problems) > 0 {
				t.Errorf("%s: %v, %v", c.id, report, err)
			}
		})
	}
	// A row that the teacher can't score is dropped in the same way.
	stand.spoils.Store(new(""))
	sum, err = Run(
		context.Background(),
		Request{ConfigFile: "t.yml", RunID: "broken", OutputDir: "o", Choice: read.Choice{From: []string{"in.jsonl"}}},
		testEnv(t),
	)
	if dropped := string(readFile(t, "o/broken/dropped.jsonl")); err != nil ||
		sum.Counts.Dropped[teacher.TeacherBadAnswer] != 1 ||
		!strings.Contains(dropped, "missing prompt_logprobs") {
		t.Errorf("%v %+v %s", err, sum.Counts, dropped)
	}
	stand.closed.Store(true)
	_, err = Run(
		context.Background(),
		Request{ConfigFile: "t.yml", RunID: "b", OutputDir: "o", Choice: read.Choice{From: []string{"in.jsonl"}}},
		testEnv(t),
	)
	if exit.Code(err) != exit.Environment {
		t.Errorf("a server that refuses the key: %v", err)
	}
}

// TestRunAsksSeveralTeachers checks that rollouts get the weighted sum of two teachers' log-probs, and that a task's
// group_overrides take precedence over top_k in the batches, the index and the output. If one teacher fails on a
// rollout, the rollout's group has no columns, which is counted and warned about, and a resumed run asks only that
// teacher.
func TestRunAsksSeveralTeachers(t *testing.T) {
	t.Chdir(t.TempDir())
	tokenizerJSON := bytesTokenizer(t)
	if err := os.WriteFile("tokenizer.json", tokenizerJSON, 0o644); err != nil {
		t.Fatal(err)
	}
	tok, err := tokenizer.Load("tokenizer.json")
	if err != nil {
		t.Fatal(err)
	}
	defer tok.Close()
	teacherOf := func(logProb float64) (*standIn, string) {
		s := &standIn{t: t, tok: tok, logProb: func(string) float64 { return logProb }}
		server := httptest.NewServer(s)
		t.Cleanup(server.Close)
		return s, server.URL
	}
	large, largeURL := teacherOf(-0.5)
	small, smallURL := teacherOf(-2)
	var lines []string
	for task, overrides := range []string{"", `{"teacher_top_k": 5}`, `{"skip_teacher_top_k": true}`, ""} {
		for trial := range 2 {
			line := ownTrace(t, tok, task, trial)
			if overrides != "" && trial == 0 { // overrides in one rollout apply to the task
				line = strings.Replace(line, "{", `{"group_overrides": `+overrides+`, `, 1)
			}
			if task == 1 && trial == 1 {
				line = strings.Replace(line, "{", `{"group_overrides": {"teacher_top_k": 4}, `, 1)
			}
			lines = append(lines, line)
		}
	}
	const yaml = `sources: {runs: {_type: traces, path: traces.jsonl}}
trajectory_builders: {tasks: {_type: grpo_traj_builder}}
finetuning: {enabled: true, trajectory_builder: tasks, output_dir: o}
collator:
  {tokenizer: tokenizer.json, template: calls.jinja, policy: me, max_length: 2048, batch_tokens: 8192, teacher:
    {rollouts: true, top_k: 3, servers: [{name: large, endpoint: "%s", model: m, weight: 3}, {name: small, endpoint: "%s", model: m}]}}
`
	for name, content := range map[string]string{
		"traces.jsonl": strings.Join(lines, "\n") + "\n",
		"calls.jinja":  callML,
		"t.yml":        fmt.Sprintf(yaml, largeURL, smallURL),
	} {
		if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	small.spoils.Store(new("in town 3"))
	sum, err := Run(context.Background(), Request{ConfigFile: "t.yml", RunID: "r"}, testEnv(t))
	if err != nil {
		t.Fatal(err)
	}
	g := sum.Batches.Teacher.Groups
	if g == nil || g.Rows != 6 || g.Excused != 2 || g.Groups != 3 || g.Without != 1 || g.By["small"] != 2 ||
		g.Failed[teacher.TeacherBadAnswer] != 2 {
		t.Fatalf("%+v", g)
	}
	if n := sum.Counts.Dropped["key_differs"]; n != 1 {
		t.Errorf("%d keys differ: %s", n, readFile(t, "o/r/dropped.jsonl"))
	}
	if report, err := collator.Verify(sum.RunDir, tok); err != nil || len(report.Problems) > 0 {
		t.Errorf("%v, %+v", report, err)
	}
	own := math.Log(0.75*math.Exp(-0.5) + 0.25*math.Exp(-2))
	index, err := batch.ReadIndex(filepath.Join(sum.RunDir, "batches", batch.IndexName))
	if err != nil {
		t.Fatal(err)
	}
	entries := map[string]int{"0": 3, "1": 5, "2": 0, "3": 0}
	for _, l := range index {
		file, err := tensors.OpenFile(filepath.Join(sum.RunDir, "batches", l.File))
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		column, err := file.Read(batch.TeacherIDs)
		if err != nil {
			t.Fatal(err)
		}
		ids, _ := tensors.Items[int64](column)
		for r, m := range l.RowInfo {
			task, _, _ := strings.Cut(strings.TrimPrefix(m.Example, "t"), "-")
			n, at := 0, (r*column.Shape[1]+1)*column.Shape[2]
			for n < column.Shape[2] && ids[at+n] >= 0 {
				n++
			}
			said := m.RL.Teacher
			if n != entries[task] || (said == nil) != (task == "2") ||
				task == "3" && said.Failed != string(teacher.TeacherBadAnswer) {
				t.Errorf("%s: %d entries, %+v", m.Example, n, said)
			}
			if n > 0 && (said.TopK != n || said.LogProb == nil || math.Abs(*said.LogProb-own) > 1e-6 ||
				math.Abs(said.By["large"]+0.5) > 1e-6 || math.Abs(said.By["small"]+2) > 1e-6) {
				t.Errorf("%s: got %+v, want %g", m.Example, said, own)
			}
			if (task == "1" && *m.RL.TeacherTopK != 5) || task == "0" && m.RL.TeacherTopK != nil {
				t.Errorf("%s: %+v", m.Example, m.RL)
			}
			v, err := tokenview.ReadRow(sum.RunDir, fmt.Sprintf("%s:%d", l.File, r+1), tok)
			if err != nil {
				t.Fatal(err)
			}
			var shown strings.Builder
			if err := v.Print(&shown, tokenview.Look{}); err != nil {
				t.Fatal(err)
			}
			if want := map[string]string{
				"0": "teacher: the best 3 tokens at each position; trained tokens -0.716 nats on average (large -0.5, small -2)\n",
				"1": "teacher: the best 5 tokens",
				"2": "teacher: none, as the task requests\n",
				"3": "teacher: none (teacher_bad_answer)\n",
			}[task]; !strings.Contains(shown.String(), want) {
				t.Errorf("%s: want %q in\n%s", m.Example, want, &shown)
			}
		}
	}
	// Answers are stored by teacher. When the run is repeated up to that point, it asks only the failed questions, and
	// only the teachers that failed.
	small.spoils.Store(nil)
	before := [2]int64{large.asked.Load(), small.asked.Load()}
	if before != [2]int64{6, 6} {
		t.Errorf("asked %d", before)
	}
	folder := runfolder.Folder(sum.RunDir)
	for _, name := range []string{"COMPLETE", "manifest.json"} {
		_ = os.Remove(filepath.Join(string(folder), name))
	}
	if err := os.RemoveAll(folder.Batches()); err != nil {
		t.Fatal(err)
	}
	sum, err = Run(context.Background(), Request{Resume: folder}, testEnv(t))
	if err != nil {
		t.Fatal(err)
	}
	if got := [2]int64{large.asked.Load(), small.asked.Load()}; got != [2]int64{6, 8} ||
		sum.Batches.Teacher.Groups.Without != 0 {
		t.Errorf("asked %d questions in all: %+v", got, sum.Batches.Teacher.Groups)
	}
}
