//go:build tokenizers

package finetune

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/shards"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage/read"
)

// TestDividedTasksWithoutRows divides a run that keeps the rows of a task together. Some of its tasks have only states,
// for which there are no token batches.
func TestDividedTasksWithoutRows(t *testing.T) {
	t.Chdir(t.TempDir())
	var rows strings.Builder
	for i := range 30 {
		fmt.Fprintf(&rows, `{"id": "e%d", "messages": [{"role": "user", "content": "q%[1]d"}, `+
			`{"role": "assistant", "content": "a%[1]d"}], "reward": %d}`+"\n", i, i%3)
	}
	for name, text := range map[string]string{
		"in.jsonl": rows.String(), "tokenizer.json": string(bytesTokenizer(t)), "chatml.jinja": chatML,
		"config.yml": `
trajectory_builders:
  imitated: {_type: sft_traj_builder, select: threshold, min_score: 1}
  states: {_type: states_traj_builder, at: [turns]}
finetuning: {enabled: true, trajectory_builder: [states, imitated], output_dir: out}
collator: {tokenizer: tokenizer.json, template: chatml.jinja, max_length: 64, batch_tokens: 64, batch_by: task}
`,
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	req := Request{
		ConfigFile: "config.yml", DryRun: true, RunID: "whole", Choice: read.Choice{From: []string{"in.jsonl"}},
	}
	sum, err := Run(t.Context(), req, testEnv(t))
	if err != nil {
		t.Fatal(err)
	}
	if c := sum.Batches.Counts; sum.Counts.Records != 50 || c["sft/train"].Rows+c["sft/validation"].Rows != 20 {
		t.Fatalf("%d records, %v", sum.Counts.Records, c)
	}
	whole := batchesOf(t, "whole")
	for _, leave := range []bool{false, true} {
		req.RunID = fmt.Sprint("divided-", leave)
		dividedBatches(t, req, leave)
		if d := cmp.Diff(whole, batchesOf(t, req.RunID)); d != "" {
			t.Errorf("writing left to the shards: %t: %s", leave, d)
		}
	}
}

// dividedBatches divides a run into three shards, and merges them. If leave is set, the shards write the batches.
func dividedBatches(t *testing.T, req Request, leave bool) {
	t.Helper()
	dir := shards.Folder(req.RunID + "-plan")
	req.Divide = &Division{Number: 3, Dir: string(dir)}
	all := []Request{req}
	stage := func(s shards.Stage) {
		for i := range 3 {
			all = append(all, Request{Shard: &Shard{Plan: dir, Stage: s, Number: i}})
		}
	}
	stage(shards.Build)
	stage(shards.Group)
	if leave {
		all = append(all, Request{Merge: dir, LeaveWriting: true})
		stage(shards.Write)
	}
	for _, req := range append(all, Request{Merge: dir}) {
		if _, err := Run(t.Context(), req, testEnv(t)); err != nil {
			t.Fatal(err)
		}
	}
}

// batchesOf returns the contents of a run's batches and of their index, by path.
func batchesOf(t *testing.T, id string) map[string]string {
	t.Helper()
	dir := filepath.Join("out", id, "batches")
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			out[strings.TrimPrefix(path, dir)] = string(readFile(t, path))
		}
		return err
	})
	if err != nil || len(out) < 2 {
		t.Fatalf("%d files: %v", len(out), err)
	}
	return out
}
