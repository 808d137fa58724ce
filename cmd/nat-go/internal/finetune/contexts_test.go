package finetune

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/dataset"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage/read"
	"github.com/nat-go/nat-go/collator/rows"
	"github.com/nat-go/nat-go/collator/tokenizer"
	"github.com/nat-go/nat-go/internal/oracletest"
	"github.com/nat-go/nat-go/internal/pythontest"
)

// imitated makes text rows of demonstrations from a file, and returns their folder and their entries in the manifest.
// It checks that `dataset verify` doesn't find errors. settings are the builder's and, after a |, the data set's.
func imitated(t *testing.T, from, settings string, formats ...string) (dir string, written []runfolder.Written) {
	t.Helper()
	out := t.TempDir()
	config := filepath.Join(out, "sft.yml")
	ofBuilder, ofDataset, _ := strings.Cut(settings, "|")
	if err := os.WriteFile(config, []byte("trajectory_builders: {sft: {_type: sft_traj_builder, "+ofBuilder+
		"}}\ndataset: {"+ofDataset+"}\nfinetuning: {enabled: true, trajectory_builder: sft}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	sum, err := Run(t.Context(), Request{
		Choice: read.Choice{From: []string{from}}, ConfigFile: config, Formats: formats, OutputDir: out,
	}, testEnv(t))
	for _, nothing := range []string{"can carry", "produced no record", "can't tell what"} {
		if err != nil && strings.Contains(err.Error(), nothing) {
			t.Skipf("nothing is trained: %.100s", err)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	run := runfolder.Folder(sum.RunDir)
	for _, f := range verifyRun(t, run).Findings {
		if !f.Warning {
			t.Errorf("%s: %s: %s", f.Place(), f.Code, f.Message)
		}
	}
	m, err := run.ReadManifest()
	if err != nil {
		t.Fatal(err)
	}
	return sum.DatasetDir, m.Dataset
}

// TestNoTurnInAForeignContext checks that, for each fixture, every turn that rows train follows exactly the context of
// some model call in the raw file. An independent script reads the raw file. If failed calls are removed, the script
// finds the changed contexts, and the summary counts them.
func TestNoTurnInAForeignContext(t *testing.T) {
	python := pythontest.Need(t, "python", "import json", "no raw file is compared with the rows made from it")
	example := filepath.Join("..", "..", "..", "..", "examples", "hints", "traces.jsonl")
	fixture := func(path ...string) func(t *testing.T) string {
		return func(t *testing.T) string { return oracletest.Path(t, append([]string{"readers"}, path...)...) }
	}
	for name, file := range map[string]func(t *testing.T) string{
		"codex":         fixture("codex", "sessions"),
		"gym, steps":    fixture("nemo_gym", "example_multi_step.example_rollouts.jsonl"),
		"gym, rewards":  fixture("nemo_gym", "example_tool_call_multireward.example_rollouts.jsonl"),
		"atif, claude":  fixture("atif_harbor", "claude", "trajectory.json"),
		"atif, codex":   fixture("atif_harbor", "codex", "trajectory.json"),
		"atif, nat":     fixture("atif_nat", "workflow_output_atif.json"),
		"openinference": fixture("otlp", "openinference", "traces.jsonl"),
		"gen_ai":        fixture("otlp", "v2_latest_span", "traces.jsonl"),
		"claude code":   fixture("claude_code", "projects"),
		"logs":          fixture("otlp", "v2_latest_event", "logs.jsonl"),
		"logs, older":   fixture("otlp", "v2_legacy", "logs.jsonl"),
		"logs, traced":  fixture("otlp", "openllmetry_events", "logs.jsonl"),
		"example":       func(*testing.T) string { return example },
		"airline":       airlineRows,
		"chat log":      fixture("request_logs", "openai_chat.jsonl"),
		"litellm":       fixture("litellm", "standard_logging_payload.jsonl"),
		"verifiers":     fixture("verifiers_v0", "results.jsonl"),
	} {
		for _, failed := range []string{"context", "train", "remove"} {
			t.Run(name+"/"+failed, func(t *testing.T) {
				raw := file(t)
				dir, written := imitated(t, raw, "failed_calls: "+failed, "messages", "trl")
				got := compareContexts(t, python, raw, dir)
				changed := int64(0)
				for _, w := range written {
					if w.Contexts == nil {
						continue
					}
					changed += w.Contexts.Changed["remove"]
					for by, n := range w.Contexts.Changed {
						if by != "remove" || failed != "remove" {
							t.Errorf("%s: %d contexts are changed: %s", w.Format, n, by)
						}
					}
				}
				switch {
				case got.Trained == 0:
					t.Error("no turn is trained")
				case failed != "remove" && len(got.Foreign) > 0:
					t.Errorf("%d of %d turns: %s", len(got.Foreign), got.Trained, got.Foreign[0])
				case failed == "remove" && changed < int64(len(got.Foreign)):
					t.Errorf("%d turns are in a foreign context, and %d are counted", len(got.Foreign), changed)
				}
				t.Logf("%d calls, %d turns trained, %d counted as changed", got.Calls, got.Trained, changed)
			})
		}
	}
}

// TestNoSettingChangesAContext checks that each turn is trained in its recorded context, for every fixture and example,
// in every format and with every setting except failed_calls: remove.
func TestNoSettingChangesAContext(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: some hundred runs")
	}
	var files []string
	for _, pattern := range []string{
		"*/*.jsonl", "*/*/traces.jsonl", "*/*/logs.jsonl", "*/*/trajectory.json", "*/workflow_output*.json", "codex/sessions",
		"claude_code/projects", "verifiers_v1/*/*.jsonl",
	} {
		files = append(files, oracletest.Glob(t, "readers", pattern)...)
	}
	examples, err := filepath.Glob("../../../../examples/*/*.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	files = append(append(files, examples...), "../../../../examples/demo/workflow_output.json", airlineRows(t))
	var formats []string
	for _, f := range rows.Formats() {
		if slices.Contains(f.Carries, builders.KindDemonstration) {
			formats = append(formats, f.Name)
		}
	}
	turns := map[string]int64{}
	for i, settings := range []string{
		"", "select: all, failed_calls: train, train_reasoning: false|turns: last, completion: stretch, prompt_as: text",
		"failed_calls: train", "train_reasoning: false", "train: last", "train: calls", "select: all",
	} {
		if i == 2 {
			files = files[:len(files)-1] // 100 long rollouts
		}
		for _, file := range files {
			t.Run(settings+"/"+filepath.Base(filepath.Dir(file)), func(t *testing.T) {
				_, written := imitated(t, file, settings, formats...)
				for _, w := range written {
					if w.Contexts == nil {
						continue
					}
					turns[w.Format] += w.Contexts.Turns
					for by, n := range w.Contexts.Changed {
						t.Errorf("%s: %s: %d contexts are changed: %s", file, w.Format, n, by)
					}
				}
			})
		}
	}
	for _, f := range formats {
		if turns[f] == 0 {
			t.Errorf("%s: no turn is trained", f)
		}
	}
	t.Log(turns)
}

// TestSilentTurnsAreNotTrained checks that rows.jsonl names no context for a turn that consists of masked reasoning,
// but names the contexts of later turns. `dataset verify` compares them with the rows.
func TestSilentTurnsAreNotTrained(t *testing.T) {
	file := filepath.Join(t.TempDir(), "in.jsonl")
	if err := os.WriteFile(file, []byte(`{"messages": [
		{"role": "user", "content": "a"}, {"role": "assistant", "content": "one", "reasoning_content": "hm"},
		{"role": "user", "content": "b"}, {"role": "assistant", "content": "", "reasoning_content": "only thinking"},
		{"role": "user", "content": "c"}, {"role": "assistant", "content": "three"}
	]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	_, written := imitated(t, file, "train_reasoning: false", "axolotl", "ms_swift")
	for _, w := range written {
		if c := w.Contexts; c == nil || c.Turns != 2 || c.Lost != 1 {
			t.Errorf("%s: %+v", w.Format, c)
		}
	}
}

// TestChangesOfBatchesAreCounted checks that `dataset verify` names and counts each change that token batches make to a
// context.
func TestChangesOfBatchesAreCounted(t *testing.T) {
	example := filepath.Join("..", "..", "..", "..", "examples", "hints")
	tok, err := tokenizer.Load(filepath.Join(example, "tokenizer"))
	if err != nil {
		t.Fatal(err)
	}
	defer tok.Close()
	recorded, mail := filepath.Join(example, "traces.jsonl"), filepath.Join(t.TempDir(), "trajectory.json")
	if err := os.WriteFile(mail, []byte(`{"schema_version": "ATIF-v1.4", "session_id": "s", "agent": {"name": "a",
		"version": "1"}, "steps": [{"step_id": 1, "source": "user", "message": "Mail jane.doe@acme.org."},
		{"step_id": 2, "source": "agent", "message": "Mailed."}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		builder, from string
		length        int
		want          runfolder.Contexts
	}{
		"as recorded": {"sft_traj_builder", recorded, 4096, runfolder.Contexts{Turns: 6}},
		"truncated": {"sft_traj_builder", recorded, 350, runfolder.Contexts{
			Turns: 4, Changed: map[string]int64{"truncated": 4},
		}},
		"hints": {"sdpo_traj_builder", recorded, 4096, runfolder.Contexts{
			Turns: 4, Changed: map[string]int64{"hint": 4},
		}},
		"removed": {"sft_traj_builder, failed_calls: remove", recorded, 4096, runfolder.Contexts{
			Turns: 6, Changed: map[string]int64{"remove": 3},
		}},
		"redacted": {"sft_traj_builder", mail, 4096, runfolder.Contexts{
			Turns: 1, Changed: map[string]int64{"redaction": 1},
		}},
		"pairs": {"divergence_traj_builder", recorded, 4096, runfolder.Contexts{Turns: 16}},
	} {
		t.Run(name, func(t *testing.T) {
			out := t.TempDir()
			config := filepath.Join(out, "c.yml")
			text := fmt.Sprintf("trajectory_builders: {b: {_type: %s}}\n"+
				"collator: {tokenizer: %q, max_length: %d}\nfinetuning: {enabled: true, trajectory_builder: b}\n",
				c.builder, filepath.Join(example, "tokenizer"), c.length)
			if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			sum, err := Run(t.Context(), Request{
				Choice: read.Choice{From: []string{c.from}}, ConfigFile: config, OutputDir: out,
			}, testEnv(t))
			if err != nil {
				t.Fatal(err)
			}
			var r dataset.Report
			if err := r.VerifyBatches(runfolder.Folder(sum.RunDir), tok); err != nil {
				t.Fatal(err)
			}
			if len(r.Contexts) != 1 || !cmp.Equal(r.Contexts[0].Contexts, c.want, cmpopts.EquateEmpty()) {
				t.Errorf("got %+v, want %+v", r.Contexts, c.want)
			}
		})
	}
}

type comparedContexts struct {
	Calls, Trained int
	Foreign        []string
}

func compareContexts(t *testing.T, python, raw, dir string) (got comparedContexts) {
	t.Helper()
	args := []string{filepath.Join("testdata", "contexts.py"), raw}
	for _, pattern := range []string{
		"messages/train.jsonl", "messages/validation.jsonl", "trl/sft.jsonl",
		"trl/sft_validation.jsonl",
	} {
		if path := filepath.Join(dir, filepath.FromSlash(pattern)); exists(path) {
			args = append(args, path)
		}
	}
	out, err := exec.Command(python, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatal(err)
	}
	return got
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// airlineRows writes the airline rollouts as rows of conversations.
func airlineRows(t *testing.T) string {
	t.Helper()
	var all []struct {
		Task   int             `json:"task_id"`
		Trial  int             `json:"trial"`
		Reward float64         `json:"reward"`
		Traj   json.RawMessage `json:"traj"`
	}
	dir := oracletest.Path(t, "chat", "traces")
	tools := strings.ReplaceAll(string(readFile(t, filepath.Join(dir, "tools.json"))), "\n", " ")
	if err := json.Unmarshal(readFile(t, filepath.Join(dir, "gpt-4o-airline-dev.json")), &all); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, x := range all {
		line, err := json.Marshal(x.Traj)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, `{"id":"%d/%d","task":"%[1]d","reward":%[3]g,"messages":%[4]s,"tools":%[5]s}`+"\n",
			x.Task, x.Trial, x.Reward, line, tools)
	}
	path := filepath.Join(t.TempDir(), "airline.jsonl")
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestLostMembersAreCounted checks that a format that can't hold a message's additional members counts the records with
// such members, and that ms_swift, which can't hold names, also counts the changed contexts.
func TestLostMembersAreCounted(t *testing.T) {
	from := filepath.Join(t.TempDir(), "runs.jsonl")
	if err := os.WriteFile(from, []byte(`{"id": "a", "messages": [{"role": "user", "name": "Ann", "content": "q"}, `+
		`{"role": "assistant", "content": "a", "refusal": "no", "audio": null, "annotations": [ ]}]}`+"\n"+
		`{"id": "b", "messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]}`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, written := imitated(t, from, "select: all|split: {validation: 0}", "messages", "ms_swift")
	for i, want := range []struct{ omitted, changed map[string]int64 }{
		{map[string]int64{"refusal": 1}, nil},
		{map[string]int64{"refusal": 1, "name": 1}, map[string]int64{"format": 1}},
	} {
		w := written[i]
		if cmp.Diff(want.omitted, w.Omitted) != "" || cmp.Diff(want.changed, w.Contexts.Changed) != "" {
			t.Errorf("%s: %v are omitted, and %v contexts changed", w.Format, w.Omitted, w.Contexts.Changed)
		}
	}
}

// TestFormatsFitBuilders checks that a configuration without formats gets rows from every builder that takes traces.
func TestFormatsFitBuilders(t *testing.T) {
	from := filepath.Join("..", "..", "..", "..", "examples", "hints", "traces.jsonl")
	for builder, want := range map[string]string{
		"grpo": "verl", "states": "nemo_gym", "sdpo": "privileged", "sft": "trl", "divergence": "trl",
	} {
		out := t.TempDir()
		config := filepath.Join(out, "c.yml")
		if err := os.WriteFile(config, []byte("trajectory_builders: {b: {_type: "+builder+"_traj_builder}}\n"+
			"finetuning: {enabled: true, trajectory_builder: b}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		sum, err := Run(t.Context(), Request{
			Choice: read.Choice{From: []string{from}}, ConfigFile: config, OutputDir: out,
		}, testEnv(t))
		if err != nil {
			t.Errorf("%s: %v", builder, err)
			continue
		}
		m, err := runfolder.Folder(sum.RunDir).ReadManifest()
		if err != nil || len(m.Dataset) != 1 || m.Dataset[0].Format != want || m.Dataset[0].Records == 0 {
			t.Errorf("%s: %v, %+v", builder, err, m.Dataset)
		}
	}
}
