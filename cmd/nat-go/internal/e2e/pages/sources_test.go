package pages_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/e2e"
	"github.com/nat-go/nat-go/internal/pythontest"
)

// The messages of a conversation, in the form of the chat API.
const (
	asked  = `{"role": "user", "content": "q"}`
	calls  = `{"role": "assistant", "content": "", "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{\"a\": 1}"}}]}`
	result = `{"role": "tool", "tool_call_id": "c", "content": "x"}`
	said   = `{"role": "assistant", "content": "a"}`
	other  = `{"role": "assistant", "content": "b"}`
	talk   = "[" + asked + ", " + calls + ", " + result + ", " + said + "]"
	talk2  = "[" + asked + ", " + calls + ", " + result + ", " + other + "]"
)

// sources are small inputs of each source: what is named on the command line, and its files. A text that is a path is
// copied from the tree.
var sources = []struct {
	name, input string
	files       map[string]string
}{
	{"scored answers", "answers.jsonl", one(`{"prompt": "q", "output": "a", "score": 1}
{"prompt": "q", "output": "b", "score": 0}`)},
	{"conversations", "talks.jsonl", one(`{"messages": ` + talk + `}
{"messages": ` + talk2 + `}`)},
	{"a table", "table.csv", one("question,answer\nWhat?,That.\nWho?,He.")},
	{"pairs", "pairs.jsonl", one(`{"prompt": "q", "chosen": "a", "rejected": "b"}
{"prompt": "r", "chosen": "c", "rejected": "d"}`)},
	{"SWE-smith", "swe_smith.jsonl", one(scored(`"messages": %[1]q, "instance_id": "i", "resolved": %[2]t, "model": "m", "traj_id": "r%[3]d"`))},
	{"SWE-rebench", "swe_rebench.jsonl", one(scored(`"trajectory_id": "r%[3]d", "instance_id": "i", "trajectory": %[1]s, "tools": [], "resolved": %[3]d`))},
	{"SWE-agent", "swe_agent.jsonl", one(scored(`"instance_id": "i", "model_name": "m", "target": %[2]t, "trajectory": %[1]s`))},
	{"R2E-Gym", "r2e.jsonl", one(fmt.Sprintf(r2e, "t", 1) + "\n" + fmt.Sprintf(r2e, "u", 0))},
	{"SWE-Gym", "swe_gym.jsonl", one(scored(`"messages": %[1]s, "instance_id": "i", "run_id": "x", "success": %[2]t`))},
	{"OpenThoughts-Agent", "openthoughts.jsonl", one(scored(`"conversations": %[1]s, "agent": "a", "model": "m", "task": "t", "trial_name": "r%[3]d", "result": "%[3]d.0"`))},
	{"Terminal-Bench", "terminal_bench.jsonl", one(scored(`"messages": %[1]s, "task_id": "t", "trial_name": "r%[3]d", "is_resolved": %[2]t`))},
	{"tau-bench", "tau.jsonl", one(scored(`"task_id": 3, "reward": %[3]d.0, "info": {}, "traj": %[1]s, "trial": %[3]d`))},
	{"tau2-bench", "tau2.json", one(`{"info": {}, "tasks": [], "simulations": [` + strings.ReplaceAll(
		scored(`"id": "s%[3]d", "task_id": "3", "reward_info": {"reward": %[3]d.0}, "messages": %[1]s, "trial": %[3]d`), "\n", ",") + "]}")},
	{"Harbor", "jobs", map[string]string{
		"jobs/j/result.json": `{"stats": {}}`, "jobs/j/t__0/result.json": trial(0), "jobs/j/t__1/result.json": trial(1),
		"jobs/j/t__0/agent/trajectory.json": trajectory("b"), "jobs/j/t__1/agent/trajectory.json": trajectory("a"),
	}},
	{"ATIF", "trajectory.json", one(trajectory("a"))},
	{"NAT", "workflow_output.json", one(`[{"id": 1, "question": "q", "generated_answer": "a", "intermediate_steps": [` +
		candidate("a", 1) + "," + candidate("b", 0) + "]}]")},
	{"verifiers", "traces.jsonl", one(`{"id":"ep","env":{"id":"E"},"task":{},"ok":true,"errors":[],"traces":[{"version":1,"id":"t1",` +
		`"agent":{"name":"a","trainable":true},"task":{"type":"T","data":{"idx":3}},"ok":true,"nodes":[{"parent":null,"message":` + asked +
		`,"sampled":false},{"parent":0,"message":` + said + `,"sampled":true}]}]}`)},
	{"NeMo Gym", "rollouts.jsonl", one(`{"responses_create_params":{"input":"q"},"response":{"id":"r1","model":"m","output":[{"type":"message",` +
		`"role":"assistant","content":[{"type":"output_text","text":"a"}]}]},"reward":1,"_ng_task_index":3,"_ng_rollout_index":1}`)},
	{"NeMo Relay", "relay.jsonl", map[string]string{"relay.jsonl": "ttc/source/internal/atof/testdata/relay.jsonl"}},
	{"AI SDK 5", "aisdk5.jsonl", map[string]string{"aisdk5.jsonl": "ttc/source/internal/otlp/testdata/aisdk5.jsonl"}},
	{"AI SDK 7", "aisdk7.jsonl", map[string]string{"aisdk7.jsonl": "ttc/source/internal/otlp/testdata/aisdk7.jsonl"}},
	{"chat completions", "chat.jsonl", one(`{"request":{"model":"m","messages":[` + asked + `]},"response":{"id":"1","model":"m","created":1,` +
		`"choices":[{"message":` + said + `,"finish_reason":"stop"}]}}`)},
	{"Responses API", "responses.jsonl", one(`{"request":{"model":"m","input":"q"},"response":{"id":"1","created_at":1,"output":[{"type":"message",` +
		`"role":"assistant","content":[{"type":"output_text","text":"a"}]}]}}`)},
	{"Langfuse", "langfuse.jsonl", one(`{"id":"o","trace_id":"t","type":"GENERATION","start_time":"2026-01-01 00:00:01.5","provided_model_name":"m",` +
		`"input":[` + asked + `],"output":` + said + `}`)},
	{"LangSmith", "langsmith.jsonl", one(`{"id":"o","trace_id":"t","run_type":"llm","start_time":"2026-01-01T00:00:01.5","inputs":{"messages":[` + asked +
		`]},"outputs":{"choices":[{"message":` + said + `}]}}`)},
	{"OpenAI Agents SDK", "spans.jsonl", one(`{"object":"trace.span","id":"s","trace_id":"t","parent_id":null,"started_at":"2026-01-01T00:00:01.5",` +
		`"span_data":{"type":"generation","model":"m","input":[` + asked + `],"output":[` + said + `]},"error":null}`)},
	{"Claude Code", ".claude", map[string]string{".claude/settings.json": "{}", ".claude/projects/-w/s.jsonl": claude}},
	{"Codex", ".codex", map[string]string{".codex/auth.json": "{}", ".codex/sessions/2026/01/01/rollout-s.jsonl": codex}},
	{"Gemini CLI", ".gemini", map[string]string{".gemini/settings.json": "{}", ".gemini/tmp/h/chats/session-s.json": `{"sessionId":"s","projectHash":"h","messages":[` +
		`{"id":"1","type":"user","content":"q"},{"id":"2","type":"gemini","content":"a"}]}`}},
	{"Qwen Code", ".qwen", map[string]string{".qwen/projects/w/chats/s.jsonl": `{"uuid":"1","parentUuid":null,"sessionId":"s","type":"user","version":"0.15.10","message":{"role":"user","parts":[{"text":"q"}]}}
{"uuid":"2","parentUuid":"1","sessionId":"s","type":"assistant","model":"m","message":{"role":"model","parts":[{"text":"a"}]}}`}},
	{"Copilot CLI", ".copilot", map[string]string{".copilot/config.json": "{}", ".copilot/session-state/s/events.jsonl": `{"type":"session.start","data":{"sessionId":"s"},"id":"0"}
{"type":"user.message","data":{"content":"q"},"id":"1"}
{"type":"assistant.message","data":{"messageId":"m","content":"a","toolRequests":[]},"id":"2"}`}},
	{"Pi, OpenClaw, OMP", ".pi", map[string]string{".pi/agent/auth.json": "{}", ".pi/agent/sessions/--w--/s.jsonl": `{"type":"session","id":"s","cwd":"/w"}
{"type":"message","id":"1","parentId":null,"message":{"role":"user","content":[{"type":"text","text":"q"}]}}
{"type":"message","id":"2","parentId":"1","message":{"role":"assistant","provider":"p","model":"m","stopReason":"stop","content":[{"type":"text","text":"a"}]}}`}},
	{"Cline", ".cline", map[string]string{".cline/data/settings.json": "{}", ".cline/data/sessions/s/s.messages.json": `{"version":1,"agent":"lead","sessionId":"s","messages":[` +
		`{"role":"user","content":[{"type":"text","text":"q"}]},{"role":"assistant","content":[{"type":"text","text":"a"}]}]}`}},
	{"OpenHands", ".openhands", map[string]string{
		".openhands/settings.json":                                    "{}",
		".openhands/conversations/s/base_state.json":                  `{"id":"s","agent":{"kind":"Agent","llm":{"model":"m"}}}`,
		".openhands/conversations/s/events/event-00000-00000001.json": openhands("1", "user", "user", "q"),
		".openhands/conversations/s/events/event-00001-00000002.json": openhands("2", "agent", "assistant", "a"),
	}},
	{"opencode", "session.json", one(`{"info":{"id":"s"},"messages":[{"info":{"role":"user"},"parts":[{"type":"text","text":"q"}]},` +
		`{"info":{"role":"assistant"},"parts":[{"type":"text","text":"a"}]}]}`)},
	{"rows of agents' sessions", "agent_traces.jsonl", one(`{"harness":"codex","session_id":"t","trace":[` + strings.ReplaceAll(codex, "\n", ",") + `],"messages":[` +
		asked + "," + said + `]}`)},
}

