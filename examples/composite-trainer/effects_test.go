//go:build tokenizers

package trainer_test

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/internal/pythontest"
)

// TestHintEffects has runs measure what hints do to a tiny model, with score_logits.py and with a stand-in for a vLLM
// server, and has torch compute it over the whole vocabulary: the first agree within 1e-4, and the second's brackets
// contain it.
func TestHintEffects(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("SKIPPED: needs a build of the program; run without -short")
	}
	py := withTorch(t)
	bin := filepath.Join(t.TempDir(), "nat-go")
	if out, err := exec.Command("go", "build", "-tags", "tokenizers,grpcnotrace,validator_novalidatefn", "-o", bin,
		"../../cmd/nat-go").
		CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	work := t.TempDir()
	if err := os.CopyFS(work, os.DirFS("../hints")); err != nil {
		t.Fatal(err)
	}
	init := filepath.Join(work, "init.safetensors")
	run(t, "test_effects.py", "make", init)
	script, err := filepath.Abs("score_logits.py")
	if err != nil {
		t.Fatal(err)
	}
	finetune := func(id, teacher string) { // every site must be scored
		t.Helper()
		cmd := exec.Command(bin, "finetune", "run", "--config-file", "finetune.yml", "--run-id", id,
			"-o", "collator.tokenizer=tokenizer", "-o", "collator.policy=booker-1", "-o", "collator.teacher", teacher)
		cmd.Dir = work
		cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "OMP_NUM_THREADS=1", pythontest.Package(t, "../.."))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("nat-go finetune run: %v\n%s", err, out)
		}
		drops := read(t, filepath.Join(work, "out", id, "dropped.jsonl"))
		if at := strings.Index(drops, `"reason":"teacher_`); at >= 0 {
			t.Fatalf("%s: %s", id, drops[max(0, at-50):])
		}
		verify := exec.Command(bin, "dataset", "verify", "out/"+id)
		verify.Dir = work
		if out, err := verify.CombinedOutput(); err != nil {
			t.Fatalf("nat-go dataset verify: %v\n%s", err, out)
		}
	}
	finetune("logits", `{vocabulary: assume, logits: {wrong_way: keep, memory: 1MiB, command: [`+py+`, `+script+
		`, --init, `+init+`, --vocab, "613"]}}`)
	server := serveEffects(t, py, init)
	for _, k := range []string{"1", "20", "200"} {
		finetune("top"+k, `{endpoint: "`+server+`", model: tiny, vocabulary: assume, hint_effect: true, top_k: `+k+`}`)
	}
	out := filepath.Join(work, "out")
	t.Log(runWith(t, []string{
		"NATGO_INIT=" + init, "NATGO_LOGITS=" + filepath.Join(out, "logits"),
		"NATGO_BRACKETS=" + filepath.Join(out, "top"), "NATGO_TOPK=1 20 200",
	}, "-m", "unittest", "test_effects"))
}

// serveEffects starts the stand-in, which ends when its standard input does.
func serveEffects(t *testing.T, py, init string) string {
	t.Helper()
	cmd := exec.Command(py, "test_effects.py", "serve", init)
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "OMP_NUM_THREADS=1", pythontest.Package(t, "../.."))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("the stand-in: %v", err)
		}
	})
	port, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the stand-in did not start: %v", err)
	}
	return "http://127.0.0.1:" + strings.TrimSpace(port)
}
