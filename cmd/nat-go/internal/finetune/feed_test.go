package finetune

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage/read"
	"github.com/nat-go/nat-go/ttc/source"
)

const taskConfig = `
trajectory_builders:
  best: {_type: sft_traj_builder, from: rollouts, select: all}
  moves: {_type: dpo_traj_builder, ttc_step_name: move}
trainers: {t: {_type: nemo_customizer_trainer, deduplicate_pairs: false}}
finetuning: {enabled: true, trajectory_builder: [best, moves], trainer: t, output_dir: out}
dataset: {formats: [trl], split: {validation: 0}}
`

// writeTasks writes collection runs in which trials of tasks are interleaved, with invalid entries between them.
func writeTasks(t *testing.T, dir string, runs, entries int) []string {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	var paths []string
	for k := range runs {
		var b strings.Builder
		b.WriteString("[\n")
		for i := range entries {
			if i > 0 {
				b.WriteString(",\n")
			}
			if rng.IntN(5) == 0 {
				fmt.Fprintf(&b, `"broken %d"`, i)
				continue
			}
			var steps []string
			for c := range 2 {
				steps = append(steps, fmt.Sprintf(`{"parent_id":"r","function_ancestry":{"function_id":"f","function_name":"w"},"payload":{"event_type":"TTC_END","event_timestamp":1.0,"name":"move","UUID":"1","data":{"input":"q %d","output":"answer %d.%d.%d","turn_id":"t","candidate_index":%d,"score":%v}}}`,
					i, k, i, c, c, rng.Float64()))
			}
			fmt.Fprintf(&b, `{"id":"t%d_rep%d","question":"q","answer":"a","generated_answer":"g%d","intermediate_steps":[%s]}`, rng.IntN(entries/3+1), k*entries+i, i, strings.Join(steps, ","))
		}
		b.WriteString("\n]\n")
		path := filepath.Join(dir, fmt.Sprintf("run%d.json", k))
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	return paths
}

// dataOf returns the data files of a run, by name.
func dataOf(t *testing.T, run string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, pattern := range []string{"dataset/*/*", "dropped.jsonl", "records/*.log", "records/decisions.bin"} {
		files, err := filepath.Glob(filepath.Join(run, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			rel, _ := filepath.Rel(run, f)
			out[rel] = string(readFile(t, f))
		}
	}
	return out
}

// TestTasks checks that a builder that works on tasks gets whole tasks, regardless of the order of the input, that a
// builder of single examples in the same run makes the same records as it does alone, and that a run interrupted
// anywhere ends with the same bytes.
func TestTasks(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("config.yml", []byte(taskConfig), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("alone.yml", []byte(strings.Replace(taskConfig, "[best, moves]", "moves", 1)),
		0o644); err != nil {
		t.Fatal(err)
	}
	from := writeTasks(t, ".", 3, 40)
	ctx := context.Background()
	sum, err := Run(ctx, Request{
		ConfigFile: "config.yml", DryRun: true, RunID: "whole", Choice: read.Choice{From: from},
	}, testEnv(t))
	if err != nil {
		t.Fatal(err)
	}
	whole := dataOf(t, "out/whole")
	if sum.Counts.Dropped[source.BadExample] == 0 {
		t.Errorf("no broken entry was dropped: %v", sum.Counts.Dropped)
	}
	alone, err := Run(ctx, Request{
		ConfigFile: "alone.yml", DryRun: true, RunID: "alone", Choice: read.Choice{From: from},
	}, testEnv(t))
	if err != nil {
		t.Fatal(err)
	}
	if alone.Counts.Examples != sum.Counts.Examples {
		t.Errorf("%d examples in tasks, %d alone", sum.Counts.Examples, alone.Counts.Examples)
	}
	for _, stop := range []int{1, 2, 3, 4, 7, 10, 15} {
		id := fmt.Sprintf("stopped%d", stop)
		env := testEnv(t)
		env.CommitBytes = 1
		ctx, cancel := context.WithCancel(ctx)
		env.Progress = func(stage.Progress) {
			if stop--; stop == 0 {
				cancel()
			}
		}
		_, err := Run(ctx, Request{
			ConfigFile: "config.yml", DryRun: true, RunID: id, Choice: read.Choice{From: from},
		}, env)
		cancel()
		if exit.Code(err) != exit.Interrupted {
			t.Fatalf("%s: %v", id, err)
		}
		if _, err := Run(context.Background(), Request{Resume: runfolder.Folder("out/" + id)}, testEnv(t)); err != nil {
			t.Fatalf("%s: %v", id, err)
		}
		if d := cmp.Diff(whole, dataOf(t, "out/"+id)); d != "" {
			t.Errorf("%s: %s", id, d)
		}
	}
	if !bytes.Contains([]byte(whole["dropped.jsonl"]), []byte("bad_example")) {
		t.Error("drops of the source are not listed")
	}
}