const (
	r2e = `{"trajectory_steps": [{"thought": %q, "action": "<function=f></function>", "observation": "o"}], ` +
		`"problem_statement": "p", "docker_image": "d", "agent_args": {"llm_name": "m"}, "reward": %d}`
	claude = `{"type":"user","uuid":"u1","parentUuid":null,"sessionId":"s","message":{"role":"user","content":"q"}}
{"type":"assistant","uuid":"u2","parentUuid":"u1","sessionId":"s","timestamp":"2026-01-01T00:00:01Z","message":{"id":"m1","role":"assistant","model":"m","content":[{"type":"text","text":"a"}]}}`
	codex = `{"timestamp":"2026-01-01T00:00:01Z","type":"session_meta","payload":{"id":"t","base_instructions":{"text":"s"}}}
{"timestamp":"2026-01-01T00:00:02Z","type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"q"}]}}
{"timestamp":"2026-01-01T00:00:03Z","type":"response_item","payload":{"type":"message","role":"assistant","content":[{"type":"output_text","text":"a"}]}}`
)

// openhands returns an event of OpenHands.
func openhands(id, source, role, text string) string {
	return fmt.Sprintf(`{"kind":"MessageEvent","id":%q,"timestamp":"2026-01-01T00:00:01","source":%q,"llm_message":{"role":%q,"content":[{"type":"text","text":%q}]}}`,
		id, source, role, text)
}

