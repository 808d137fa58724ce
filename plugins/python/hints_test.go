//go:build tokenizers

package python_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/internal/oracletest"
	"github.com/nat-go/nat-go/internal/pythontest"
)

// TestTRLHints runs tests/trl/test_hints.py: HintTrainer on runs of examples/hints, with hints and with null hints, and
// on the error sites of the airline rollouts if they are there, and rows of unequal weight through the other trainers;
// and tests/trl/test_wrong_input.py, in which all of natgo.trl is given what it can't use.
func TestTRLHints(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: training takes a minute; run without -short")
	}
	python := pythontest.TRL(t)
	work, natGo := t.TempDir(), program(t)
	env := append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "PYTHONPATH=.", "OMP_NUM_THREADS=1", "HF_HUB_OFFLINE=1",
		"HF_HOME="+filepath.Join(work, "hf"), "NATGO_TEST_TRL="+work, "NATGO_TEST_PROGRAM="+natGo,
		"NATGO_TEST_LIBRARY="+library(t))
	say := func(args ...string) {
		t.Helper()
		cmd := exec.Command(python, args...)
		cmd.Env = env
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%q: %v\n%s", args, err, out)
		}
		t.Logf("%s", out)
	}
	say("tests/trl/made.py", work, "6", "0")
	dir := filepath.Join(work, "tiny")
	copyModel(t, pythontest.TinyModel(t, "../.."), filepath.Join(dir, "model"), "")
	items := made(t, work)
	collate(t, dir, "run", nil, items)
	for i := range items {
		if d, ok := items[i].Record.Record.(*builders.Demonstration); ok {
			d.Weight = []float64{0.5, 1, 3}[i%3]
		}
	}
	collate(t, dir, "weighted", nil, items)

	for name, more := range map[string][]string{
		"hints": nil, "null": {"collator.hints=none"}, "contrast": {"collator.contrast=true"},
		"cumulative": {"collator.contrast=true", "collator.sites=cumulative"},
	} {
		args := []string{"-o", "collator.tokenizer=tokenizer", "-o", "collator.policy=booker-1", "-o", "trajectory_builders.hints.target=both"}
		for _, one := range more {
			args = append(args, "-o", one)
		}
		finetune(t, natGo, "../../examples/hints", filepath.Join(work, name), args...)
	}
	t.Run("airline", func(t *testing.T) { // of its own, so that missing oracle data skips no more than itself
		finetune(t, natGo, airlineFolder(t), filepath.Join(work, "airline"))
		finetune(t, natGo, airlineFolder(t), filepath.Join(work, "airline-contrast"), "-o", "collator.contrast=true",
			"-o", "trajectory_builders.hints.hints={}")
	})
	say("-m", "unittest", "-v", "tests/trl/test_hints.py")
	say("-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/trl/test_wrong_input.py")
}

// finetune copies a folder with a configuration and makes a run of it, which it moves to the given place.
func finetune(t *testing.T, natGo, from, to string, more ...string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(natGo, append([]string{
		"finetune", "run", "--config-file", "finetune.yml", "--run-id", "r", "-o", "finetuning.output_dir=out",
	}, more...)...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
	if err := os.Rename(filepath.Join(dir, "out", "r"), to); err != nil {
		t.Fatal(err)
	}
}

const airlineConfig = `
sources: {runs: {_type: traces, path: traces.jsonl}}
trajectory_builders:
  hints:
    _type: sdpo_traj_builder
    hints:
      allow: [knowable]
      sources: [rules]
      rules: [{class: ".*", text: Check what the policy says about payments before this call.}]
collator: {tokenizer: tokenizer, policy: gpt-4o, max_length: 65536, batch_tokens: 200000}
dataset: {formats: [trl], split: {by: task, validation: 0}}
finetuning: {enabled: true, trajectory_builder: hints, output_dir: out}
`

// airlineFolder has the airline rollouts as rows, a tokenizer with a template, and the configuration of their hints.
func airlineFolder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	put := func(name string, text []byte) {
		t.Helper()
		err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	oracle := func(elem ...string) []byte {
		t.Helper()
		text, err := os.ReadFile(oracletest.Path(t, elem...))
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	var all []struct {
		Task   int             `json:"task_id"`
		Trial  int             `json:"trial"`
		Reward float64         `json:"reward"`
		Traj   json.RawMessage `json:"traj"`
	}
	if err := json.Unmarshal(oracle("chat", "traces", "gpt-4o-airline-dev.json"), &all); err != nil {
		t.Fatal(err)
	}
	tools := strings.ReplaceAll(string(oracle("chat", "traces", "tools.json")), "\n", " ")
	var rows strings.Builder
	for _, x := range all {
		messages, err := json.Marshal(x.Traj)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&rows, `{"id":"%d/%d","task_id":"%[1]d","reward":%[3]g,"messages":%[4]s,"tools":%[5]s}`+"\n",
			x.Task, x.Trial, x.Reward, messages, tools)
	}
	put("traces.jsonl", []byte(rows.String()))
	put("finetune.yml", []byte(airlineConfig))
	put("tokenizer/tokenizer.json", oracle("chat", "tokens", "tokenizers", "qwen2_5.json"))
	put("tokenizer/chat_template.jinja", oracle("chat", "render", "templates", "qwen2_5.jinja"))
	put("tokenizer/tokenizer_config.json", []byte(`{"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"}`))
	return dir
}
