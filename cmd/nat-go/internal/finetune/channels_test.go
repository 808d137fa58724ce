//go:build tokenizers

package finetune

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/config"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/dataset"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/shards"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage/collate"
	"github.com/nat-go/nat-go/collator"
	"github.com/nat-go/nat-go/collator/batch"
	"github.com/nat-go/nat-go/collator/tokenizer"
)

const callML = `{% for m in messages %}<|im_start|>{{ m.role }}
{{ m.content }}{% for c in m.tool_calls or [] %}<call>{{ c.function.name }} {{ c.function.arguments | tojson }}</call>{% endfor %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}`

// ownTrace returns a rollout of the model to be trained, with ids and log-probs, a failed call from which it recovers,
// and alternative answers for one turn.
func ownTrace(t *testing.T, tok *tokenizer.Tokenizer, task, trial int) string {
	t.Helper()
	end, _ := tok.ID("<|im_end|>")
	said := func(m map[string]any, text string) map[string]any {
		enc, err := tok.Encode(text, tokenizer.Options{})
		if err != nil {
			t.Fatal(err)
		}
		ids, logps := append(enc.IDs, end), []float64{}
		for k := range ids {
			logps = append(logps, -float64(k%7)/8)
		}
		m["role"], m["token_ids"], m["logprobs"], m["finish_reason"] = "assistant", ids, logps, "stop"
		return m
	}
	call := func(id, args string) map[string]any {
		var compact any
		_ = json.Unmarshal([]byte(args), &compact)
		return said(map[string]any{
			"content": "",
			"tool_calls": []any{map[string]any{
				"id":       id,
				"type":     "function",
				"function": map[string]any{"name": "weather", "arguments": args},
			}},
		},
			"<call>weather "+args+"</call>")
	}
	question := map[string]any{"role": "user", "content": fmt.Sprintf("How is the weather in town %d?", task)}
	answers := []any{}
	for i, text := range []string{"Fine.", "Bad.", "I don't know."} {
		answers = append(answers, map[string]any{
			"turn_id": "last",
			"prompt":  []any{question},
			"output":  fmt.Sprint(text, trial),
			"score":   float64(i),
		})
	}
	line, err := json.Marshal(map[string]any{
		"id":         fmt.Sprintf("t%d-%d", task, trial),
		"task_id":    fmt.Sprint(task),
		"trial":      trial,
		"reward":     float64(trial),
		"model":      "me",
		"sampling":   map[string]any{"temperature": 0.7, "top_p": 1},
		"candidates": answers,
		"tools": []any{map[string]any{
			"type": "function",
			"function": map[string]any{"name": "weather", "parameters": map[string]any{
				"type":       "object",
				"properties": map[string]any{"town": map[string]any{"type": "integer"}},
				"required":   []string{"town"},
			}},
		}},
		"messages": []any{
			question, call("a", fmt.Sprintf(`{"town": "number %d"}`, trial)),
			map[string]any{"role": "tool", "tool_call_id": "a", "content": "no"},
			call("b", fmt.Sprintf(`{"town": %d}`, task)),
			map[string]any{"role": "tool", "tool_call_id": "b", "content": "fine"},
			said(map[string]any{"content": "It is fine."}, "It is fine."),
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(line)
}

// TestControlHasNoEffect checks that measuring the effect of hints is an error if hints are omitted.
func TestControlHasNoEffect(t *testing.T) {
	c := config.Collator{Hints: "none", TemplateTime: "2026-01-02", Teacher: &config.Teacher{HintEffect: true}}
	if _, err := collate.CollatorConfig(c, 0); err == nil || !strings.Contains(err.Error(), "hint_effect") {
		t.Error(err)
	}
	c.Teacher = nil
	if cfg, err := collate.CollatorConfig(c, 0); err != nil || !cfg.NullHints {
		t.Error(err)
	}
}

// TestComposerCapsPairs checks that sides of pairs in format composer have at most 2048 tokens, unless max_dpo_length
// is set.
func TestComposerCapsPairs(t *testing.T) {
	own := 3000
	for _, c := range []struct {
		collator config.Collator
		want     int
	}{
		{config.Collator{Format: "nat_go"}, 0},
		{config.Collator{Format: "composer"}, 2048},
		{config.Collator{Format: "composer", MaxDPOLength: &own}, 3000},
	} {
		c.collator.TemplateTime = "2026-01-02"
		if cfg, err := collate.CollatorConfig(c.collator, 0); err != nil || cfg.MaxPairLength != c.want {
			t.Errorf("got %d, want %d, %v", cfg.MaxPairLength, c.want, err)
		}
	}
}

// TestEveryChannelInOneRun checks a run with the dpo, sdpo, sft and grpo builders. Every channel of a composite trainer
// is present, each row names its example, repair pairs are off-policy, and the index lines contain the temperature.
func TestEveryChannelInOneRun(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, content := range map[string][]byte{"tokenizer.json": bytesTokenizer(t), "calls.jinja": []byte(callML)} {
		if err := os.WriteFile(name, content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	tok, err := tokenizer.Load("tokenizer.json")
	if err != nil {
		t.Fatal(err)
	}
	defer tok.Close()
	var lines []string
	examples := map[string]bool{}
	for task := range 4 {
		for trial := range 2 {
			lines = append(lines, ownTrace(t, tok, task, trial))
			examples[fmt.Sprintf("t%d-%d", task, trial)] = true
		}
	}
	const yaml = `sources: {runs: {_type: traces, path: traces.jsonl}}
trajectory_builders:
  pairs: {_type: dpo_traj_builder}
  hints: {_type: sdpo_traj_builder, target: both, emit: [distillation, repair_pairs, demonstrations], hints: {sources: [schema, rules], rules: [{text: "Mind the town."}]}}
  best: {_type: sft_traj_builder, from: rollouts}
  tasks: {_type: grpo_traj_builder}
collator: {tokenizer: tokenizer.json, template: calls.jinja, policy: me, max_length: 2048, batch_tokens: 8192}
dataset: {formats: [sft_parquet, skyrl_pretokenized, trl], split: {by: task, validation: 0}}
finetuning: {enabled: true, trajectory_builder: [pairs, hints, best, tasks], output_dir: o}
`
	for name, content := range map[string]string{
		"traces.jsonl": strings.Join(lines, "\n") + "\n",
		"finetune.yml": yaml,
	} {
		if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	sum, err := Run(context.Background(), Request{ConfigFile: "finetune.yml", RunID: "r"}, testEnv(t))
	if err != nil {
		t.Fatal(err)
	}
	if r, err := collator.Verify(sum.RunDir, tok); err != nil || len(r.Problems) > 0 {
		t.Fatalf("%v %+v", err, r)
	}
	index, err := batch.ReadIndex(filepath.Join(sum.RunDir, "batches", batch.IndexName))
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]map[string]int{} // channel, example
	repairs, sites := 0, map[string]int{}
	for _, l := range index {
		if rows[l.Channel] == nil {
			rows[l.Channel] = map[string]int{}
		}
		for _, m := range l.RowInfo {
			rows[l.Channel][m.Example]++
			if !examples[m.Example] || !slices.Contains(l.Examples, m.Example) || m.Record == "" {
				t.Errorf("%s: a row of example %q, record %q", l.Channel, m.Example, m.Record)
			}
			switch {
			case l.Channel == "dpo" && m.Turn == "":
				repairs++
				if m.OnPolicy != "other" {
					t.Errorf("a repair pair is on_policy %s", m.OnPolicy)
				}
			case l.Channel == "rl" || l.Channel == "sdpo":
				if m.IDs != "sampled" || m.OnPolicy != "same" || m.Sampling == nil || m.Sampling.Temperature != 0.7 ||
					m.Sampling.LogProbs != "raw" {
					t.Errorf("%s: %s %s %+v", l.Channel, m.IDs, m.OnPolicy, m.Sampling)
				}
			}
			for _, s := range m.Sites {
				sites[s.Class+" "+s.Source+" "+s.Target]++
			}
		}
	}
	for _, c := range []string{"sft", "dpo", "rl", "sdpo"} {
		if len(rows[c]) != len(examples) && c != "sft" || len(rows[c]) == 0 {
			t.Errorf("channel %s has rows of %d of %d examples: %v", c, len(rows[c]), len(examples), sum.Counts.Dropped)
		}
	}
	if repairs != len(examples) || sites["schema schema failed_turn"] != len(examples) {
		t.Errorf("%d repair pairs, sites %v, dropped %v", repairs, sites, sum.Counts.Dropped)
	}
	if n := sum.Counts.Dropped["not_used"]; n > 0 {
		t.Errorf("%d candidates are said to be unused by builders that don't look at any", n)
	}
	var b strings.Builder
	if err := WriteSummary(&b, sum, Look{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"sites    schema ", "hints by schema (knowable)", "sampled by the model to be trained: other",
		"tool-call arguments as sampled: exact",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the summary doesn't say %q:\n%s", want, b.String())
		}
	}
	t.Log(b.String())
	convertsAsTheRun(t, runfolder.Folder(sum.RunDir))
	dividesAsTheRun(t, runfolder.Folder(sum.RunDir))
}

// dividesAsTheRun checks that two shards, which store the examples by task and make the token rows, produce the run's
// data set and batches.
func dividesAsTheRun(t *testing.T, run runfolder.Folder) {
	t.Helper()
	requests := []Request{{ConfigFile: "finetune.yml", RunID: "divided", Divide: &Division{Number: 2, Dir: "plan"}}}
	for _, stage := range []shards.Stage{shards.Build, shards.Group} {
		for i := range 2 {
			requests = append(requests, Request{Shard: &Shard{Plan: "plan", Stage: stage, Number: i}})
		}
	}
	for _, req := range append(requests, Request{Merge: "plan"}) {
		if _, err := Run(t.Context(), req, testEnv(t)); err != nil {
			t.Fatal(err)
		}
	}
	want, got := dataOf(t, string(run)), dataOf(t, "o/divided")
	for of, in := range map[string]map[string]string{string(run): want, "o/divided": got} {
		in["batches"] = string(readFile(t, filepath.Join(of, "batches", batch.IndexName)))
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// convertsAsTheRun checks that converting text rows and token rows together gives the same rows as the run.
func convertsAsTheRun(t *testing.T, run runfolder.Folder) {
	t.Helper()
	var formats []dataset.Format
	for _, name := range []string{"sft_parquet", "skyrl_pretokenized", "trl"} {
		f, ok := dataset.Lookup(name)
		if !ok {
			t.Fatalf("there is no format %s", name)
		}
		formats = append(formats, f)
	}
	to := t.TempDir()
	p := &dataset.Place{Run: run}
	opts, err := p.RowOptions()
	if err != nil {
		t.Fatal(err)
	}
	c, err := dataset.Convert(t.Context(), p, formats, opts, to)
	if err != nil {
		t.Fatal(err)
	}
	m, err := run.ReadManifest()
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(m.Dataset, c.Formats); d != "" {
		t.Errorf("converting gives other files than the run:\n%s", d)
	}
	for _, name := range []string{
		"sft_parquet/train.parquet", "skyrl_pretokenized/train.parquet", "trl/sft.jsonl", "trl/train.jsonl",
	} {
		if got := readFile(t, filepath.Join(to, name)); !bytes.Equal(got, readFile(t, filepath.Join(run.Dataset(), name))) {
			t.Errorf("%s has other bytes than the run's", name)
		}
	}
}
