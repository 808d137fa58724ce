package e2e

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// NewShardBed returns a bed with inputs that are hard to split: ids that repeat on both sides of any cut, lines without
// an id, lines that aren't entries, and an array and a compressed file among the files of lines.
func NewShardBed(t *testing.T, examples int) *Bed {
	b := newBed(t, 65536)
	r := rand.New(rand.NewPCG(23, uint64(examples)))
	b.Write(t, "in/a.jsonl", Scored(r, examples))
	b.Write(t, "in/b.jsonl", "\xEF\xBB\xBF"+Scored(r, examples/5))
	entries := strings.TrimSpace(strings.ReplaceAll(Scored(r, examples/5), "17\n", ""))
	b.Write(t, "in/c.json", "["+strings.ReplaceAll(entries, "\n", ",")+"]")
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, _ = w.Write([]byte(Scored(r, examples/5)))
	_ = w.Close()
	b.Write(t, "in/d.jsonl.gz", packed.String())
	b.Write(t, "in/e.jsonl", Scored(r, examples/5))
	b.Write(t, "dpo.yml", `
trajectory_builders: {b: {_type: dpo_traj_builder}}
sources: {runs: {_type: candidates, path: [in/a.jsonl, in/b.jsonl, in/c.json, in/d.jsonl.gz, in/e.jsonl]}}
dataset: {formats: [customizer, trl, kto, nemo_rl]}
finetuning: {enabled: true, trajectory_builder: b, output_dir: out}
`)
	return b
}

// AddTasks adds traces for tasks whose rollouts are far apart, in several files, and configurations with builders that
// work on tasks. These also produce token batches if the program has the tokenizer library.
func (b *Bed) AddTasks(t *testing.T, traces int) {
	t.Helper()
	text, err := os.ReadFile("../../../../../examples/hints/traces.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	r := rand.New(rand.NewPCG(5, 5))
	var files [3]strings.Builder
	for i := range traces {
		var trace map[string]json.RawMessage
		if err := json.Unmarshal([]byte(lines[r.IntN(len(lines))]), &trace); err != nil {
			t.Fatal(err)
		}
		set := func(key string, value any) { trace[key], _ = json.Marshal(value) }
		set("id", fmt.Sprint("trace ", r.IntN(traces)))
		set("trial", i)
		set("reward", float64(r.IntN(5))/4)
		set("task_id", fmt.Sprint("task ", r.IntN(1+traces/4)))
		switch r.IntN(12) {
		case 0:
			delete(trace, "task_id")
		case 1:
			set("messages", 17) // is dropped
		case 2:
			set("rewards", 1) // is listed
		}
		line, err := json.Marshal(trace)
		if err != nil {
			t.Fatal(err)
		}
		line = bytes.ReplaceAll(line, []byte("Grace"), fmt.Append(nil, "Grace", r.IntN(traces)))
		fmt.Fprintf(&files[i*4/traces%3], "%s\n", line)
	}
	for i := range files {
		b.Write(t, fmt.Sprintf("in/traces%d.jsonl", i), files[i].String())
	}
	collator := ""
	if WithTokenizers() {
		tokenizer, err := filepath.Abs("../../../../../examples/hints/tokenizer")
		if err != nil {
			t.Fatal(err)
		}
		collator = fmt.Sprintf("collator: {tokenizer: %q, policy: booker-1, max_length: 4096, batch_tokens: 8192}",
			tokenizer)
	}
	tasks := `
sources: {runs: {_type: traces, path: ["in/traces*.jsonl"]}}
trajectory_builders:
  hints: {_type: sdpo_traj_builder, emit: [distillation, repair_pairs], hints: {allow: [knowable], sources: [schema]}}
  rollouts: {_type: grpo_traj_builder}
  shown: {_type: sft_traj_builder}
dataset: {formats: [trl, messages, verl]}
finetuning: {enabled: true, trajectory_builder: [hints, rollouts, shown], output_dir: out}
`
	b.Write(t, "tasks.yml", collator+tasks)
	b.Write(t, "steps.yml", strings.Replace(collator, "{", "{format: composer, composer: {files: step}, ", 1)+tasks)
}

// Scored returns scored answers as lines.
func Scored(r *rand.Rand, examples int) string {
	var text strings.Builder
	for e := range examples {
		line := map[string]any{}
		if e%7 != 0 {
			line["id"] = fmt.Sprint("e", r.IntN(examples))
		}
		for turn := range 1 + r.IntN(3) {
			for range 1 + r.IntN(5) {
				line["turn_id"] = fmt.Sprint("t", turn)
				line["prompt"] = fmt.Sprintf("prompt %d of %d", turn, r.IntN(1+examples/2))
				line["output"] = strings.Repeat("so ", r.IntN(20)) + fmt.Sprint("answer ", r.IntN(6))
				line["score"] = float64(r.IntN(5)) / 4
				if r.IntN(50) == 0 {
					line["score"] = "none"
				}
				one, err := json.Marshal(line)
				if err != nil {
					panic(err)
				}
				fmt.Fprintf(&text, "%s\n", one)
			}
		}
		if r.IntN(9) == 0 {
			text.WriteString("17\n")
		}
	}
	return text.String()
}

// Planned returns the command that plans a sharded run.
func (b *Bed) Planned(out, config string, how ...string) *exec.Cmd {
	args := []string{"shard", "plan", "--config-file", config, "--run-id", "r", "--output-dir", out}
	return b.Command(nil, append(args, how...)...)
}

// Shard returns the command that runs a stage of a shard.
func (b *Bed) Shard(out, stage string, index int) *exec.Cmd {
	dir := filepath.Join(out, "r.shards")
	return b.Command(nil, "shard", "run", dir, "--stage", stage, "--index", strconv.Itoa(index))
}

// Merged returns the command that merges the shards.
func (b *Bed) Merged(out string) *exec.Cmd {
	return b.Command(nil, "shard", "merge", filepath.Join(out, "r.shards"))
}
