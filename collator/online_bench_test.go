//go:build tokenizers

package collator

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/nat-go/nat-go/internal/oracletest"
)

// BenchmarkOnline times natgo.Collator, including its pipe and its nat-go process, against the reference collator as
// described: the real traces with errors, one call each, and a rollout of 4,000 tokens. NATGO_PYTHON names a Python
// with jinja2, tokenizers and numpy.
func BenchmarkOnline(b *testing.B) {
	python := os.Getenv("NATGO_PYTHON")
	if python == "" {
		b.Skip("NATGO_PYTHON names no python with jinja2, tokenizers and numpy")
	}
	program := filepath.Join(b.TempDir(), "nat-go")
	build := exec.Command("go", "build", "-tags", "tokenizers,grpcnotrace,validator_novalidatefn", "-o", program,
		"../cmd/nat-go")
	if out, err := build.CombinedOutput(); err != nil {
		b.Fatalf("go build: %v\n%s", err, out)
	}
	folder := b.TempDir()
	tokenizer, err := os.ReadFile(oracletest.Path(b, "chat", "tokens", "tokenizers", "qwen2_5.json"))
	if err != nil {
		b.Fatal(err)
	}
	for name, data := range map[string][]byte{
		"tokenizer.json": tokenizer, "chat_template.jinja": []byte(oracletest.Template(b, "qwen2_5.jinja")),
	} {
		if err := os.WriteFile(filepath.Join(folder, name), data, 0o600); err != nil {
			b.Fatal(err)
		}
	}
	_, failed := failedTurns(b, 100)
	q := struct {
		comparedWith
		Program string `json:"program"`
		Folder  string `json:"folder"`
		Calls   int    `json:"calls"`
	}{comparedWith{Failed: failed}, program, folder, 300}
	q.fill(b)
	b.Setenv("PYTHONPATH", "../plugins/python")
	var got struct {
		Times, Processor float64
		First            [2]float64
		Tokens, Sites    int
		Theirs, Ours     [2]float64
	}
	for b.Loop() {
		askPython(b, python, "online.py", &q, &got)
	}
	b.ReportMetric(0, "ns/op") // says nothing
	b.ReportMetric(got.Times, "x-python")
	b.ReportMetric(got.Processor, "x-python-processor")
	b.ReportMetric(got.First[0], "x-python-first")
	b.ReportMetric(got.First[1], "x-python-processor-first")
	b.ReportMetric(float64(got.Tokens), "tokens")
	b.ReportMetric(got.Ours[0], "ms-median")
	b.ReportMetric(got.Ours[1], "ms-p99")
	b.ReportMetric(got.Theirs[0], "ms-python-median")
	b.ReportMetric(got.Theirs[1], "ms-python-p99")
}
