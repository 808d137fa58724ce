//go:build tokenizers

package finetune

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/builtin"
	"github.com/nat-go/nat-go/collator/batch"
	"github.com/nat-go/nat-go/collator/tokenizer"
	"github.com/nat-go/nat-go/internal/calls"
	"github.com/nat-go/nat-go/internal/oracletest"
	"github.com/nat-go/nat-go/internal/sessiontest"
	"github.com/nat-go/nat-go/ttc"
)

// exported is an OpenTelemetry export of a session with two nested agents, a retry, and a history that was compacted
// during the session.
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

// coded writes a Claude Code session with a call that failed and was repeated, a sub-agent in a separate file, two
// answers to one question, one of which the session continued from, and a compaction.
func coded(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	n := 0
	line := func(agent, parent, kind, more string) string {
		n++
		if parent != "" {
			parent = `"` + parent + `"`
		} else {
			parent = "null"
		}
		if agent != "" {
			more += `,"isSidechain":true,"agentId":"` + agent + `"`
		}
		return fmt.Sprintf(`{"uuid":"u%d","parentUuid":%s,"type":%q,%s,"sessionId":"s","version":"2.1.0",`+
			`"timestamp":"2026-03-01T22:38:%02d.5Z"}`+"\n", n, parent, kind, more, n)
	}
	user := func(content string) string { return `"message":{"role":"user","content":` + content + `}` }
	answer := func(id, blocks string) string {
		return fmt.Sprintf(`"message":{"id":%q,"role":"assistant","model":"m","content":[%s]}`, id, blocks)
	}
	text := func(text string) string { return `{"type":"text","text":"` + text + `"}` }
	call := func(id string) string {
		return `{"type":"tool_use","id":"` + id + `","name":"Agent","input":{"prompt":"task"}}`
	}
	result := func(id string) string {
		return `[{"type":"tool_result","tool_use_id":"` + id + `","content":"four"}]`
	}
	main := line("", "", "user", user(`"q1"`)) +
		line("", "u1", "system", `"subtype":"api_error","content":"529"`) +
		line("", "u2", "assistant", answer("m1", call("c1"))) +
		line("", "u3", "user", user(result("c1"))) +
		line("", "u4", "assistant", answer("m2", text("one"))) +
		line("", "u4", "assistant", answer("m3", text("two"))) +
		line("", "u6", "user", user(`"q2"`)) +
		line("", "u7", "assistant", answer("m4", text("three"))) +
		line("", "", "system", `"subtype":"compact_boundary","compactMetadata":{}`) +
		line("", "u9", "user", `"isCompactSummary":true,`+user(`"summary: three"`)) +
		line("", "u10", "user", user(`"q3"`)) +
		line("", "u11", "assistant", answer("m5", text("five")))
	n = 20
	agent := line("7", "", "user", user(`"task"`)) +
		line("7", "u21", "assistant", answer("m6", text("look")+","+call("c2"))) +
		line("7", "u22", "user", user(result("c2"))) +
		line("7", "u23", "assistant", answer("m7", text("four")))
	sessiontest.Write(t, dir, "p/s.jsonl", main)
	sessiontest.Write(t, dir, "p/s/subagents/agent-7.jsonl", agent)
	return dir
}

// TestEachAnswerIsTrainedOnce counts how often each answer in a session is trained, over all batches. An answer is
// trained exactly once, regardless of how many histories contain it. It isn't trained if the session continued from
// another answer.
func TestEachAnswerIsTrainedOnce(t *testing.T) {
	fixed := func(path string) func(t *testing.T) string { return func(*testing.T) string { return path } }
	recorded := func(elem ...string) func(t *testing.T) string {
		return func(t *testing.T) string { return oracletest.Path(t, append([]string{"readers"}, elem...)...) }
	}
	exports := func(name string) func(t *testing.T) string {
		return func(t *testing.T) string { return filepath.Join(recorded("otlp", name)(t), "*.jsonl") }
	}
	atof, err := filepath.Abs("../../../../ttc/source/internal/atof/testdata")
	if err != nil {
		t.Fatal(err)
	}
	for name, input := range map[string]func(t *testing.T) string{
		"otlp":                        fixed(sessiontest.Write(t, t.TempDir(), "export.jsonl", exported())),
		"atof":                        fixed(atof),
		"claude_code, synthetic":      fixed(coded(t)),
		"claude_code":                 recorded("claude_code", "projects"),
		"codex":                       recorded("codex", "sessions"),
		"chat":                        recorded("request_logs", "openai_chat.jsonl"),
		"chat, LiteLLM":               recorded("litellm"),
		"responses":                   recorded("request_logs", "openai_responses.jsonl"),
		"nemo_gym":                    recorded("nemo_gym"),
		"atif":                        recorded("atif_harbor", "claude"),
		"verifiers":                   firstRollout,
		"otlp, openinference":         exports("openinference"),
		"otlp, v2_latest_both":        exports("v2_latest_both"),
		"otlp, openllmetry_responses": exports("openllmetry_responses"),
	} {
		t.Run(name, func(t *testing.T) {
			path := input(t)
			typ, _, _ := strings.Cut(name, ",")
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
			known := map[string][2]int{"otlp": {7, 1}, "claude_code, synthetic": {6, 1}}
			if n, ok := known[name]; len(want) == 0 || ok && n != [2]int{len(want), len(aside)} || set > total {
				t.Errorf("%d answers, %d set aside, %d trained texts", len(want), len(aside), set)
			}
		})
	}
}

