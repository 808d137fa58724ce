//go:build tokenizers

package finetune

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage/read"
	"github.com/nat-go/nat-go/collator/batch"
	"github.com/nat-go/nat-go/internal/oracletest"
)

// TestDivergencesOnQwen3 checks that every pair of rollouts with tools has a row with Qwen3's own template, which shows
// empty reasoning only before the last turn, and that both sides begin after the same prompt.
func TestDivergencesOnQwen3(t *testing.T) {
	recorded, _, _ := strings.Cut(
		string(readFile(t, oracletest.Path(t, "readers", "verifiers_v1", "eval", "traces.jsonl"))), "\n")
	var varied []string
	for i, v := range recordedVariants() {
		varied = append(varied, v.line(t, recorded, i))
	}
	for name, c := range map[string]struct {
		lines    []string
		strategy string
		pairs    int
		kept     bool // some sides have several turns
	}{
		"airline":  {airlineLines(t), "best_vs_worst", 6, false},
		"variants": {varied, "exhaustive", 22, true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			config := fmt.Sprintf(`trajectory_builders: {d: {_type: divergence_traj_builder, strategy: %s}}
collator: {tokenizer: %s, template: %s, max_dpo_length: 65536, max_length: 65536}
dataset: {formats: [trl], split: {validation: 0}}
finetuning: {enabled: true, trajectory_builder: d}
`, c.strategy, oracletest.Path(t, "chat", "tokens", "tokenizers", "qwen2_5.json"),
				oracletest.Path(t, "chat", "render", "templates", "qwen3.jinja"))
			for file, text := range map[string]string{"c.yml": config, "r.jsonl": strings.Join(c.lines, "\n")} {
				if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			sum, err := Run(t.Context(), Request{
				Choice:     read.Choice{From: []string{filepath.Join(dir, "r.jsonl")}},
				ConfigFile: filepath.Join(dir, "c.yml"), OutputDir: dir,
			}, testEnv(t))
			if err != nil {
				t.Fatal(err)
			}
			run := runfolder.Folder(sum.RunDir)
			if r := verifyRun(t, run); r.Errors > 0 {
				t.Errorf("verify: %+v", r.Findings)
			}
			index := filepath.Join(sum.RunDir, "batches", "index.jsonl")
			lines, err := batch.ReadIndex(index)
			if err != nil {
				t.Fatal(err)
			}
			rows, kept := 0, false
			for i := range lines {
				of, err := batch.Read(filepath.Dir(index), &lines[i])
				if err != nil {
					t.Fatal(err)
				}
				for _, r := range of {
					rows++
					kept = kept || slices.Contains(r.Meta.Flags, "kept_filler")
					if chosen, rejected, same := r.Prompts(); !same {
						t.Errorf("%s: prompts of %d and %d tokens", r.Meta.Example, chosen, rejected)
					}
				}
			}
			if rows != c.pairs || kept != c.kept {
				t.Errorf("%d rows of %d pairs, kept_filler %v\n%s", rows, c.pairs, kept,
					readFile(t, filepath.Join(sum.RunDir, "dropped.jsonl")))
			}
		})
	}
}

// airlineLines returns the rollouts of the airline agent, including its tools.
func airlineLines(t *testing.T) (lines []string) {
	t.Helper()
	var rollouts []struct {
		Task     int             `json:"task_id"`
		Trial    int             `json:"trial"`
		Reward   float64         `json:"reward"`
		Messages json.RawMessage `json:"traj"`
	}
	if err := json.Unmarshal(readFile(t, oracletest.Path(t, "chat", "traces", "gpt-4o-airline-dev.json")), &rollouts); err != nil {
		t.Fatal(err)
	}
	tools := json.RawMessage(readFile(t, oracletest.Path(t, "chat", "traces", "tools.json")))
	for _, r := range rollouts {
		line, err := json.Marshal(map[string]any{
			"id": fmt.Sprint(r.Task, "/", r.Trial), "task": fmt.Sprint(r.Task), "reward": r.Reward,
			"messages": r.Messages, "tools": tools,
		})
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, string(line))
	}
	return lines
}
