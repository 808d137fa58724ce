//go:build tokenizers

package trainer_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/internal/oracletest"
	"github.com/nat-go/nat-go/internal/tokenizertest"
)

// TestOnRuns makes runs of examples/hints with the program - as they are, as a null-hint control on several templates,
// under the reference trainer's names in every form - has the program verify them, and has test_nat_go.py train on them
// and compare its losses with nat-go's.
func TestOnRuns(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("SKIPPED: training takes half a minute; run without -short")
	}
	withTorch(t)
	bin, work, natGo := program(t)
	finetune := func(id, tokenizer string, more ...string) {
		args := []string{
			"finetune", "run", "--config-file", "finetune.yml", "--run-id", id, "-o", "collator.tokenizer=" + tokenizer,
			"-o", "collator.policy=booker-1",
		}
		for _, o := range more {
			args = append(args, "-o", o)
		}
		natGo(args...)
		natGo("dataset", "verify", "out/"+id)
	}
	finetune("hints", "tokenizer")
	finetune("hints.null", "tokenizer", "collator.hints=none")
	both := "trajectory_builders.hints.target=both" // so that rows have several sites
	finetune("hints.cumulative", "tokenizer", "collator.sites=cumulative", both)
	for _, c := range []struct{ sites, width, files string }{
		{"per_site", "own", "channel"},
		{"per_site", "equal", "channel"},
		{"per_site", "equal", "step"},
		{"cumulative", "equal", "channel"},
		{"cumulative", "equal", "step"},
	} {
		target := map[string]string{
			"per_site":   "trajectory_builders.hints.target=failed_turn",
			"cumulative": both,
		}[c.sites]
		for _, mask := range []string{"zero", "ignore_index"} {
			finetune(strings.Join([]string{"composer", c.sites, c.width, c.files, mask}, "."), "tokenizer", target,
				"collator.format=composer", "collator.sites="+c.sites, "collator.composer.width="+c.width,
				"collator.composer.files="+c.files, "collator.composer.mask="+mask)
		}
	}
	// A row for each example holds its rollout, so both runs have the rl channel.
	finetune("hints.rollouts", "tokenizer", both, "collator.rl.ids=rendered", "collator.sites=cumulative")
	finetune("composer.rollouts.equal.example.ignore_index", "tokenizer", both, "collator.rl.ids=rendered",
		"collator.format=composer", "collator.composer.rows=example", "collator.composer.mask=ignore_index")
	finetune("rollouts.alone", "tokenizer", "finetuning.trajectory_builder=[rollouts]", "collator.rl.ids=rendered",
		"collator.format=composer", "collator.composer.rows=example")
	finetune("hints.ignored", "tokenizer", "collator.ignore_index=-1")
	for name, template := range templates(t) {
		folder := filepath.Join(work, name)
		if err := os.Mkdir(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		data, err := tokenizertest.Family([]byte(read(t, filepath.Join(work, "tokenizer", "tokenizer.json"))), template)
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(folder, "tokenizer.json"), string(data))
		write(t, filepath.Join(folder, "tokenizer_config.json"), `{"bos_token": "<s>", "eos_token": "</s>", "pad_token": "</s>"}`)
		write(t, filepath.Join(folder, "chat_template.jinja"), template)
		finetune(name, folder)
		finetune(name+".null", folder, "collator.hints=none")
	}
	t.Log(
		runWith(t, []string{"NATGO=" + bin, "NATGO_RUNS=" + filepath.Join(work, "out")}, "-m", "unittest",
			"test_nat_go"),
	)
}

// program builds nat-go, and copies examples/hints to a folder that it then runs in.
func program(t *testing.T) (bin, work string, natGo func(args ...string)) {
	t.Helper()
	bin = filepath.Join(t.TempDir(), "nat-go")
	if out, err := exec.Command("go", "build", "-tags", "tokenizers,grpcnotrace,validator_novalidatefn", "-o", bin,
		"../../cmd/nat-go").
		CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	work = t.TempDir()
	if err := os.CopyFS(work, os.DirFS("../hints")); err != nil {
		t.Fatal(err)
	}
	own := filepath.Join(work, "tokenizer", "chat_template.jinja")
	_, brief, _ := strings.Cut(read(t, own), "\n") // without the list of tools, which is most of every row
	write(t, own, brief)
	return bin, work, func(args ...string) {
		t.Helper()
		cmd := exec.Command(bin, args...)
		cmd.Dir = work
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("nat-go %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

// templates are the collator's toy templates and, if present, stock ones that word a hint in different ways.
func templates(t *testing.T) map[string]string {
	out := map[string]string{
		"thinking": read(t, "../../collator/testdata/thinking.jinja"),
		"chatml":   read(t, "../../collator/testdata/chatml.jinja"),
	}
	for _, name := range []string{"qwen3", "glm4moe", "gptoss", "nemotron_3_nano"} {
		t.Run("template "+name, func(t *testing.T) { // of its own, so that a missing template skips no more than itself
			out[name] = oracletest.Template(t, name+".jinja")
		})
	}
	return out
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
