//go:build tokenizers

package python_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/nat-go/nat-go/internal/pythontest"
)

// TestTeachers: axolotl's and Tinker's own code reads stored teachers at the positions that they are about. The page's
// snippet runs on a run whose teacher answered about its hints and about a sampled rollout.
func TestTeachers(t *testing.T) {
	python := os.Getenv("NATGO_TEACHERS_PYTHON")
	if python == "" {
		if pythontest.Required("teachers") {
			t.Fatal("NATGO_REQUIRE names teachers, and NATGO_TEACHERS_PYTHON names no Python")
		}
		t.Skip("SKIPPED: NATGO_TEACHERS_PYTHON names no Python with axolotl 0.19 and tinker, so stored teachers were not " +
			"tried on them; .ci/verify-full sets one up")
	}
	teacher := httptest.NewServer(http.HandlerFunc(topThree))
	defer teacher.Close()
	from, run := t.TempDir(), filepath.Join(t.TempDir(), "r")
	if err := os.CopyFS(from, os.DirFS("../../examples/hints")); err != nil {
		t.Fatal(err)
	}
	traces, err := os.OpenFile(filepath.Join(from, "traces.jsonl"), os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = traces.WriteString(sampled)
	}
	if err != nil || traces.Close() != nil {
		t.Fatal(err)
	}
	finetune(t, program(t), from, run, "-o", "collator.tokenizer=tokenizer", "-o", "collator.policy=booker-1",
		"-o", "collator.teacher={endpoint: "+teacher.URL+", model: m, top_k: 3, vocabulary: assume, rollouts: true}")
	cmd := exec.Command(python, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", "tests/test_teachers.py")
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "PYTHONPATH=.", "HF_HOME="+t.TempDir(), "HF_HUB_OFFLINE=1",
		"NATGO_TEST_TAUGHT="+run)
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil || bytes.Contains(out, []byte("skipped")) {
		t.Fatal("failed, or skipped what it must not: ", err)
	}
}

// sampled is the page's rollout with sampled ids, which those of examples/hints don't have: rl batches take no others.
const sampled = `{"id": "sum-0", "task_id": "sum", "reward": 1.0, "model": "booker-1", "messages": [` +
	`{"role": "user", "content": "2 + 2?"}, ` +
	`{"role": "assistant", "content": "4", "token_ids": [31, 7], "logprobs": [-0.1, -0.2]}]}` + "\n"

// topThree answers as a vLLM server does, with three tokens at each position.
func topThree(w http.ResponseWriter, r *http.Request) {
	var asked struct{ Prompt []int }
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	list := []any{nil}
	for _, id := range asked.Prompt[1:] {
		at := map[string]any{strconv.Itoa(id): map[string]any{"logprob": -0.5}}
		for k := 1; k < 3; k++ {
			at[strconv.Itoa((id+k)%600)] = map[string]any{"logprob": -0.5 - float64(k)}
		}
		list = append(list, at)
	}
	answer := map[string]any{"choices": []any{map[string]any{"prompt_logprobs": list}}}
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		panic(err)
	}
}