// firstRollout writes the first of the recorded rollouts. The second repeats it, and is dropped as a duplicate.
func firstRollout(t *testing.T) string {
	t.Helper()
	line, _, _ := strings.Cut(
		string(readFile(t, oracletest.Path(t, "readers", "verifiers_v1", "eval", "traces.jsonl"))), "\n")
	return sessiontest.Write(t, t.TempDir(), "traces.jsonl", line+"\n")
}

// written returns the text and the calls that a model wrote in an answer. The calls' arguments are compared as values.
func written(text string, names, arguments []string) string {
	for i, name := range names {
		var value any
		if err := json.Unmarshal([]byte(arguments[i]), &value); err != nil {
			value = arguments[i]
		}
		if inner, ok := value.(string); ok { // JSON in a string
			_ = json.Unmarshal([]byte(inner), &value)
		}
		text += fmt.Sprintf("\ncall %s %v", name, value)
	}
	return text
}

// answers returns the texts of the answers to be trained, with the number of answers for each, and the texts of the
// other answers.
func answers(r sessiontest.Reading) (trained map[string]int, aside map[string]bool) {
	trained, aside = map[string]int{}, map[string]bool{}
	for _, ex := range r.Examples {
		for i := range ex.Graph.Nodes {
			n := &ex.Graph.Nodes[i]
			if n.Message.Role != "assistant" {
				continue
			}
			text, _ := calls.Plain(&n.Message)
			var names, arguments []string
			for _, c := range n.Message.ToolCalls {
				names, arguments = append(names, c.Name), append(arguments, c.Arguments)
			}
			switch text = written(text, names, arguments); {
			case text == "": // only reasoning, which this template omits
			case n.Sampled == ttc.Yes:
				trained[text]++
			default:
				aside[text] = true
			}
		}
	}
	for text := range trained {
		delete(aside, text) // it is in the history of a trained answer
	}
	return trained, aside
}

// trainedTexts makes token batches from the input, and counts the texts that their masks train. n is the total number
// of texts.
func trainedTexts(t *testing.T, typ, path string) (count map[string]int, n int) {
	t.Helper()
	t.Chdir(t.TempDir())
	yaml := fmt.Sprintf(`sources: {runs: {_type: %s, path: %s}}
trajectory_builders: {all: {_type: sft_traj_builder, failed_calls: train}}
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

// calling matches a call in callML's format.
var calling = regexp.MustCompile(`(?s)<call>(\S+) (.*?)</call>`)

// spans returns the texts that a row trains, one for each run of trained tokens.
func spans(t *testing.T, tok *tokenizer.Tokenizer, row *batch.Row) (out []string) {
	t.Helper()
	side := &row.Sides[0]
	for _, span := range side.Trained {
		text, err := tok.Decode(side.IDs[span.Start:span.End], true)
		if err != nil {
			t.Fatal(err)
		}
		var names, arguments []string
		for _, m := range calling.FindAllStringSubmatch(text, -1) {
			names, arguments = append(names, m[1]), append(arguments, m[2])
		}
		if text, _, _ = strings.Cut(text, "<call>"); text == "None" { // an answer with only calls, in this template
			text = ""
		}
		if text = written(text, names, arguments); text != "" {
			out = append(out, text)
		}
	}
	return out
}
