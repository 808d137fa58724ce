//go:build linux

package hostile

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/bench"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/e2e"
)

// These tests run the program on input made to exhaust memory. Each runs in a process of its own, which is killed if it
// and everything it started hold more than the limit at once, or if it does not finish.

const (
	memoryLimit = 512 << 20
	memoryTime  = 2 * time.Minute // far more than any of them takes
	memoryEvery = 3 * time.Millisecond
)

// attack is input that somebody hands to the program.
type attack struct {
	name   string
	config string                // of finetune.yml
	files  map[string]string     // beside it
	env    []string              // added to the environment
	args   []string              // finetune run --config-file finetune.yml --run-id r by default
	pipe   func(io.Writer) error // what comes through the pipe in.json or, if so named, in.jsonl
	input  func(io.Writer) error // what comes through standard input
	code   int                   // exit code
	says   string                // and what it says
}

func TestMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("-short")
	}
	hostile := filepath.Join(t.TempDir(), "hostile")
	if out, err := exec.Command("go", "build", "-o", hostile, "../../../../../plugins/internal/host/testdata/plugin").
		CombinedOutput(); err != nil {
		t.Fatalf("can't build the hostile plugin: %v\n%s", err, out)
	}
	attacks := slices.Concat(pluginAttacks(hostile), inputAttacks(), sessionAttacks(), planAttacks(), protobufAttacks())
	attacks = append(attacks, serverAttacks(t)...)
	if e2e.WithTokenizers() {
		attacks = append(attacks, tokenizerAttacks(t)...)
		attacks = append(attacks, collateAttacks(t)...)
	}
	for _, a := range attacks {
		t.Run(a.name, func(t *testing.T) { a.run(t) })
	}
}

func (a *attack) run(t *testing.T) {
	b := e2e.NewFolder(t)
	b.Write(t, "finetune.yml", a.config)
	for name, text := range a.files {
		if to, is := strings.CutPrefix(text, "-> "); is {
			path := filepath.Join(b.Dir, name)
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.Symlink(to, path)); err != nil {
				t.Fatal(err)
			}
			continue
		}
		b.Write(t, name, text)
	}
	args := a.args
	if args == nil {
		args = []string{"finetune", "run", "--config-file", "finetune.yml", "--run-id", "r"}
	}
	// Beside the program is the plugin acme.
	cmd := b.Command(append([]string{"PATH=" + filepath.Dir(b.Exe) + ":" + os.Getenv("PATH")}, a.env...), args...)
	said := &tail{}
	cmd.Stdout, cmd.Stderr = said, said
	if a.pipe != nil {
		defer e2e.Pipe(t, filepath.Join(b.Dir, "in.json"), a.pipe)()
	}
	if a.input != nil {
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			_ = a.input(in) // the program may end first
			in.Close()
		}()
	}
	killed := limitMemory(t, cmd)
	e2e.Start(t, cmd)
	from := time.Now()
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	var peak int64
	var why string
	for running := true; running; {
		select {
		case <-ended:
			running = false
		case <-time.After(memoryEvery):
			peak = max(peak, resident(t, cmd.Process.Pid))
			if peak > 4*memoryLimit && why == "" {
				why = "it has no memory limit"
			} else if time.Since(from) > memoryTime && why == "" {
				why = "it takes too long"
			}
			if why != "" {
				_ = cmd.Process.Kill() // what it started ends with it
			}
		}
	}
	t.Logf("peak %d MiB, %.1f s, exit %d, %d KiB said", peak>>20, time.Since(from).Seconds(),
		cmd.ProcessState.ExitCode(), said.n>>10)
	switch code := cmd.ProcessState.ExitCode(); {
	case killed():
		t.Errorf("it was killed at %d MiB: %s", memoryLimit>>20, said)
	case why != "":
		t.Errorf("%s: %s", why, said)
	case peak > memoryLimit:
		t.Errorf("it holds %d MiB; the limit is %d: %s", peak>>20, memoryLimit>>20, said)
	case code != a.code || !strings.Contains(said.String(), a.says):
		t.Errorf("exit %d, want %d and %q: %s", code, a.code, a.says, said)
	case said.n > maxSaid:
		t.Errorf("it printed %d MiB", said.n>>20)
	}
}

