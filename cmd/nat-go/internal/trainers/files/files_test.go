package files

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/trainers"
)

func TestDoneAtOnce(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "dataset", "trl", "train.jsonl"))
	data := trainers.DataSet{RunID: "r1", RunDir: dir, Formats: map[string]trainers.Format{
		"trl": {
			Dir:   "dataset/trl",
			Files: []trainers.File{{Path: "dataset/trl/train.jsonl", Kind: "preference", Split: trainers.Train}},
		},
	}}
	var a trainers.Adapter = Adapter{}
	ctx := context.Background()
	if err := a.Check(ctx); err != nil {
		t.Fatal(err)
	}
	job, err := a.Submit(ctx, data, "r1-key")
	if err != nil {
		t.Fatal(err)
	}
	st, err := a.Status(ctx, job)
	if err != nil || st.State != trainers.Completed {
		t.Fatalf("status = %+v, %v", st, err)
	}
	if err := a.Cancel(ctx, job); err != nil {
		t.Fatal(err)
	}
}

func TestMissingFileIsReported(t *testing.T) {
	data := trainers.DataSet{RunID: "r1", RunDir: t.TempDir(), Formats: map[string]trainers.Format{
		"trl": {
			Dir:   "dataset/trl",
			Files: []trainers.File{{Path: "dataset/trl/train.jsonl", Kind: "preference", Split: trainers.Train}},
		},
	}}
	_, err := Adapter{}.Submit(context.Background(), data, "k")
	if err == nil || !strings.Contains(err.Error(), "not complete") {
		t.Fatalf("err = %v", err)
	}
	if got := exit.Code(trainers.Exit(err)); got != exit.Environment {
		t.Fatalf("exit %d, want %d", got, exit.Environment)
	}
}

func TestForeignJobIsRefused(t *testing.T) {
	if _, err := (Adapter{}).Status(context.Background(), trainers.JobRef{Backend: "nemo-customizer"}); err == nil {
		t.Fatal("no error")
	}
}

func write(t *testing.T, path string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("{}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
}
