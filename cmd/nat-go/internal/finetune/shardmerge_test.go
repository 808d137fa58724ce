package finetune

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/bench"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/shards"
)

// TestWritingIsLeftOnce checks that a merge which finds the writing divided already says so on any machine, also on one
// that lacks the run folder.
func TestWritingIsLeftOnce(t *testing.T) {
	t.Chdir(t.TempDir())
	var text bytes.Buffer
	if err := bench.Generate(&text, bench.Shape{Examples: 4, Turns: 2, Candidates: 2, Seed: 3}); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.WriteFile("in.json", text.Bytes(), 0o600), os.WriteFile("config.yml",
		[]byte(strings.ReplaceAll(decidedConfig, "${TOKEN}", "t")), 0o600)); err != nil {
		t.Fatal(err)
	}
	run := func(req Request) *Summary {
		t.Helper()
		sum, err := Run(t.Context(), req, testEnv(t))
		if err != nil {
			t.Fatal(err)
		}
		return sum
	}
	run(Request{ConfigFile: "config.yml", RunID: "r", DryRun: true, Divide: &Division{Number: 1, Dir: "plan"}})
	run(Request{Shard: &Shard{Plan: "plan", Stage: shards.Build}})
	for range 2 {
		sum := run(Request{Merge: "plan", LeaveWriting: true})
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