// resident returns the memory that a process and everything it started hold now.
func resident(t *testing.T, pid int) int64 {
	t.Helper()
	var n int64
	if statm, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid)); err == nil { // it may have gone
		if f := strings.Fields(string(statm)); len(f) > 1 {
			pages, _ := strconv.ParseInt(f[1], 10, 64)
			n = pages * int64(os.Getpagesize())
		}
	}
	own, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	for _, c := range bench.Children(pid) {
		// Before it runs its own program, a process shares our memory.
		if line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", c)); err == nil && !bytes.Equal(line, own) {
			n += resident(t, c)
		}
	}
	return n
}

// maxSaid is the most that the program may print about an attack.
const maxSaid = 8 << 20

// tail keeps the end of what is written, and counts all of it.
type tail struct {
	last []byte
	n    int
}

func (w *tail) Write(p []byte) (int, error) {
	w.n += len(p)
	if w.last = append(w.last, p...); len(w.last) > 8<<10 {
		w.last = append([]byte(nil), w.last[len(w.last)-4<<10:]...)
	}
	return len(p), nil
}

func (w *tail) String() string { return string(w.last) }

// pluginAttacks are attacks by a third party's plugin.
func pluginAttacks(path string) (as []attack) {
	for _, c := range []struct {
		do, args, says string
		code           int
	}{
		{"gzip", `"raw", "gzip"`, "cannot get the plugin's description", 3},
		{"empty parts", `"raw"`, "would take more than 64 MiB", 1},
		{"empty sites", `"raw"`, "would take more than 64 MiB", 1},
		{"empty drops", `"raw"`, "would take more than 64 MiB", 1},
		{"empty ends", `"raw"`, "protocol broken: message is too large", 1},
		{"empty texts", `"raw"`, "more than 96 MiB of results", 1},
		{"many sites", "", "more than 96 MiB of results", 1},
		{"too much output", "", "more than 96 MiB of results", 1},
		{"flood stderr", "", "completed", 0},
		{"flood stdout", "", "completed", 0},
	} {
		as = append(as, attack{
			name: "plugin " + c.do,
			config: fmt.Sprintf(`
trajectory_builders: {b: {_type: hostile/pairs, at: "*", do: %q}}
sources: {runs: {_type: workflow_output, path: in.json}}
plugins: {hostile: {path: %q, args: [%s], timeout: 10s}}
dataset: {formats: [trl]}
finetuning: {enabled: true, trajectory_builder: b, output_dir: out}
`, c.do, path, c.args),
			files: map[string]string{"in.json": e2e.SmallInput}, code: c.code, says: c.says,
		})
	}
	return as
}

const memoryConfig = `
trajectory_builders: {b: {_type: dpo_traj_builder}}
sources: {runs: {_type: %s}}
dataset: {formats: [trl]}
finetuning: {enabled: true, trajectory_builder: b, output_dir: out}
`

