//go:build tokenizers

package scripts

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/e2e"

	"github.com/google/go-cmp/cmp"

	"github.com/nat-go/nat-go/internal/tensors"
)

// TestDescribedInputs runs files that were written from the description of a composer-style collator alone, and checks
// that the result is as described: error sites that the source reports, whoever is speaking, hints from (error_kind,
// error_meta), none if a hint is declined, ready-made pairs and those from replays without ties, and one file per step
// with all channels.
func TestDescribedInputs(t *testing.T) {
	p := &e2e.Project{Dir: t.TempDir(), Exe: e2e.Program(t)}
	if err := os.CopyFS(p.Dir, os.DirFS(filepath.Join("testdata", "seeds"))); err != nil {
		t.Fatal(err)
	}
	tokenizer, err := filepath.Abs(filepath.Join("..", "..", "..", "..", "..", "examples", "hints", "tokenizer"))
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("TOKENIZER", tokenizer)
	r := p.NatGo(t, 0, "finetune", "run", "--config-file", "finetune.yml", "--run-id", "r", "-v")
	for _, says := range []string{"inputs found", "records built", "records curated", "token batches written"} {
		if !strings.Contains(r.Stderr, says) {
			t.Errorf("the log does not say %q:\n%s", says, r.Stderr)
		}
	}
	var m struct {
		Batches struct {
			Counts map[string]struct{ Rows int }
			Steps  int
		}
		Counters map[string]map[string]int64
		Counts   struct{ Dropped map[string]int64 }
	}
	read(t, filepath.Join(p.Dir, "out", "r", "manifest.json"), &m)
	rows := map[string]int{}
	for channel, c := range m.Batches.Counts {
		rows[channel] = c.Rows
	}
	want := map[string]int{"dpo/train": 6, "rl/train": 6, "sdpo/train": 4}
	if d := cmp.Diff(want, rows); d != "" || m.Batches.Steps != 1 {
		t.Error(d, m.Batches.Steps)
	}
	hints := m.Counters["hints"]
	if hints["sites/flag/rules/knowable"] != 3 || hints["sites/message/schema/knowable"] != 1 ||
		m.Counts.Dropped["hint_declined"] != 1 {
		t.Errorf("%v %v", hints, m.Counts.Dropped)
	}
	if moves := m.Counters["moves"]; moves["total_pairs"] != 6 || moves["pairs_tied"] != 1 {
		t.Errorf("%v", moves)
	}
	checkStep(t, filepath.Join(p.Dir, "out", "r", "batches", "steps", "train", "00000.safetensors"))
	p.NatGo(t, 0, "dataset", "verify", "out/r")

	p.NatGo(t, 0, "finetune", "run", "--config-file", "finetune.yml", "--run-id", "later", "--dry-run")
	p.NatGo(t, 0, "finetune", "resume", "out/later")
	for _, run := range []string{"r", "later"} {
		t.Run(run, func(t *testing.T) {
			var final struct {
				Groups  int `json:"total_trajectory_groups"`
				Summary struct {
					Trajectories int `json:"total_trajectories"`
					Pairs        int `json:"total_dpo_pairs"`
				} `json:"collection_summary"`
			}
			read(t, filepath.Join(p.Dir, "out", run, "final_metrics.json"), &final)
			if final.Groups != 6 || final.Summary.Trajectories != 16 || final.Summary.Pairs != 6 {
				t.Errorf("%s: %+v", run, final)
			}
		})
	}
	var line struct{ Config map[string]any }
	read(t, filepath.Join(p.Dir, "out", "r", "dpo_trajectory_builder_r_run0.jsonl"), &line)
	if len(line.Config) != 4 {
		t.Errorf("%v", line.Config)
	}

	p.NatGo(t, 0, "finetune", "run", "--from", "pairs.jsonl", "--builder", "dpo", "--format", "trl", "--run-id", "p")
}

func read(t *testing.T, path string, into any) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// checkStep checks a step file's tensors: the described names and shapes, and the mask of 1 and -100.
func checkStep(t *testing.T, path string) {
	t.Helper()
	f, err := tensors.OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	all, err := f.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	shape := map[string][]int{}
	for _, x := range all {
		shape[x.Name] = x.Shape
		if x.Name == "sdpo_loss_mask" {
			mask, _ := tensors.Items[int64](x)
			slices.Sort(mask)
			if got := slices.Compact(mask); !slices.Equal(got, []int64{-100, 1}) {
				t.Errorf("the mask has %v", got)
			}
		}
	}
	one := shape["input_ids"]
	for _, name := range []string{
		"attention_mask", "response_mask", "ctx_teacher_input_ids", "sdpo_loss_mask",
	} {
		if !slices.Equal(shape[name], one) || one == nil {
			t.Errorf("%s is %v, input_ids %v", name, shape[name], one)
		}
	}
	pair := shape["dpo_chosen_input_ids"]
	for _, name := range []string{
		"dpo_chosen_response_mask", "dpo_rejected_input_ids", "dpo_rejected_response_mask",
	} {
		if !slices.Equal(shape[name], pair) || pair == nil {
			t.Errorf("%s is %v, dpo_chosen_input_ids %v", name, shape[name], pair)
		}
	}
	if !slices.Equal(shape["rewards"], one[:1]) {
		t.Errorf("rewards is %v", shape["rewards"])
	}
}
