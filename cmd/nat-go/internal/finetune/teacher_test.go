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
	"github.com/nat-go/nat-go/collator"
	"github.com/nat-go/nat-go/collator/teacher"
	"github.com/nat-go/nat-go/collator/tensors"
	"github.com/nat-go/nat-go/collator/tokenizer"
	"github.com/nat-go/nat-go/ttc/ledger"
)

const toolML = `{%- for m in messages %}<|im_start|>{{ m.role }}
{{ m.content or '' }}{%- for c in m.tool_calls or [] %}{{ '<tool_call>' + c.function.name + ' ' + c.function.arguments | tojson + '</tool_call>' }}{% endfor %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}`

const failedCall = `{"id":"e1","messages":[{"role":"user","content":"Weather in Oslo?"},` +
	`{"role":"assistant","content":"","tool_calls":[{"id":"c1","type":"function","function":{"name":"weather","arguments":"{\"town\": \"Oslo\"}"}}]},` +
	`{"role":"tool","tool_call_id":"c1","content":"Error: unknown argument town"},{"role":"assistant","content":"I could not find out."}]}` + "\n"

// TestRunAsksTheTeacher: a run with collator.teacher has its columns in every sdpo batch, and verifies; a server that
// refuses us is a matter of the environment.
func TestRunAsksTheTeacher(t *testing.T) {
	t.Chdir(t.TempDir())
	var tok *tokenizer.Tokenizer
	var closed, works, broken atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if closed.Load() {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		var q struct {
			Prompt json.RawMessage `json:"prompt"`
			K      int             `json:"prompt_logprobs"`
		}
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
			t.Error(err)
		}
		if r.URL.Path == "/tokenize" {
			var text string
			if err := json.Unmarshal(q.Prompt, &text); err != nil {
				t.Error(err)
			}
			enc, err := tok.Encode(text, tokenizer.Options{})
			if err != nil {
				t.Error(err)
			}
			json.NewEncoder(w).Encode(map[string]any{"tokens": enc.IDs})
			return
		}
		var ids []int32
		if err := json.Unmarshal(q.Prompt, &ids); err != nil {
			t.Error(err)
		}
		if broken.Load() {
			json.NewEncoder(w).Encode(map[string]any{"choices": []any{map[string]any{}}})
			return
		}
		logProb := -0.5
		if text, _ := tok.Decode(ids, false); works.Load() && strings.Contains(text, "called city") {
			logProb = -2
		}
		list := []any{nil}
		for i := 1; i < len(ids); i++ {
			at := map[string]any{fmt.Sprint(ids[i]): map[string]any{"logprob": logProb}}
			for k := range q.K {
				if id := fmt.Sprint((int(ids[i]) + 1 + k) % 300); at[id] == nil {
					at[id] = map[string]any{"logprob": -3 - float64(k)}
				}
			}
			list = append(list, at)
		}
		json.NewEncoder(w).Encode(map[string]any{"choices": []any{map[string]any{"prompt_logprobs": list}}})
	}))
	defer server.Close()
	yaml := `trajectory_builders: {hints: {_type: sdpo_traj_builder, detect: {match: [{pattern: "^Error", class: bad_args}]}, hints: {rules: [{text: "The argument is called city."}]}}}
finetuning: {enabled: true, trajectory_builder: hints, output_dir: o}
collator: {tokenizer: tokenizer.json, template: tool.jinja, max_length: 1024, batch_tokens: 8192, teacher: {endpoint: "` + server.URL + `", model: m, top_k: 3}}
`
	for name, content := range map[string][]byte{"tokenizer.json": bytesTokenizer(t), "tool.jinja": []byte(toolML), "t.yml": []byte(yaml), "in.jsonl": []byte(failedCall)} {
		if err := os.WriteFile(name, content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	if tok, err = tokenizer.Load("tokenizer.json"); err != nil {
		t.Fatal(err)
	}
	defer tok.Close()
	sum, err := Run(context.Background(), Request{ConfigFile: "t.yml", RunID: "a", OutputDir: "o", From: []string{"in.jsonl"}}, testEnv(t))
	if err != nil {
		t.Fatal(err)
	}
	if sum.Batches == nil || sum.Batches.Teacher == nil || sum.Batches.Teacher.Asked.Pairs == 0 || sum.Batches.Teacher.Asked.Scored != sum.Batches.Teacher.Asked.Pairs {
		t.Fatalf("batches: %+v", sum.Batches)
	}
	if report, err := collator.Verify("o/a", tok); err != nil || len(report.Problems) > 0 {
		t.Errorf("%v, %v", report, err)
	}
	files, _ := filepath.Glob("o/a/batches/sdpo/*/*.safetensors")
	if len(files) == 0 || !strings.Contains(string(read(t, files[0])), "pair_teacher_topk_logprobs") {
		t.Errorf("no teacher columns in %v", files)
	}
	// Logits dumped for the batches weigh the same run's sites anew; the batches are still verified.
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
		if err := tensors.Write(&b, []tensors.Tensor{tensors.Of("student_logits", make([]float32, columns*n), n, columns), tensors.Of("teacher_logits", apart, n, columns)}, nil); err != nil {
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
	sum, err = Run(context.Background(), Request{ConfigFile: "w.yml", RunID: "w", OutputDir: "o", From: []string{"in.jsonl"}}, testEnv(t))
	if err != nil || sum.Batches.Teacher.Weighed == nil || sum.Batches.Teacher.Weighed.Sites != 1 || sum.Batches.Teacher.Weighed.Mean <= 0 {
		t.Fatalf("%v, %+v", err, sum.Batches)
	}
	if report, err := collator.Verify("o/w", tok); err != nil || len(report.Problems) > 0 {
		t.Errorf("%v, %v", report, err)
	}
	// A hint that moves nothing falls out: listed, counted, weighing nothing; one that makes the failed turn less
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
		works.Store(c.works)
		sum, err := Run(context.Background(), Request{ConfigFile: "e.yml", RunID: c.id, OutputDir: "o", From: []string{"in.jsonl"}}, testEnv(t))
		if err != nil || sum.Batches.Teacher.Hints == nil || sum.Batches.Teacher.Hints.Sites != 1 || sum.Batches.Teacher.Hints.Neutral != 1 {
			t.Fatalf("%s: %v, %+v", c.id, err, sum.Batches)
		}
		dropped := string(read(t, filepath.Join("o", c.id, "dropped.jsonl")))
		if c.works {
			if sum.Batches.Teacher.Kept() != 1 || strings.Contains(dropped, `"stage":"teacher"`) || math.Abs(sum.Batches.Teacher.Hints.Mean-1.5) > 1e-6 {
				t.Errorf("%+v %s", sum.Batches.Teacher, dropped)
			}
		} else if sum.Batches.Teacher.Kept() != 0 || sum.Counts.Dropped[c.reason] != 1 || !strings.Contains(dropped, `"stage":"teacher","reason":"hint_no_effect","unit":"site","run":0,"example":"e1"`) {
			t.Errorf("%+v %+v %s", sum.Batches.Teacher, sum.Counts, dropped)
		}
		if report, err := collator.Verify(filepath.Join("o", c.id), tok); err != nil || len(report.Problems) > 0 {
			t.Errorf("%s: %v, %v", c.id, report, err)
		}
	}
	// A row the teacher can't be asked about falls out the same way.
	broken.Store(true)
	sum, err = Run(context.Background(), Request{ConfigFile: "t.yml", RunID: "broken", OutputDir: "o", From: []string{"in.jsonl"}}, testEnv(t))
	if dropped := string(read(t, "o/broken/dropped.jsonl")); err != nil || sum.Counts.Dropped[teacher.TeacherBadAnswer] != 1 || !strings.Contains(dropped, "no prompt_logprobs") {
		t.Errorf("%v %+v %s", err, sum.Counts, dropped)
	}
	closed.Store(true)
	_, err = Run(context.Background(), Request{ConfigFile: "t.yml", RunID: "b", OutputDir: "o", From: []string{"in.jsonl"}}, testEnv(t))
	if exit.Code(err) != exit.Environment {
		t.Errorf("of a server that refuses us: %v", err)
	}
}