// inputAttacks are attacks by files and settings.
func inputAttacks() []attack {
	from := []string{"finetune", "run", "--config-file", "finetune.yml", "--from", "in.json", "--run-id", "r"}
	config := strings.Replace(memoryConfig, "sources: {runs: {_type: %s}}\n", "", 1)
	many := func(head, each, end string, n int) func(io.Writer) error {
		return func(w io.Writer) error {
			block := []byte(strings.Repeat(each, (1<<20)/len(each)))
			_, err := io.WriteString(w, head)
			for i := 0; err == nil && i < n; i++ {
				_, err = w.Write(block)
			}
			if err == nil {
				_, err = io.WriteString(w, end)
			}
			return err
		}
	}
	head := `[{"id": "a", "question": "`
	long := []string{"LONG=" + strings.Repeat("x", 100_000)}
	manifest := map[string]string{"out/r/manifest.json": "-> /dev/zero", "out/r/records/begun.json": "-> /dev/zero"}
	// Input within all limits that takes the most memory for its size.
	entries := func(n int, begin, entry, between, end string) func(io.Writer) error {
		return func(w io.Writer) error {
			_, err := io.WriteString(w, begin+entry)
			for range n - 1 {
				if err == nil {
					_, err = io.WriteString(w, between+entry)
				}
			}
			if err == nil {
				_, err = io.WriteString(w, end)
			}
			return err
		}
	}
	text := strings.Repeat("x", 7<<20)
	large := e2e.SmallInput[1 : len(e2e.SmallInput)-1]
	large = strings.Replace(large, `"output": "x"`, `"output": "1`+text+`"`, 1)
	large = strings.Replace(large, `"output": "y"`, `"output": "2`+text+`"`, 1)
	messages := func(n int) string {
		return `{"messages": [` + strings.Repeat(`{"role": "user", "content": "a"}, `, n) +
			`{"role": "assistant", "content": "b"}]}` + "\n"
	}
	sft := strings.Replace(memoryConfig, "dpo", "sft", 1)
	candidates := func(n int) func(io.Writer) error {
		return func(w io.Writer) error {
			for i := range 4 * n {
				_, err := fmt.Fprintf(w, `{"id": "a%d", "prompt": "p", "output": "o%d", "score": %d}`+"\n", i/n, i, i)
				if err != nil {
					return err
				}
			}
			return nil
		}
	}
	steps := func(n, metadata int) func(io.Writer) error {
		return func(w io.Writer) error {
			_, err := io.WriteString(w, `[{"id": 1, "intermediate_steps": [`)
			for i := range n {
				_, err = fmt.Fprintf(w, `{"parent_id": "r", "function_ancestry": {"function_id": "f", "function_name": "n"}, `+
					`"payload": {"event_type": "TTC_END", "name": "dpo_candidate_move", "metadata": {"m": %q}, `+
					`"data": {"turn_id": "t", "candidate_index": %d, "score": %d, "input": "p", "output": "o%d"}}},`,
					strings.Repeat("m", metadata), i, i*i%997, i)
			}
			if err == nil {
				_, err = io.WriteString(w, `{}]}]`)
			}
			return err
		}
	}
	rollouts := func(n int) func(io.Writer) error {
		return func(w io.Writer) error {
			var err error
			for i := 0; err == nil && i < n; i++ {
				_, err = fmt.Fprintf(w, `{"id": "r%d", "task": "t", "reward": %d, "messages": [{"role": "user", "content": "q"}, `+
					`{"role": "assistant", "content": "%s %d"}]}`+"\n", i, i, text[:1_000_000], i)
			}
			return err
		}
	}
	grpo := strings.Replace(strings.Replace(memoryConfig, "dpo", "grpo", 1), "[trl]", "[verl]", 1)
	compat := []string{"finetune", "run", "--config-file", "finetune.yml", "--run-id", "r", "--compat", "nat"}
	named := func(source string) string { return fmt.Sprintf(memoryConfig, source+", path: in.json") }
	return []attack{
		{name: "variables", config: fmt.Sprintf(memoryConfig, "workflow_output, path: ["+strings.Repeat(`"${LONG}",`, 100_000)+"]"), env: long, code: 2, says: "larger than 16MiB in all"},
		{
			name:   "variables in lines",
			config: config + "collator: {template_kwargs: {a: [" + strings.Repeat("\"${LONG}\",\n", 100_000) + "]}}",
			env:    long,
			code:   2,
			says:   "larger than 16MiB in all",
		},
		{name: "one entry", config: named("workflow_output"), pipe: many(head, "x", `"}]`, 1<<10), code: 1, says: "example_too_large"},
		{name: "one entry to tell what it is", config: config, args: from, pipe: many(head, "x", `"}]`, 1<<10), code: 1, says: "one value is larger than the limit"},
		{
			name: "large entries", config: named("workflow_output"), pipe: entries(8, "[", large, ",", "]"),
			says: "completed",
		},
		{
			name: "many messages", config: fmt.Sprintf(sft, "traces, path: in.json"),
			pipe: entries(8, "", messages(60_000), "", ""), says: "completed",
		},
		{
			name: "too many messages", config: fmt.Sprintf(sft, "traces, path: in.json"),
			pipe: entries(4, "", messages(300_000), "", ""), code: 1, says: "example_too_large",
		},
		{name: "many candidates of a turn", config: named("candidates"), pipe: candidates(440), says: "completed"},
		{
			name: "too many candidates of a turn", config: named("candidates"), pipe: candidates(20_000),
			code: 1, says: "set max_pairs_per_turn",
		},
		{
			name: "many candidates of a turn, as NAT pairs them", config: named("workflow_output"), args: compat,
			pipe: steps(2000, 10), code: 1, says: "the limit is limits.output",
		},
		{
			name: "large metadata, as NAT pairs it", config: named("workflow_output"), args: compat,
			pipe: steps(600, 20_000), code: 1, says: "the limit is limits.output",
		},
		{
			name: "many pairs, as NAT makes them", config: named("workflow_output"), args: compat,
			pipe: steps(520, 10), says: "completed",
		},
		{
			name: "a large collection run", config: named("workflow_output"), args: compat,
			pipe: entries(3, "[", large, ",", "]"), code: 1, says: "limits.group allows 32 MiB",
		},
		{
			name: "a large task", config: fmt.Sprintf(grpo, "traces, path: in.json, task_key: task"),
			pipe: rollouts(31), says: "completed",
		},
		{
			name: "a task that is too large", config: fmt.Sprintf(grpo, "traces, path: in.json, task_key: task"),
			pipe: rollouts(200), code: 1, says: "group_too_large",
		},
		{name: "one trace", config: named("traces"), pipe: many(`{"id": "a", "messages": [{"role": "user", "content": "`, "x", `"}]}`, 1<<10), code: 1, says: "example_too_large"},
		{name: "empty objects", config: named("workflow_output"), pipe: many(`[{"id": "a", "intermediate_steps": [`, "{},", "{}]}]", 12), code: 1},
		{name: "80 million empty objects", config: named("workflow_output"), pipe: many(`[{"id": "a", "intermediate_steps": [`, "{},", "{}]}]", 240), code: 1, says: "example_too_large"},
		{name: "empty messages", config: named("traces"), pipe: many(`[{"id": "a", "messages": [`, "{},", "{}]}]", 12), code: 1},
		{name: "empty entries", config: named("workflow_output"), pipe: many(`[`, "{},", "{}]", 3), code: 1},
		{name: "nested lists", config: named("workflow_output"), pipe: many(`[{"id": "a", "intermediate_steps": `, "[", "", 240), code: 1, says: "nested too deep"},
		{
			name:  "endless manifest",
			files: manifest,
			args:  []string{"dataset", "verify", "out/r"},
			code:  1,
			says:  "not a regular file",
		},
		{
			name:  "endless manifest of a status",
			files: manifest,
			args:  []string{"finetune", "status", "out/r"},
			code:  1,
			says:  "no job",
		},
		{
			name:  "endless manifest of a resume",
			files: manifest,
			args:  []string{"finetune", "resume", "out/r"},
			code:  3,
			says:  "not a regular file",
		},
		{name: "endless manifest in a list", files: manifest, args: []string{"finetune", "list", "out"}},
		{
			name: "endless template", args: []string{"chat", "render", "--template", "/dev/zero"}, code: 2,
			says: "/dev/zero is too large",
		},
		{
			name: "endless lock", files: map[string]string{"nat-go.lock": "-> /dev/zero", "in.json": e2e.SmallInput},
			config: strings.Replace(config, "dpo_traj_builder", "acme/x", 1), args: from,
			code: 3, says: "not a regular file",
		},
		{
			name:  "endless config",
			files: map[string]string{"c.yml": "-> /dev/zero"},
			args:  []string{"validate", "--config-file", "c.yml"},
			code:  2,
			says:  "more than the limit",
		},
	}
}

