//go:build tokenizers

package finetune

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/builtin"
	"github.com/nat-go/nat-go/collator/batch"
	"github.com/nat-go/nat-go/collator/tokenizer"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/source/session/sessiontest"
)

// exported is an OpenTelemetry export of one session: two agents, one inside the other, a retry, and a history that was
// compacted along the way.
func exported() string {
	var out strings.Builder
	n := 0
	span := func(id, parent string, attributes map[string]any) {
		var list []any
		for k, v := range attributes {
			list = append(list, map[string]any{"key": k, "value": map[string]any{"stringValue": v}})
		}
		n++
		line, _ := json.Marshal(map[string]any{"resourceSpans": []any{map[string]any{"scopeSpans": []any{map[string]any{
			"spans": []any{map[string]any{
				"traceId": strings.Repeat("0a", 16), "spanId": fmt.Sprintf("%016s", id), "parentSpanId": parent,
				"startTimeUnixNano": fmt.Sprint(1795216992000000000 + int64(n)), "attributes": list,
			}},
		}}}}})
		out.Write(append(line, '\n'))
	}
	says := func(role, text string) any {
		return map[string]any{"role": role, "parts": []any{map[string]any{"type": "text", "content": text}}}
	}
	call := func(parent string, history []any, answer string) []any {
		input, _ := json.Marshal(history)
		output, _ := json.Marshal([]any{says("assistant", answer)})
		span(fmt.Sprint(n+10), parent, map[string]any{
			"gen_ai.operation.name": "chat", "gen_ai.request.model": "m",
			"gen_ai.input.messages": string(input), "gen_ai.output.messages": string(output),
		})
		return append(append([]any{}, history...), says("assistant", answer))
	}
	agent := func(id, parent string) string {
		span(id, parent, map[string]any{"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "helper"})
		return fmt.Sprintf("%016s", id)
	}
	main := agent("1", "")
	sub := agent("2", main)
	h := call(main, []any{says("system", "sys"), says("user", "q1")}, "<one>")
	h = append(h, says("user", "q2"))
	call(main, h, "<lost>")
	h = call(main, h, "<two>")
	s := call(sub, []any{says("user", "task")}, "<three>")
	call(sub, append(s, says("user", "more")), "<four>")
	call(main, append(h, says("user", "q3")), "<five>")
	compacted := []any{says("system", "sys"), says("user", "summary of what was said, <one> included")}
	h = call(main, append(compacted, says("user", "q4")), "<six>")
	call(main, append(h, says("user", "q5")), "<seven>")
	return out.String()
}

// TestEachAnswerIsTrainedOnce counts, over the batches that were written, how often each answer in a session is
// trained: once, whatever histories it is in, and not at all where the session continued from another answer.
func TestEachAnswerIsTrainedOnce(t *testing.T) {
	made := filepath.Join(t.TempDir(), "export.jsonl")
	if err := os.WriteFile(made, []byte(exported()), 0o600); err != nil {
		t.Fatal(err)
	}
	atof, err := filepath.Abs("../../../../ttc/source/atof/testdata")
	if err != nil {
		t.Fatal(err)
	}
	inputs := map[string]string{"otlp": made, "atof": atof}
	if dir := os.Getenv("NATGO_CONFORMANCE"); dir != "" {
		readers := filepath.Join(dir, "readers")
		inputs["claude_code"] = filepath.Join(readers, "claude_code", "projects")
		inputs["codex"] = filepath.Join(readers, "codex", "sessions")
		inputs["chat"] = filepath.Join(readers, "request_logs", "openai_chat.jsonl")
		inputs["responses"] = filepath.Join(readers, "request_logs", "openai_responses.jsonl")
		inputs["nemo_gym"] = filepath.Join(readers, "nemo_gym")
		inputs["atif"] = filepath.Join(readers, "atif_harbor", "claude")
	}
	for typ, path := range inputs {
		t.Run(typ, func(t *testing.T) {
			factory, _ := builtin.Source(typ)
			r := sessiontest.Read(t, factory, path)
			want, aside := answers(r)
			trained, set := trainedTexts(t, typ, path)
			total := 0
			for text, n := range want {
				if total += n; trained[text] != n {
					t.Errorf("trained %d times, not %d: %q", trained[text], n, text)
				}
			}
			for text := range aside {
				if trained[text] != 0 {
					t.Errorf("set aside, and trained %d times: %q", trained[text], text)
				}
			}
			if len(want) == 0 || typ == "otlp" && (len(want) != 7 || len(aside) != 1) || set > total {
				t.Errorf("%d answers, %d set aside, %d trained texts", len(want), len(aside), set)
			}
		})
	}
}

// answers returns the texts of the answers that are to be trained, with the number of answers for each, and the texts
// of the model's answers that are not.
func answers(r sessiontest.Reading) (trained map[string]int, aside map[string]bool) {
	trained, aside = map[string]int{}, map[string]bool{}
	for _, ex := range r.Examples {
		for i := range ex.Graph.Nodes {
			n := &ex.Graph.Nodes[i]
			if n.Message.Role != "assistant" || n.Message.Text == "" {
				continue
			}
			if n.Sampled == ttc.Yes {
				trained[n.Message.Text]++
			} else {
				aside[n.Message.Text] = true
			}
		}
	}
	for text := range trained {
		delete(aside, text) // it is in the history of another
	}
	return trained, aside
}

// trainedTexts runs the input through to token batches and counts the texts that their masks train. n is the number of
// texts.
func trainedTexts(t *testing.T, typ, path string) (count map[string]int, n int) {
	t.Helper()
	t.Chdir(t.TempDir())
	yaml := fmt.Sprintf(`sources: {runs: {_type: %s, path: %s}}
trajectory_builders: {all: {_type: sft_traj_builder, skip_failed_calls: false}}
collator: {tokenizer: tokenizer.json, template: calls.jinja, max_length: 400000, batch_tokens: 400000}
dataset: {formats: [messages], split: {validation: 0}}
finetuning: {enabled: true, trajectory_builder: all, output_dir: o}
`, typ, path)
	for name, content := range map[string]string{
		"tokenizer.json": string(bytesTokenizer(t)), "calls.jinja": callML, "finetune.yml": yaml,
	} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	sum, err := Run(context.Background(), Request{ConfigFile: "finetune.yml", RunID: "r"}, testEnv(t))
	if err != nil {
		t.Fatal(err)
	}
	tok, err := tokenizer.Load("tokenizer.json")
	if err != nil {
		t.Fatal(err)
	}
	defer tok.Close()
	dir := filepath.Join(sum.RunDir, "batches")
	index, err := batch.ReadIndex(filepath.Join(dir, batch.IndexName))
	if err != nil {
		t.Fatal(err)
	}
	count = map[string]int{}
	for i := range index {
		rows, err := batch.Read(dir, &index[i])
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range rows {
			for _, text := range spans(t, tok, row) {
				count[text]++
				n++
			}
		}
	}
	return count, n
}

// spans returns the texts that a row trains: each run of trained tokens, up to the calls.
func spans(t *testing.T, tok *tokenizer.Tokenizer, row *batch.Row) (out []string) {
	t.Helper()
	side := &row.Sides[0]
	for _, span := range side.Trained {
		text, err := tok.Decode(side.IDs[span.Start:span.End], true)
		if err != nil {
			t.Fatal(err)
		}
		text, _, _ = strings.Cut(text, "<call>")
		if text != "" && text != "None" { // an answer consisting only of calls, in this template
			out = append(out, text)
		}
	}
	return out
}
