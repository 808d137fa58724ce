package intake_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/intake"
)

// TestLosses checks that what the chosen format has no place for is reported before a run, with the format that has a
// place for it, and that the format that is chosen carries everything.
func TestLosses(t *testing.T) {
	const text = `{"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]}
{"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}, {"role": "user", "content": "r"},
 {"role": "assistant", "content": "b"}]}
`
	path := filepath.Join(t.TempDir(), "in.jsonl")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := intake.Look(context.Background(), intake.Options{Paths: []string{path}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"messages"}, r.Choice.Formats); diff != "" {
		t.Error(diff)
	}
	if got := r.Losses(); got != nil {
		t.Errorf("the format that was chosen loses: %q", got)
	}
	r.Choice.Formats = []string{"trl"}
	want := []string{"trl carries 1 of 2 records: it trains other turns than the last one; messages carries 2"}
	if diff := cmp.Diff(want, r.Losses()); diff != "" {
		t.Error(diff)
	}
}
