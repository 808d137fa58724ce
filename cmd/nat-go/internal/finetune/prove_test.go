//go:build tokenizers

package finetune

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/collator/batch"
	"github.com/nat-go/nat-go/internal/oracletest"
)

// loggedCall is a line of a request log for one call, with the recorded number of prompt tokens.
func loggedCall(id, model string, tokens int) string {
	return fmt.Sprintf(`{"request":{"model":%q,"messages":[{"role":"user","content":"question %s"}]},`+
		`"response":{"id":%q,"model":%q,"created":100,"usage":{"prompt_tokens":%d,"completion_tokens":3},`+
		`"choices":[{"message":{"role":"assistant","content":"answer %s"},"finish_reason":"stop"}]}}`+"\n",
		model, id, id, model, tokens, id)
}

// TestFidelityIsProven runs a log of three calls. One has the correct number of prompt tokens, one an incorrect number,
// and one is a call to another model, whose tokenizer is unknown.
func TestFidelityIsProven(t *testing.T) {
	// callML with one token per byte
	right := len("\nuser"+"question a"+"\n"+"\nassistant") + 3
	log := loggedCall("a", "m", right) + loggedCall("b", "m", right+1) + loggedCall("c", "other", 1)
	for name, c := range map[string]struct {
		policy, min string
		want        runfolder.Fidelity
		rows        []string
	}{
		"checked": {
			"m", "partial", runfolder.Fidelity{
				Calls: map[string]int64{"text": 2, "partial": 1}, Gaps: map[string]int64{"prompt_tokens_differ": 1},
				Rising: map[string]int64{"prompt_tokens_differ": 1}, Proven: map[string]int64{"prompt_tokens": 1},
			}, []string{
				`"fidelity":"partial","gaps":["prompt_tokens_differ"]}`,
				`"fidelity":"text","proven":["prompt_tokens"]}`, `"fidelity":"text"}`,
			},
		},
		"refused": {
			"m", "text", runfolder.Fidelity{
				Calls: map[string]int64{"text": 2, "partial": 1}, Gaps: map[string]int64{"prompt_tokens_differ": 1},
				Rising: map[string]int64{"prompt_tokens_differ": 1}, Proven: map[string]int64{"prompt_tokens": 1},
			}, []string{`"fidelity":"text","proven":["prompt_tokens"]}`, `"fidelity":"text"}`},
		},
		"no model is named": {
			"''", "partial",
			runfolder.Fidelity{Calls: map[string]int64{"text": 3}},
			[]string{`"fidelity":"text"}`, `"fidelity":"text"}`, `"fidelity":"text"}`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			sum, made := runTraces(t, "chat", map[string]string{"log.jsonl": log}, fmt.Sprintf(
				"{tokenizer: tokenizer.json, template: calls.jinja, policy: %s, min_fidelity: %s}", c.policy, c.min))
			if diff := cmp.Diff(&c.want, made.Fidelity); diff != "" {
				t.Error(diff)
			}
			var got []string
			rows := string(readFile(t, filepath.Join(sum.DatasetDir, "messages", "rows.jsonl")))
			for line := range strings.Lines(rows) {
				got = append(got, strings.TrimSpace(line[strings.Index(line, `"fidelity"`):]))
			}
			index, err := batch.ReadIndex(filepath.Join(sum.RunDir, "batches", batch.IndexName))
			if err != nil {
				t.Fatal(err)
			}
			proven := 0
			for _, line := range index {
				for _, row := range line.RowInfo {
					proven += len(row.Proven)
				}
			}
			if want := int(c.want.Proven["prompt_tokens"]); proven != want {
				t.Errorf("row_info has %d proven rows, want %d", proven, want)
			}
			slices.Sort(got) // the rows are in the order of the calls' hashes
			if diff := cmp.Diff(c.rows, got); diff != "" {
				t.Error(diff)
			}
			if c.min == "text" && !strings.Contains(string(readFile(t, filepath.Join(sum.RunDir, "dropped.jsonl"))),
				"partial, not text: prompt_tokens_differ") {
				t.Error("the refused record's line doesn't give the reason")
			}
		})
	}
}