// one returns the only file of an input.
func one(text string) map[string]string { return map[string]string{"": text} }

// scored returns two rollouts of a task. The form's arguments are a conversation and its outcome, twice.
func scored(form string) string {
	return "{" + fmt.Sprintf(form, talk, true, 1) + "}\n{" + fmt.Sprintf(form, talk2, false, 0) + "}"
}

// candidate returns a scored candidate in NAT's output.
func candidate(output string, score int) string {
	return fmt.Sprintf(`{"parent_id": "r", "function_ancestry": {"function_id": "f", "function_name": "n"}, "payload": {"event_type": "TTC_END", `+
		`"name": "s", "data": {"input": "q", "output": %q, "turn_id": "t", "candidate_index": %d, "score": %[2]d}}}`, output, score)
}

func trial(n int) string {
	return fmt.Sprintf(`{"task_name": "t", "trial_name": "t__%d", "verifier_result": {"rewards": {"reward": %[1]d}}}`, n)
}

func trajectory(says string) string {
	return fmt.Sprintf(`{"schema_version": "ATIF-v1.8", "session_id": "s%s", "agent": {"name": "a", "version": "1", "model_name": "m"}, "steps": `+
		`[{"step_id": 1, "source": "user", "message": "q"}, {"step_id": 2, "source": "agent", "message": %[1]q}]}`, says)
}