// endless answers every request with a text that never ends, or with gzip of one.
func endless(t *testing.T, head, each string, zipped bool) string {
	t.Helper()
	block := []byte(strings.Repeat(each, (1<<20)/len(each)))
	var packed bytes.Buffer
	if zipped {
		pack := func(text []byte) []byte { // several gzip members make one stream
			packed.Reset()
			z := gzip.NewWriter(&packed)
			_, _ = z.Write(text)
			_ = z.Close()
			return bytes.Clone(packed.Bytes())
		}
		head, block = string(pack([]byte(head))), pack(block)
	}
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if zipped {
			w.Header().Set("Content-Encoding", "gzip")
		}
		_, err := io.WriteString(w, head)
		for err == nil {
			_, err = w.Write(block)
		}
	}))
	t.Cleanup(h.Close)
	return h.URL
}

const manyQuestions = 16

// serverAttacks are attacks by a workflow's server.
func serverAttacks(t *testing.T) (as []attack) {
	t.Helper()
	var q []string
	for i := range manyQuestions {
		q = append(q, fmt.Sprintf(`{"id": "%d", "question": "q%d"}`, i, i))
	}
	questions := "[" + strings.Join(q, ",") + "]"
	for _, c := range []struct {
		name, head, each string
		zipped           bool
	}{
		{"one line", `data: {"value": "`, "x", false},
		{"many lines", "", "data: {\"value\": \"a\"}\n\n", false},
		{"empty lines", "", "\n", false},
		{"steps", "", "intermediate_data: {\"id\": \"u\", \"type\": \"TTC_END\", \"name\": \"x\", \"payload\": \"{}\"}\n\n", false},
		{"gzip", `data: {"value": "`, "x", true},
	} {
		as = append(as, attack{
			name:  "endpoint " + c.name,
			code:  3,
			says:  "the answer is larger than max_answer_bytes",
			files: map[string]string{"q.json": questions},
			config: fmt.Sprintf(memoryConfig,
				fmt.Sprintf("endpoint, endpoint: %q, dataset: q.json",
					endless(t, c.head, c.each, c.zipped)+"/generate")),
		})
	}
	return as
}

