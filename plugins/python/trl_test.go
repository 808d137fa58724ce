//go:build tokenizers

package python_test

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/collator"
	"github.com/nat-go/nat-go/collator/tokenizer"
	"github.com/nat-go/nat-go/internal/pythontest"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// TestTRL: TRL's losses cover exactly the tokens of the files, which tests/trl/test_exact.py reads from the gradients.
// The rows are conversations with tools and reasoning on four templates, 6 pairs, 6 demonstrations and 6 rollouts of
// each; NATGO_LONG=1 uses 26 of each, and the last of them has a tool result of 20,000 tokens.
func TestTRL(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: training takes a minute; run without -short")
	}
	python := pythontest.TRL(t)
	count, long, atOnce := "6", "0", "8"
	if os.Getenv("NATGO_LONG") != "" {
		count, long, atOnce = "26", "4800", "1" // what attends to 20,000 tokens has a mask of 1.6 GB a row
	}
	work := t.TempDir()
	env := append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "PYTHONPATH=.", "OMP_NUM_THREADS=1", "HF_HUB_OFFLINE=1",
		"HF_HOME="+filepath.Join(work, "hf"), "NATGO_TEST_TRL="+work)
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
	say("tests/trl/made.py", work, count, long)
	own := pythontest.TinyModel(t, "../..")
	if long != "0" {
		say("tests/trl/made.py", "shrink", own)
	}
	for name, template := range map[string]string{
		"tiny":     "",
		"chatml":   "../../collator/testdata/chatml.jinja",
		"thinking": "../../collator/testdata/thinking.jinja",
		"hints":    "../../examples/hints/tokenizer/chat_template.jinja",
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(work, name)
			copyModel(t, own, filepath.Join(dir, "model"), template)
			items := made(t, work)
			collate(t, dir, "run", nil, items)
			if name != "chatml" {
				return
			}
			scores := filepath.Join(dir, "reference.jsonl")
			say("../../examples/composite-trainer/reference_logps.py", "--batches",
				filepath.Join(dir, "run", "batches"),
				"--model", filepath.Join(dir, "model"), "--output", scores, "--rows", atOnce)
			file, err := os.Open(scores)
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			reference, err := collator.ReadReference(file, "the model itself")
			if err != nil {
				t.Fatal(err)
			}
			collate(t, dir, "referred", reference, items)
		})
	}
	say("-m", "unittest", "-v", "tests/trl/test_exact.py")
}

// copyModel copies a model's folder, with a different chat template if one is named.
func copyModel(t *testing.T, from, to, template string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	if template == "" {
		return
	}
	text, err := os.ReadFile(template)
	if err == nil {
		err = os.WriteFile(filepath.Join(to, "chat_template.jinja"), text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestTorch runs the tests that need torch: tensors, and a DataLoader with and without workers, forked and spawned.
func TestTorch(t *testing.T) {
	python := pythontest.TRL(t)
	cmd := exec.Command(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "torch", "tests",
		"--ignore=tests/trl")
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "PYTHONPATH=.", "HF_HOME="+t.TempDir(),
		"NATGO_TEST_BATCHES="+writeBatches(t), "NATGO_TEST_PROGRAM="+program(t), "NATGO_TEST_LIBRARY="+library(t))
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(out), "skipped") {
		t.Error("a test was skipped")
	}
}

// library builds the kernels as a C library.
func library(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "libnatgo.so")
	build := exec.Command("go", "build", "-tags", "cshared", "-buildmode=c-shared", "-o", path, "../../cmd/libnatgo")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", build, err, out)
	}
	return path
}

// made returns the records built from what made.py wrote: a preference from each pair, a
// demonstration and a rollout from each trace.
func made(t *testing.T, work string) (items []collator.Item) {
	t.Helper()
	each(t, filepath.Join(work, "pairs.jsonl"), func(row json.Raw, origin *builders.Origin) {
		items = append(items, collator.Item{Hash: origin.Example, Record: &builders.Resolved{
			Record: &builders.Preference{}, Origin: origin,
			Prompt: passage(t, row, "prompt"), Chosen: passage(t, row, "chosen"), Rejected: passage(t, row, "rejected"),
		}})
	})
	each(t, filepath.Join(work, "traces.jsonl"), func(row json.Raw, origin *builders.Origin) {
		items = append(items, collator.Item{Hash: origin.Example, Record: &builders.Resolved{
			Record: &builders.Demonstration{Train: builders.TrainAll, Weight: 1}, Origin: origin,
			Messages: passage(t, row, "messages"),
		}})
	})
	each(t, filepath.Join(work, "traces.jsonl"), func(row json.Raw, origin *builders.Origin) {
		reward := float64(origin.Row % 2) // every second one is good
		items = append(items, collator.Item{Hash: "rollout " + origin.Example, Record: &builders.Resolved{
			Record: &builders.Rollout{Reward: &reward, Task: origin.Task}, Origin: origin,
			Messages: passage(t, row, "messages"),
		}})
	})
	return items
}

func each(t *testing.T, path string, use func(json.Raw, *builders.Origin)) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 16<<20)
	for n := int64(0); lines.Scan(); n++ {
		row, err := json.Parse([]byte(lines.Text()), json.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		name, _ := row.Get("id")
		id, _ := name.Text()
		tools, _ := row.Get("tools")
		origin := &builders.Origin{Row: n, Example: id, Task: id, Fidelity: ttc.TextOnly}
		for raw := range tools.Elements() {
			tool, err := chat.ParseTool(raw)
			if err != nil {
				t.Fatal(err)
			}
			origin.Tools = append(origin.Tools, tool)
		}
		use(row, origin)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
}

func passage(t *testing.T, row json.Raw, key string) builders.Passage {
	t.Helper()
	raw, _ := row.Get(key)
	messages, err := chat.ParseMessages(raw)
	if err != nil {
		t.Fatal(err)
	}
	return builders.Passage{Nodes: ttc.Chain(messages, ttc.Assumed).Nodes}
}

// collate writes the batches of records with a model's own tokenizer and template.
func collate(t *testing.T, dir, name string, reference *collator.Reference, items []collator.Item) {
	t.Helper()
	tok, err := tokenizer.Load(filepath.Join(dir, "model"))
	if err != nil {
		t.Fatal(err)
	}
	defer tok.Close()
	template, err := os.ReadFile(filepath.Join(dir, "model", "chat_template.jinja"))
	if err != nil {
		t.Fatal(err)
	}
	c, err := collator.New(collator.Config{
		Tokenizer: tok, Template: string(template), MaxLength: 1 << 16, BatchTokens: 1 << 17, Reference: reference,
		RenderedRollouts: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	groups := func(yield func([]collator.Item, error) bool) {
		for i := range items {
			if !yield(items[i:i+1], nil) {
				return
			}
		}
	}
	result, err := c.Collate(context.Background(), groups, filepath.Join(dir, name), t.TempDir(), func(d ledger.Drop) {
		t.Errorf("%s: %s was left out: %s: %s", dir, d.Example, d.Reason, d.Detail)
	})
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for _, n := range result.Counts {
		rows += int(n.Rows)
	}
	if rows < len(items) {
		t.Fatalf("%s: %d rows of %d records", dir, rows, len(items))
	}
}