// TestEverySource: one command without a flag makes rows of an input of each source within a minute, and the trainer
// that the format is for takes them. The collator's page has the table, without the time.
func TestEverySource(t *testing.T) {
	pythontest.Long(t, "no source was read")
	program, root := e2e.Program(t), filepath.Join("..", "..", "..", "..", "..")
	page, err := os.ReadFile(filepath.Join(root, "collator", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	chosen := regexp.MustCompile(`; builder (.*?), format (.*?): `)
	work, loaded := t.TempDir(), map[string]int{}
	for i, s := range sources {
		dir := filepath.Join(work, fmt.Sprint(i))
		place(t, root, dir, s.input, s.files)
		cmd := exec.Command(program, "run", s.input)
		cmd.Dir = dir
		begun := time.Now()
		out, err := cmd.CombinedOutput()
		took := time.Since(begun)
		said := chosen.FindStringSubmatch(string(out))
		if err != nil || said == nil || took > time.Minute {
			t.Errorf("%s: %v after %s\n%s", s.name, err, took, out)
			continue
		}
		rows := 0
		for file, n := range written(t, dir) {
			loaded[file], rows = n, rows+n
		}
		line := fmt.Sprintf("| %s | `nat-go run %s` | %s | %s | %d |", s.name, s.input, said[1], said[2], rows)
		t.Logf("%5.2f s %s", took.Seconds(), line)
		if !strings.Contains(string(page), line+"\n") {
			t.Errorf("collator/README.md doesn't have %s", line)
		}
	}
	takeRows(t, root, work, loaded)
}

// place writes the files of an input.
func place(t *testing.T, root, dir, input string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		if strings.HasPrefix(text, "ttc/") {
			b, err := os.ReadFile(filepath.Join(root, text))
			if err != nil {
				t.Fatal(err)
			}
			text = string(b)
		}
		path := filepath.Join(dir, cmp.Or(name, input))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// written returns the files of rows below a folder, and how many rows each has.
func written(t *testing.T, dir string) map[string]int {
	t.Helper()
	files := map[string]int{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		parts := strings.Split(filepath.ToSlash(path), "/")
		if err != nil || e.IsDir() || len(parts) < 3 || parts[len(parts)-3] != "dataset" || e.Name() == "rows.jsonl" {
			return err
		}
		text, err := os.ReadFile(path)
		files[path] = strings.Count(string(text), "\n")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// takeRows has TRL load the rows and train a step on them.
func takeRows(t *testing.T, root, work string, files map[string]int) {
	t.Helper()
	python := pythontest.TRL(t)
	cmd := exec.Command(python, filepath.Join(root, "cmd/nat-go/internal/dataset/testdata/consumers.py"), "files", work)
	cmd.Env = append(os.Environ(), "OMP_NUM_THREADS=1", "PYTHONDONTWRITEBYTECODE=1")
	out, err := cmd.CombinedOutput()
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	var took map[string]int
	if err == nil {
		err = json.Unmarshal([]byte(lines[len(lines)-1]), &took)
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for file, rows := range files {
		if took[file] != rows {
			t.Errorf("TRL took %d of %d rows of %s", took[file], rows, file)
		}
	}
}
