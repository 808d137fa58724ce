//go:build tokenizers

package finetune

import (
	"bytes"
	"context"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage/read"
	"github.com/nat-go/nat-go/collator"
	"github.com/nat-go/nat-go/collator/tokenizer"
	"github.com/nat-go/nat-go/internal/tensors"
)

// TestMergeWithTeacher checks that a merge of runs with collator.teacher has the teacher's columns, can be verified,
// and asks only the questions that neither run asked. It returns an error for runs with dumps, because dumps belong to
// the batches of one run.
func TestMergeWithTeacher(t *testing.T) {
	t.Chdir(t.TempDir())
	stand := &standIn{t: t, logProb: func(string) float64 { return -0.5 }}
	server := httptest.NewServer(stand)
	defer server.Close()
	config := `trajectory_builders:
  hints:
    _type: sdpo_traj_builder
    detect: {match: [{pattern: "^Error", class: bad_args}]}
    hints: {rules: [{text: "The argument is called city."}]}
finetuning: {enabled: true, trajectory_builder: hints, output_dir: o}
collator:
  tokenizer: tokenizer.json
  template: tool.jinja
  max_length: 1024
  batch_tokens: 8192
  teacher: {endpoint: "` + server.URL + `", model: m, top_k: 3}
`
	put := func(name, content string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("tokenizer.json", string(bytesTokenizer(t)))
	put("tool.jinja", toolML)
	put("t.yml", config)
	put("a.jsonl", failedCall)
	put("b.jsonl", strings.NewReplacer("e1", "e2", "Oslo", "Rome").Replace(failedCall))
	tok, err := tokenizer.Load("tokenizer.json")
	if err != nil {
		t.Fatal(err)
	}
	defer tok.Close()
	stand.tok = tok
	made := func(config, id, from string) runfolder.Folder {
		t.Helper()
		req := Request{ConfigFile: config, RunID: id, OutputDir: "o", Choice: read.Choice{From: []string{from}}}
		sum, err := Run(context.Background(), req, testEnv(t))
		if err != nil {
			t.Fatal(err)
		}
		return runfolder.Folder(sum.RunDir)
	}
	runs := []runfolder.Folder{made("t.yml", "a", "a.jsonl"), made("t.yml", "b", "b.jsonl")}
	before := stand.asked.Load()
	sum, err := Run(context.Background(), Request{Join: runs, RunID: "both"}, testEnv(t))
	if err != nil {
		t.Fatal(err)
	}
	if n := stand.asked.Load(); before == 0 || n != before {
		t.Errorf("the teacher was asked %d times by the runs and %d by the merge", before, n-before)
	}
	if rep := sum.Batches.Teacher; rep == nil || rep.Asked.Pairs == 0 || rep.Asked.Scored != rep.Asked.Pairs {
		t.Errorf("%+v", sum.Batches)
	}
	if report, err := collator.Verify("o/both", tok); err != nil || len(report.Problems) > 0 {
		t.Errorf("%v, %v", report, err)
	}
	files, _ := filepath.Glob("o/both/batches/sdpo/*/*.safetensors")
	if len(files) == 0 || !strings.Contains(string(readFile(t, files[0])), "pair_teacher_topk_logprobs") {
		t.Errorf("no teacher's columns in %v", files)
	}
	// An answer that is no longer stored in either run is asked for again.
	if err := os.RemoveAll(runs[1].Teacher()); err != nil {
		t.Fatal(err)
	}
	if _, err := Run(context.Background(), Request{Join: runs, RunID: "again"}, testEnv(t)); err != nil {
		t.Fatal(err)
	}
	if n := stand.asked.Load(); n == before || n >= 2*before {
		t.Errorf("the teacher was asked %d times by the runs and %d by the second merge", before, n-before)
	}
	put("d.yml", strings.Replace(config, "top_k: 3", "top_k: 3, dumps: dumps, use: weights", 1))
	dumpZeros(t, files[0], sum.Batches.Teacher.Asked.Pairs/2)
	dumped := made("d.yml", "dumped", "a.jsonl")
	_, err = Run(context.Background(), Request{Join: []runfolder.Folder{dumped}, RunID: "no"}, testEnv(t))
	if exit.Code(err) != exit.Usage || !strings.Contains(err.Error(), "collator.teacher.dumps") {
		t.Errorf("merging runs with dumps: %v", err)
	}
}

// dumpZeros writes logits that are all equal for the n pairs of a batch.
func dumpZeros(t *testing.T, batch string, n int) {
	t.Helper()
	const columns = 512 // more than the tokenizer has
	name, err := filepath.Rel("o/both/batches", batch)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(filepath.Join("dumps", name)), 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := tensors.Write(&b, []tensors.Tensor{
		tensors.Of("student_logits", make([]float32, columns*n), n, columns),
		tensors.Of("teacher_logits", make([]float32, columns*n), n, columns),
	}, nil); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join("dumps", name), b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
}
