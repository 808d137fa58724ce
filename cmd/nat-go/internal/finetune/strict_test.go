package finetune

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage/read"
	"github.com/nat-go/nat-go/internal/oracletest"

	"github.com/google/go-cmp/cmp"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/pairs"
	"github.com/nat-go/nat-go/ttc/ledger"
	"github.com/nat-go/nat-go/ttc/source"
)

// TestStrictOnRecordedRuns runs the cases recorded from NAT in the default mode. Data that NAT wrongly trains on is
// dropped with a reason (NAT's defects B6, B7, B8, B9, B11 and B12). In every case, the counts balance or the run
// reports that they don't.
func TestStrictOnRecordedRuns(t *testing.T) {
	want := map[string]map[ledger.Reason]int64{ // reasons that must occur, with their counts
		"min_diff_zero_ties":    {pairs.Tie: 3},
		"nan_scores":            {ledger.NonFiniteScore: 3},
		"inf_scores":            {ledger.NonFiniteScore: 3, pairs.SingleCandidate: 1},
		"prompt_python_repr":    {pairs.ReprPrompt: 6},
		"invalid_steps_dropped": {source.BadStep: 4},
	}
	failing := map[string]int{"config_unknown_component_key": exit.Usage}
	cases, err := filepath.Glob(filepath.Join(oracletest.Path(t, "nat", "cases"), "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range cases {
		name := filepath.Base(dir)
		t.Run(name, func(t *testing.T) {
			work := t.TempDir()
			if err := os.CopyFS(work, os.DirFS(dir)); err != nil {
				t.Fatal(err)
			}
			t.Chdir(work)
			sum, err := Run(context.Background(), Request{
				ConfigFile: "config.yml",
				DryRun:     true,
				RunID:      "r",
				Choice:     read.Choice{From: caseInputs(t, dir)},
			}, testEnv(t))
			if code := exit.Code(err); failing[name] != 0 && code != failing[name] ||
				code != exit.OK && code != exit.Failed && failing[name] == 0 {
				t.Fatalf("exit %d: %v", code, err)
			}
			if err != nil && strings.Contains(err.Error(), "balance") {
				t.Fatal(err)
			}
			for reason, n := range want[name] {
				if sum.Counts.Dropped[reason] != n {
					t.Errorf("%d dropped for %s, want %d: %v", sum.Counts.Dropped[reason], reason, n,
						sum.Counts.Dropped)
				}
			}
			checkRows(t, filepath.Join(sum.DatasetDir, "customizer"))
		})
	}
}

// checkRows checks that no row pairs a text with itself and that no prompt is on both sides of the split.
func checkRows(t *testing.T, dir string) {
	t.Helper()
	prompts := map[string]string{}
	for _, name := range []string{"training_file.jsonl", "validation_file.jsonl"} {
		for s := bufio.NewScanner(bytes.NewReader(readFile(t, filepath.Join(dir, name)))); s.Scan(); {
			var row struct {
				Prompt           any
				Chosen, Rejected string
			}
			var raw map[string]any
			if err := json.Unmarshal(s.Bytes(), &raw); err != nil {
				t.Fatal(err)
			}
			row.Prompt, row.Chosen, row.Rejected = raw["prompt"], raw["chosen_response"].(string),
				raw["rejected_response"].(string)
			if row.Chosen == row.Rejected {
				t.Errorf("%s: chosen and rejected are both %q", name, row.Chosen)
			}
			key, _ := json.Marshal(row.Prompt)
			if other := prompts[string(key)]; other != "" && other != name {
				t.Errorf("the prompt %s is in %s and %s", key, other, name)
			}
			prompts[string(key)] = name
		}
	}
}

// TestRepeatIsByteIdentical checks that the same input, config and seed give the same bytes.
func TestRepeatIsByteIdentical(t *testing.T) {
	root, err := filepath.Abs("../../../../examples/demo")
	if err != nil {
		t.Fatal(err)
	}
	work := t.TempDir()
	if err := os.CopyFS(work, os.DirFS(root)); err != nil {
		t.Fatal(err)
	}
	t.Chdir(work)
	var first map[string]string
	for _, id := range []string{"a", "b"} {
		sum := runAs(t, id)
		got := map[string]string{}
		for _, root := range []string{"dataset", "records", "dropped.jsonl"} {
			err := filepath.WalkDir(filepath.Join(sum.RunDir, root),
				func(path string, e os.DirEntry, err error) error {
					if err != nil || e.IsDir() || e.Name() == "begun.json" || e.Name() == "commit.json" {
						return err
					}
					rel, _ := filepath.Rel(sum.RunDir, path)
					got[rel] = string(readFile(t, path))
					return nil
				})
			if err != nil {
				t.Fatal(err)
			}
		}
		if first == nil {
			first = got
		} else if d := cmp.Diff(first, got); d != "" {
			t.Errorf("the second run differs:\n%.2000s", d)
		}
	}
	if len(first) < 6 {
		t.Errorf("only %d files compared", len(first))
	}
}
