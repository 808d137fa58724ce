//go:build tokenizers

package python_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/internal/oracletest"
	"github.com/nat-go/nat-go/internal/pythontest"
)

// TestTRLTextRows: trained turns of text rows and their contexts, as TRL's own preparation reads them, equal
// those of the token batches of the same run. Some of its turns made calls that failed, and are context only.
func TestTRLTextRows(t *testing.T) {
	readRows(t, pythontest.TRL(t), "trl", "", "tests/trl/test_text_rows.py", 9, examples)
}

// TestAxolotlTextRows is TestTRLTextRows for Axolotl.
func TestAxolotlTextRows(t *testing.T) {
	const test = "tests/trl/test_flagged_rows.py::test_axolotl"
	readRows(t, pythontest.Trainers(t), "axolotl", "", test, 9, examples)
	t.Run("reasoning is context", func(t *testing.T) {
		from := filepath.Join(t.TempDir(), "traces.jsonl")
		if err := os.WriteFile(from, []byte(reasoned), 0o600); err != nil {
			t.Fatal(err)
		}
		readRows(t, pythontest.Trainers(t), "axolotl", reasons, test, 3, from, "-o", "trajectory_builders.sft.train_reasoning=false")
	})
}

// reasoned has three turns with reasoning, and reasons is a template that prints it.
const (
	reasoned = `{"id": "a", "messages": [{"role": "user", "content": "2 + 2?"}, ` +
		`{"role": "assistant", "reasoning_content": "Two and two.", "content": "It is 4."}, {"role": "user", "content": "+ 1?"}, ` +
		`{"role": "assistant", "reasoning_content": "Add one.", "content": "5, that is 4 + 1."}]}` + "\n" +
		`{"id": "b", "messages": [{"role": "user", "content": "Grüße?"}, ` +
		`{"role": "assistant", "reasoning_content": "Say \"hi\".", "content": "Grüße 👋 an dich"}]}` + "\n"
	reasons = `{% for m in messages %}<|im_start|>{{ m.role }}
{% if m.reasoning_content %}<think>
{{ m.reasoning_content }}
</think>

{% endif %}{{ m.content }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}`
)

// TestSwiftTextRows is TestTRLTextRows for ms-swift, which has Qwen's template in its own words.
func TestSwiftTextRows(t *testing.T) {
	readRows(t, pythontest.Trainers(t), "ms_swift", oracletest.Template(t, "qwen2_5.jinja"),
		"tests/trl/test_flagged_rows.py::test_ms_swift", 9, examples)
}

// TestTRLPrivileged: TRL's SDFT and SDPO train on rows of hints, and give their teacher the ids that are meant: for the
// four failures of examples/hints that answer a user, and for 24 of the airline rollouts' 36, after 4,827 to 10,649
// tokens; the other 12 answer a result of a tool.
func TestTRLPrivileged(t *testing.T) {
	python, natGo := pythontest.TRL(t), program(t)
	for name, folder := range map[string]func(*testing.T) (string, string){
		"examples": func(*testing.T) (string, string) { return "../../examples/hints", "4" },
		"airline":  func(t *testing.T) (string, string) { return airlineFolder(t), "24" },
	} {
		t.Run(name, func(t *testing.T) {
			from, rows := folder(t)
			run := filepath.Join(t.TempDir(), "r")
			finetune(t, natGo, from, run, "-o", "dataset.formats=[privileged]", "-o", "finetuning.trajectory_builder=[hints]",
				"-o", "collator.tokenizer=tokenizer", "-o", "collator.max_length=65536")
			cmd := exec.Command(python, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", "tests/trl/test_privileged.py")
			cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "PYTHONPATH=.", "HF_HUB_OFFLINE=1",
				"HF_HOME="+t.TempDir(), "TRL_EXPERIMENTAL_SILENCE=1", "OMP_NUM_THREADS=1", "NATGO_TEST_PRIVILEGED="+run,
				"NATGO_TEST_FROM="+from, "NATGO_TEST_ROWS="+rows)
			said, err := cmd.CombinedOutput()
			t.Logf("%s", said)
			if err != nil {
				t.Fatal(err)
			}
		})
	}
}

// examples has nine turns to imitate.
const examples = "../../examples/hints/traces.jsonl"

// readRows makes a run with rows of a format and token batches, and has a test in Python compare the turns that they
// train. Without the text of a template, the example's is taken.
func readRows(t *testing.T, python, format, template, test string, turns int, from string, more ...string) {
	t.Helper()
	model, out := filepath.Join(t.TempDir(), "model"), t.TempDir()
	copyModel(t, pythontest.TinyModel(t, "../.."), model, "../../examples/hints/tokenizer/chat_template.jinja")
	if template != "" {
		if err := os.WriteFile(filepath.Join(model, "chat_template.jinja"), []byte(template), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := exec.Command(program(t), "run", from, "--builder", "sft", "--format", format,
		"--format", "sft_parquet", "-o", "collator.tokenizer="+model,
		"-o", "dataset.split.validation=0", "-o", "trajectory_builders.sft.select=all", "--limit", "3", "--output-dir", out,
		"--run-id", "r")
	run.Args = append(run.Args, more...)
	if said, err := run.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	cmd := exec.Command(python, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", test)
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "PYTHONPATH=.:tests/trl", "HF_HUB_OFFLINE=1",
		"HF_HOME="+t.TempDir(), "MODELSCOPE_CACHE="+t.TempDir(), "NATGO_TEST_TEXT_ROWS="+filepath.Join(out, "r"),
		"NATGO_TEST_MODEL="+model, fmt.Sprint("NATGO_TEST_TURNS=", turns))
	said, err := cmd.CombinedOutput()
	t.Logf("%s", said)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(said), "skipped") && pythontest.Required("trl") {
		t.Error("a test was skipped")
	}
}
