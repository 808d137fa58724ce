package inspect_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/inspect"
)

// TestYieldOfScored checks that the demonstrations are counted as init's configuration makes them. If only some
// conversations have scores, the others are dropped, and the reason is counted.
func TestYieldOfScored(t *testing.T) {
	const talk = `{"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]}` + "\n"
	scored := strings.Replace(talk, "{", `{"reward": 1, `, 1)
	for name, c := range map[string]struct {
		text    string
		records int64
		dropped map[string]int64
	}{
		"none":   {talk + strings.Replace(talk, "q", "p", 1), 2, map[string]int64{}},
		"some":   {scored + talk, 1, map[string]int64{"no_reward": 1}},
		"graded": {scored + strings.Replace(scored, "q", "p", 1), 2, map[string]int64{}},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "in.jsonl")
			if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			r, err := inspect.Look(context.Background(), inspect.Options{Paths: []string{path}})
			if err != nil {
				t.Fatal(err)
			}
			for _, y := range r.Builders {
				if y.Builder != "sft_traj_builder" {
					continue
				}
				if diff := cmp.Diff(c.dropped, y.Dropped); diff != "" || y.Records != c.records {
					t.Errorf("%d records, want %d %s", y.Records, c.records, diff)
				}
			}
		})
	}
}
