package finetune

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/compat"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/dataset"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage/read"
)

// natStep returns a TTC_END step as `nat eval` writes it.
func natStep(turn string, index int, output string, score any) string {
	return fmt.Sprintf(`{"parent_id":"p","function_ancestry":{"function_id":"f","function_name":"n","parent_id":null,"parent_name":null},`+
		`"payload":{"event_type":"TTC_END","event_timestamp":1.5,"span_event_timestamp":null,"framework":null,"name":"dpo_candidate_move","tags":null,`+
		`"metadata":null,"data":{"input":"q","output":%q,"chunk":null,"payload":null,"turn_id":%q,"turn_index":0,"candidate_index":%d,"score":%v},`+
		`"usage_info":null,"UUID":"u"}}`, output, turn, index, score)
}

func natEntry(id string, steps ...string) string {
	return fmt.Sprintf(`{"id":%s,"question":"q","intermediate_steps":[%s]}`, id, strings.Join(steps, ","))
}

func natFile(t *testing.T, name string, entries ...string) {
	t.Helper()
	if err := os.WriteFile(name, []byte("["+strings.Join(entries, ",")+"]"), 0o600); err != nil {
		t.Fatal(err)
	}
}

func natConfig(t *testing.T, trainer string) {
	t.Helper()
	text := "trajectory_builders: {b: {_type: dpo_traj_builder}}\ntrainers: {t: {_type: nemo_customizer_trainer, " + trainer + "}}\n" +
		"finetuning: {enabled: true, trainer: t, trajectory_builder: b, trainer_adapter: a, output_dir: out}\n" +
		"trainer_adapters: {a: {_type: nemo_customizer_trainer_adapter, entity_host: h, datastore_host: h, namespace: n, customization_config: c}}\n"
	if err := os.WriteFile("config.yml", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// runCompat runs three inputs in NAT's mode. The second input is missing.
func runCompat(t *testing.T) (*Summary, error) {
	t.Helper()
	return Run(context.Background(), Request{
		ConfigFile: "config.yml", DryRun: true, RunID: "x",
		Choice: read.Choice{Compat: compat.NAT, From: []string{"in0.json", "missing.json", "in2.json"}},
	}, testEnv(t))
}

func threeInputs(t *testing.T) {
	t.Helper()
	t.Chdir(t.TempDir())
	natFile(t, "in0.json", natEntry("1", natStep("t", 0, "a", 1), natStep("t", 1, "b", 1)))
	natFile(t, "in2.json", natEntry("2", natStep("t", 0, "a", 0.5), natStep("t", 1, "c", 0.25)))
}

func dataFiles(t *testing.T, dir string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			names = append(names, filepath.Base(path))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// TestCompatBuildsALargeCollectionRun checks that a built-in builder may return as much as limits.output allows for a
// collection run, which is a single group.
func TestCompatBuildsALargeCollectionRun(t *testing.T) {
	t.Chdir(t.TempDir())
	var steps []string
	for i := range 620 {
		steps = append(steps, natStep("t", i, strconv.Itoa(i), i))
	}
	natFile(t, "in.json", natEntry("1", steps...))
	natConfig(t, "num_runs: 1")
	got, err := Run(context.Background(), Request{
		ConfigFile: "config.yml", DryRun: true, RunID: "x",
		Choice:    read.Choice{Compat: compat.NAT, From: []string{"in.json"}},
		Overrides: []string{"limits.output=256MiB"},
	}, testEnv(t))
	if err != nil || got.Counts.Records != 620*619/2 {
		t.Errorf("%+v, %v; want %d records", got, err, 620*619/2)
	}
}

// TestCompatContinuesAfterAFailedCollectionRun checks the numbering of collection runs. NAT numbers its builder's
// results, and a failed collection run doesn't return one.
func TestCompatContinuesAfterAFailedCollectionRun(t *testing.T) {
	threeInputs(t)
	natConfig(t, "num_runs: 3, continue_on_collection_error: true")
	sum, err := runCompat(t)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(sum.DatasetDir, dataset.Trajectories)
	if d := cmp.Diff([]string{"submitted.json", "trajectories.json", "trajectories_run1.json"},
		dataFiles(t, dir)); d != "" {
		t.Error(d)
	}
	got := string(readFile(t, filepath.Join(dir, "trajectories_run1.json")))
	if !strings.Contains(got, `"run_id": "x_run2"`) {
		t.Errorf("the second collection is not that of run 2: %s", got)
	}
	if got := string(readFile(t, filepath.Join(dir, "trajectories.json"))); !strings.Contains(got, `"reward": 0.0,`) {
		t.Errorf("a reward of zero is not written as NAT writes it: %s", got)
	}
}

// TestCompatEndsAtAFailedCollectionRun checks that a failed collection run ends the run, and that earlier collection
// runs are kept.
func TestCompatEndsAtAFailedCollectionRun(t *testing.T) {
	threeInputs(t)
	natConfig(t, "num_runs: 3")
	sum, err := runCompat(t)
	if exit.Code(err) != exit.Failed || !strings.Contains(err.Error(), "collection run 1 failed: missing.json") {
		t.Fatalf("%v", err)
	}
	if d := cmp.Diff([]string{"trajectories.json"}, dataFiles(t, sum.DatasetDir)); d != "" {
		t.Error(d)
	}
	if readFile(t, filepath.Join(sum.RunDir, "dpo_trajectory_builder_x_run0.jsonl")) == nil ||
		readFile(t, filepath.Join(sum.RunDir, "collection_history.json")) == nil {
		t.Error("the progress files of the run before are missing")
	}
}

// TestCompatGroupsByTextOfID checks that ids are grouped by their text, as in NAT. The ids 1 and "1" are two entries
// but one group.
func TestCompatGroupsByTextOfID(t *testing.T) {
	t.Chdir(t.TempDir())
	natFile(t, "in.json", natEntry("1", natStep("t", 0, "a", 1), natStep("t", 1, "b", 0.5)),
		natEntry(`"1"`, natStep("u", 0, "c", 1), natStep("u", 1, "d", 0.5)), natEntry("2", natStep("t", 0, "e", 1), natStep("t", 1, "f", 0.5)))
	natConfig(t, "num_runs: 1")
	sum, err := Run(context.Background(), Request{
		ConfigFile: "config.yml",
		Choice:     read.Choice{Compat: compat.NAT, From: []string{"in.json"}},
		DryRun:     true,
		RunID:      "x",
	}, testEnv(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"trajectories.json", "submitted.json"} {
		got := string(readFile(t, filepath.Join(sum.DatasetDir, dataset.Trajectories, name)))
		if n := strings.Count(got, "[\n  {"); n != 2 {
			t.Errorf("%s has %d groups, want 2: %s", name, n, got)
		}
	}
	if rows := string(readFile(t, filepath.Join(sum.DatasetDir, "customizer", "rows.jsonl"))); !strings.Contains(rows, `"example":"2"`) {
		t.Errorf("rows.jsonl doesn't name the examples by their ids: %s", rows)
	}
}
