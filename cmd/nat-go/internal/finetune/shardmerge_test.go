package finetune

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/bench"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/config"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/recordlog"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/shards"
)

// dividedRun returns a function that carries out requests in a folder where the only shard of a plan was built.
func dividedRun(t *testing.T) func(Request) (*Summary, error) {
	t.Helper()
	t.Chdir(t.TempDir())
	var text bytes.Buffer
	if err := bench.Generate(&text, bench.Shape{Examples: 4, Turns: 2, Candidates: 2, Seed: 3}); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.WriteFile("in.json", text.Bytes(), 0o600), os.WriteFile("config.yml",
		[]byte(strings.ReplaceAll(decidedConfig, "${TOKEN}", "t")), 0o600)); err != nil {
		t.Fatal(err)
	}
	run := func(req Request) (*Summary, error) { return Run(t.Context(), req, testEnv(t)) }
	for _, req := range []Request{
		{ConfigFile: "config.yml", RunID: "r", DryRun: true, Divide: &Division{Number: 1, Dir: "plan"}},
		{Shard: &Shard{Plan: "plan", Stage: shards.Build}},
	} {
		if _, err := run(req); err != nil {
			t.Fatal(err)
		}
	}
	return run
}

// TestShardIsNotPublished checks that a shard of a run for object storage isn't published, whatever is in its folder.
func TestShardIsNotPublished(t *testing.T) {
	folder := runfolder.Folder(t.TempDir())
	if err := os.WriteFile(folder.Manifest(), []byte(`{"status": "completed"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	p := &plan{Request: Request{Shard: &Shard{}}, folder: folder, stored: "s3://bucket/run"}
	p.config = new(config.Config)
	r := newRun(p, testEnv(t))
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // a request to the storage fails at once
	if err := r.publish(ctx); err != nil || r.sum.RunDir != "" || !runfolder.Has(folder.Manifest()) {
		t.Errorf("published %q: %v", r.sum.RunDir, err)
	}
}

// TestWritingIsLeftOnce checks that a second merge reports that the rows are already divided, even on a machine without
// the run folder.
func TestWritingIsLeftOnce(t *testing.T) {
	run := dividedRun(t)
	for range 2 {
		sum, err := run(Request{Merge: "plan", LeaveWriting: true})
		if err != nil {
			t.Fatal(err)
		}
		var words strings.Builder
		if err := WriteSummary(&words, sum, Look{}); err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(words.String(), "run r  completed\n") {
			t.Error(words.String())
		}
		if err := os.RemoveAll("out"); err != nil {
			t.Fatal(err)
		}
	}
}

// TestDamagedShareIsRefused truncates the rows that a shard wrote, and checks that the merge reports it.
func TestDamagedShareIsRefused(t *testing.T) {
	run := dividedRun(t)
	for _, req := range []Request{
		{Merge: "plan", LeaveWriting: true}, {Shard: &Shard{Plan: "plan", Stage: shards.Write}},
	} {
		if _, err := run(req); err != nil {
			t.Fatal(err)
		}
	}
	rows, err := filepath.Glob("plan/write/00000/dataset/trl/*.jsonl")
	for _, path := range rows {
		info, statErr := os.Stat(path)
		if err = errors.Join(err, statErr); err == nil && filepath.Base(path) != "rows.jsonl" {
			err = os.Truncate(path, info.Size()-5)
		}
	}
	if err != nil || len(rows) < 2 {
		t.Fatalf("%v: %v", rows, err)
	}
	_, err = run(Request{Merge: "plan"})
	if exit.Code(err) != exit.Environment || !strings.Contains(err.Error(), "is damaged: a row is not JSON") {
		t.Error(err)
	}
}

// TestDamagedLogIsRefused changes the length of a frame in a shard's log, and checks that the merge reports it once.
func TestDamagedLogIsRefused(t *testing.T) {
	run := dividedRun(t)
	const path = "plan/build/00000/records/records.log"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	binary.LittleEndian.PutUint64(text[recordlog.HeaderSize:], uint64(len(text)-recordlog.HeaderSize))
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = run(Request{Merge: "plan"})
	if exit.Code(err) != exit.Environment || strings.Count(err.Error(), "is damaged: ") != 1 {
		t.Error(err)
	}
}

// TestFullDiskOfAMerge checks that the error of a merge of runs, whose folder is removed, doesn't advise resuming it.
func TestFullDiskOfAMerge(t *testing.T) {
	p := &plan{folder: "out/r", joined: []*plan{}, config: &config.Config{}}
	err := newRun(p, testEnv(t)).explain(syscall.ENOSPC)
	if !strings.HasSuffix(err.Error(), "make room on the disk of out/r, then merge again") {
		t.Error(err)
	}
}