// runTraces runs the named files, or a path next to the folder, with additional settings for the collator.
func runTraces(t *testing.T, typ string, files map[string]string, collator string) (*Summary, *runfolder.Manifest) {
	t.Helper()
	path := typ
	all := map[string]string{
		"tokenizer.json": string(bytesTokenizer(t)), "calls.jinja": callML, "finetune.yml": "",
	}
	for name, content := range files {
		path, all[name] = name, content
	}
	all["finetune.yml"] = fmt.Sprintf(`sources: {runs: {_type: %s, path: %s}}
trajectory_builders: {all: {_type: sft_traj_builder, failed_calls: train}}
collator: %s
dataset: {formats: [messages], split: {validation: 0}}
finetuning: {enabled: true, trajectory_builder: all, output_dir: o}
`, typ, path, collator)
	for name, content := range all {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	sum, err := Run(context.Background(), Request{ConfigFile: "finetune.yml", RunID: "r"}, testEnv(t))
	if err != nil {
		t.Fatal(err)
	}
	made, err := runfolder.Folder(sum.RunDir).ReadManifest()
	if err != nil {
		t.Fatal(err)
	}
	return sum, made
}

// TestRecordedFidelity confirms the claims of traces from real programs, using the original tokenizer and template, and
// rejects them if one word or id is changed.
func TestRecordedFidelity(t *testing.T) {
	recorded := func(elem ...string) string {
		return string(readFile(t, oracletest.Path(t, append([]string{"readers"}, elem...)...)))
	}
	counted := map[string]int64{"prompt_tokens": 4}
	for name, c := range map[string]struct {
		typ, text string
		proven    map[string]int64
		gaps      map[string]int64
	}{
		"a request log": {"chat", recorded("request_logs", "openai_chat.jsonl"), counted, nil},
		"a request log with another question": {
			"chat",
			strings.ReplaceAll(
				recorded("request_logs", "openai_chat.jsonl"), "arrived broken", "came to me quite broken"),
			nil,
			map[string]int64{"prompt_tokens_differ": 4},
		},
		"LiteLLM":       {"chat", recorded("litellm", "standard_logging_payload.jsonl"), counted, nil},
		"OpenInference": {"otlp", recorded("otlp", "openinference", "traces.jsonl"), counted, nil},
		"verifiers": {
			"verifiers", recorded("verifiers_v1", "train", "traces.jsonl"),
			map[string]int64{"prompt_tokens": 8, "ids": 8},
			nil,
		},
		"verifiers with another answer": {
			"verifiers",
			strings.ReplaceAll(recorded("verifiers_v1", "train", "traces.jsonl"), "Let me look up", "I look up"),
			map[string]int64{"prompt_tokens": 2, "ids": 6},
			map[string]int64{
				"prompt_tokens_differ": 6,
				"ids_differ":           2,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			_, made := runTraces(t, c.typ, map[string]string{"in.jsonl": c.text}, fmt.Sprintf(
				"{tokenizer: %s, template: %s, policy: fake-1}",
				oracletest.Path(t, "chat", "tokens", "tokenizers", "qwen2_5.json"),
				oracletest.Path(t, "chat", "render", "templates", "qwen2_5.jinja")))
			gaps := map[string]int64{}
			for name, n := range made.Fidelity.Gaps {
				if strings.HasSuffix(name, "_differ") {
					gaps[name] = n
				}
			}
			if len(gaps) == 0 {
				gaps = nil
			}
			if diff := cmp.Diff(c.proven, made.Fidelity.Proven); diff != "" {
				t.Errorf("proven: %s", diff)
			}
			if diff := cmp.Diff(c.gaps, gaps); diff != "" {
				t.Errorf("refuted: %s", diff)
			}
		})
	}
}