const memoryTemplate = `{%- for m in messages %}<|im_start|>{{ m.role }}
{{ m.content or '' }}{%- for c in m.tool_calls or [] %}{{ '<tool_call>' + c.function.name + ' ' + c.function.arguments | tojson + '</tool_call>' }}{% endfor %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}`

const memoryCall = `{"id":"e%d","messages":[{"role":"user","content":"Weather in Oslo, street %d?"},` +
	`{"role":"assistant","content":"","tool_calls":[{"id":"c1","type":"function","function":{"name":"weather","arguments":"{\"town\": \"Oslo\"}"}}]},` +
	`{"role":"tool","tool_call_id":"c1","content":"Error: unknown argument town"},{"role":"assistant","content":"I could not find out. %d"}]}` + "\n"

// tokenizerAttacks are attacks by what collation needs: a tokenizer and a teacher.
func tokenizerAttacks(t *testing.T) (as []attack) {
	t.Helper()
	good, err := os.ReadFile("../../../../../examples/hints/tokenizer/tokenizer.json")
	if err != nil {
		t.Fatal(err)
	}
	var calls strings.Builder
	for i := range manyQuestions {
		fmt.Fprintf(&calls, memoryCall, i, i, i)
	}
	config := `
trajectory_builders: {hints: {_type: sdpo_traj_builder, detect: {match: [{pattern: "^Error", class: bad_args}]}, hints: {rules: [{text: "The argument is called city."}]}}}
sources: {runs: {_type: %s, path: in.jsonl}}
finetuning: {enabled: true, trajectory_builder: hints, output_dir: out}
collator: {tokenizer: tokenizer.json, template: tool.jinja, max_length: 1024, batch_tokens: 1024%s}
`
	files := map[string]string{"tokenizer.json": string(good), "tool.jinja": memoryTemplate, "in.jsonl": calls.String()}
	for _, c := range []struct {
		name, protocol, head, each string
		zipped                     bool
		code                       int
		says                       string
	}{
		{"tokenize", "vllm, vocabulary: check", `{"tokens": [`, "1,", false, 3, "longer than max_answer_bytes"},
		{"tokenize gzip", "vllm, vocabulary: check", `{"tokens": [`, "1,", true, 3, "longer than max_answer_bytes"},
		{"scores", "trl, vocabulary: assume", `{"logprobs": [[`, "[0.5],", false, 0, "teacher"},
		{"scores gzip", "trl, vocabulary: assume", `{"logprobs": [[`, "[0.5],", true, 0, "teacher"},
		{"text", "trl, vocabulary: assume", `{"a": "`, "x", false, 0, "teacher"},
	} {
		as = append(as, attack{
			name: "teacher " + c.name, files: files, code: c.code, says: c.says,
			config: fmt.Sprintf(config, "traces", fmt.Sprintf(", teacher: {endpoint: %q, model: m, top_k: 3, timeout: 5s, protocol: %s}", endless(t, c.head, c.each, c.zipped), c.protocol)),
		})
	}
	template := map[string]string{"tool.jinja": memoryTemplate, "in.jsonl": calls.String()}
	var hostile map[string]any
	if err := json.Unmarshal(good, &hostile); err != nil {
		t.Fatal(err)
	}
	piece := func(id string) any { return map[string]any{"Sequence": map[string]any{"id": id, "type_id": 0}} }
	hostile["post_processor"] = map[string]any{
		"type":           "TemplateProcessing",
		"single":         slices.Repeat([]any{piece("A")}, 200_000),
		"pair":           []any{piece("A"), piece("B")},
		"special_tokens": map[string]any{},
	}
	text, err := json.Marshal(hostile)
	if err != nil {
		t.Fatal(err)
	}
	template["tokenizer.json"] = string(text)
	as = append(as, attack{
		name:   "tokenizer with a template",
		code:   3,
		says:   "repeats the text",
		files:  template,
		config: fmt.Sprintf(config, "traces", ""),
	})
	return as
}
