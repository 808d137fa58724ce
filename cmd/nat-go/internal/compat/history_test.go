package compat

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/builders/dpo"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/recordlog"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/trainers"
)

// TestStrictTotals checks that outside NAT's own mode the totals cover all records, examples count once, and the
// builder of pairs reports each collection run with its configuration.
func TestStrictTotals(t *testing.T) {
	most, score := 3, 0.5
	settings := dpo.Config{StepName: "step", ExhaustivePairs: true, MinScoreDiff: 0.25, MaxPairsPerTurn: &most}
	pairs := Pairs{Name: "moves", Config: &settings}
	h := NewHistory(Own, "r", pairs, func() time.Time { return time.Unix(0, 0) })
	a, b := &builders.Origin{Example: "a", Builder: "moves"}, &builders.Origin{Example: "b", Builder: "demos"}
	second := &builders.Origin{Example: "a", Run: 1, Builder: "moves"}
	count := func(name string, n int64) recordlog.Count { return recordlog.Count{Builder: "moves", Name: name, N: n} }
	h.Add(&recordlog.Group{Records: []builders.Resolved{
		{Record: &builders.Preference{Reward: 0.2}, Origin: a},
		{Record: &builders.Preference{Reward: 0.4}, Origin: a},
		{Record: &builders.Demonstration{Score: &score}, Origin: b},
		{Record: &builders.Distillation{}, Origin: b},
	}, Counts: []recordlog.Count{
		count("total_examples", 1), count("total_pairs", 2),
		{Builder: "demos", Name: "total_pairs", N: 9},
	}})
	h.Add(&recordlog.Group{
		Records: []builders.Resolved{{Record: &builders.Preference{Reward: 1}, Origin: second}},
		Counts: []recordlog.Count{
			count("total_examples", 1), count("total_pairs", 1),
			count("skipped_single_candidate", 4),
		},
	})

	folder := runfolder.Folder(t.TempDir())
	if err := h.WriteProgress(folder); err != nil {
		t.Fatal(err)
	}
	if err := h.WriteFinal(folder, trainers.JobStatus{State: trainers.Completed}, &trainers.JobRef{}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"final_metrics.json": `{"run_id": "r", "timestamp": "1970-01-01T00:00:00Z", "status": "completed", "message": "", "progress": null,
		  "num_collection_runs": 2, "total_trajectory_groups": 3, "job_metadata": null,
		  "collection_summary": {"total_trajectories": 5, "total_dpo_pairs": 3, "avg_reward": 0.525}}`,
		"dpo_trajectory_builder_r_run0.jsonl": `{"timestamp": "1970-01-01T00:00:00Z", "run_id": "r_run0",
		  "config": {"ttc_step_name": "step", "exhaustive_pairs": true, "min_score_diff": 0.25, "max_pairs_per_turn": 3},
		  "total_examples": 1, "total_turns": 0, "total_candidates": 0, "total_pairs": 2, "total_trajectories": 2,
		  "skipped_single_candidate": 0, "skipped_score_diff": 0}`,
		"dpo_trajectory_builder_r_run1.jsonl": `{"timestamp": "1970-01-01T00:00:00Z", "run_id": "r_run1",
		  "config": {"ttc_step_name": "step", "exhaustive_pairs": true, "min_score_diff": 0.25, "max_pairs_per_turn": 3},
		  "total_examples": 1, "total_turns": 0, "total_candidates": 0, "total_pairs": 1, "total_trajectories": 1,
		  "skipped_single_candidate": 4, "skipped_score_diff": 0}`,
	} {
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join(string(folder), name))
			if err != nil {
				t.Fatal(err)
			}
			var got, expected map[string]any
			if err := json.Unmarshal(text, &got); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal([]byte(want), &expected); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(expected, got); d != "" {
				t.Error(name, d)
			}
		})
	}
	progress, err := os.ReadFile(filepath.Join(string(folder), "data_collection_progress.jsonl"))
	if err != nil || !strings.Contains(string(progress), `"num_trajectories": 4, "num_dpo_pairs": 2`) {
		t.Errorf("%s %v", progress, err)
	}
}
