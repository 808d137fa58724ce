package rows

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/e2e"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/collator/rows"
	"github.com/nat-go/nat-go/internal/oracletest"
	"github.com/nat-go/nat-go/internal/pythontest"
)

// loadable lists inputs whose rows a reader of JSON lines may change: files of candidates, pairs and traces.
func loadable(t *testing.T) map[string][]byte {
	t.Helper()
	call := func(i int, arguments object) object {
		raw, err := json.Marshal(arguments)
		if err != nil {
			t.Fatal(err)
		}
		return object{"role": "assistant", "content": nil, "tool_calls": []object{{
			"id": fmt.Sprint("c", i), "type": "function", "function": object{"name": "f", "arguments": string(raw)},
		}}}
	}
	day := object{"day": object{"type": "string", "default": nil}}
	tool := object{"type": "function", "function": object{
		"name": "f", "parameters": object{"type": "object", "properties": day},
	}}
	talk := func(i int) []object { return []object{message("user", question(i)), message("assistant", answer(i))} }
	long := strings.Repeat("a long question. ", 20_000)
	return map[string][]byte{
		"days.jsonl": jsonLines(t, lines(12, func(i int) object {
			return object{
				"prompt": fmt.Sprintf("2024-01-%02d", i+1), "chosen": fmt.Sprintf("2024-02-%02d", i+1),
				"rejected": fmt.Sprintf("2025-02-%02dT10:00", i+1),
			}
		})),
		"plain.jsonl": jsonLines(t, lines(12, func(i int) object {
			return object{"prompt": question(i), "chosen": answer(i), "rejected": "2024-01-01"}
		})),
		"calls.jsonl": jsonLines(t, lines(12, func(i int) object {
			arguments := object{"day": fmt.Sprintf("2024-01-%02d", i+1)}
			if i%3 == 0 {
				arguments = object{"town": i, "near": []any{1, "x", nil}}
			}
			result := object{"role": "tool", "content": "2024-01-01", "tool_call_id": fmt.Sprint("c", i)}
			m := append(talk(i), message("user", "And back?"), call(i, arguments), result, talk(i)[1])
			return object{"messages": m, "tools": []object{tool}}
		})),
		"parts.jsonl": jsonLines(t, lines(12, func(i int) object {
			m := talk(i)
			if i%2 == 0 {
				m[0]["content"] = []object{{"type": "text", "text": question(i)}}
			}
			return object{"messages": m}
		})),
		"late.jsonl": jsonLines(t, lines(60, func(i int) object {
			row := object{"messages": talk(i)}
			if i < 50 {
				row["messages"].([]object)[0]["content"] = fmt.Sprint(i, long)
			} else {
				row["tools"] = []object{tool}
			}
			return row
		})),
	}
}

// loadCase is a file of rows for loaded.py.
type loadCase struct {
	File      string   `json:"file"`
	Lines     string   `json:"lines"`
	Otherwise []string `json:"otherwise"`
	Old       []string `json:"old"`
	Nulls     bool     `json:"nulls"`
}

// recordedInputs are inputs in the oracle data: a few or, with NATGO_LONG=1, all files that may be some.
func recordedInputs(t *testing.T) (paths []string) {
	t.Helper()
	if os.Getenv("NATGO_LONG") == "" {
		for _, name := range []string{
			"unicode_and_control", "message_prompt_full", "several_examples_turns_interleaved",
		} {
			paths = append(paths, oracletest.Path(t, "nat", "cases", name, "input", "workflow_output.json"))
		}
		return append(paths, oracletest.Path(t, "chat", "traces", "gpt-4o-airline-dev.json"))
	}
	for _, pattern := range []string{
		"nat/cases/*/input/*.json", "nat/e2e/*/eval_out/*.json", "chat/traces/*.json*", "readers/*/*.json*",
		"readers/*/*/*.json*", "readers/*/sessions/*/*/*/*.jsonl", "wire/customizer/*/input.jsonl",
	} {
		paths = append(paths, oracletest.Glob(t, filepath.FromSlash(pattern))...)
	}
	return paths
}

// readable reports whether a run could be made of a file, and logs why not.
func readable(t *testing.T, self, path string) bool {
	t.Helper()
	cmd := exec.Command(self, "run", path, "--plan", "--json")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Logf("%s is not loaded: %s", path, bytes.TrimSpace(out)[:min(200, len(bytes.TrimSpace(out)))])
	}
	return err == nil
}

// loader is a process that loads files of rows with Hugging Face datasets.
type loader struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	said *bufio.Scanner
}

func startLoader(t *testing.T, python string) *loader {
	t.Helper()
	script, err := filepath.Abs(filepath.Join("testdata", "loaded.py"))
	if err != nil {
		t.Fatal(err)
	}
	l := &loader{cmd: exec.Command(python, script)}
	l.cmd.Env = append(os.Environ(), "HF_HUB_OFFLINE=1", "HF_DATASETS_OFFLINE=1", "HF_HOME="+t.TempDir(),
		"PYTHONDONTWRITEBYTECODE=1")
	l.cmd.Stderr = os.Stderr
	if l.in, err = l.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := l.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := l.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		l.in.Close()
		if err := l.cmd.Wait(); err != nil {
			t.Errorf("%s %s: %v", python, script, err)
		}
	})
	l.said = bufio.NewScanner(out)
	l.said.Buffer(nil, 1<<20)
	return l
}

// load has a file loaded; wrong lists what differs from the manifest.
func (l *loader) load(t *testing.T, c loadCase) (wrong string) {
	t.Helper()
	if err := json.NewEncoder(l.in).Encode(c); err != nil {
		t.Fatal(err)
	}
	if !l.said.Scan() {
		t.Fatalf("%s: the reader ended: %v", c.File, l.said.Err())
	}
	if err := json.Unmarshal(l.said.Bytes(), &wrong); err != nil {
		t.Fatalf("%s: %v: %s", c.File, err, l.said.Bytes())
	}
	return wrong
}

// readers are the versions of datasets that are at hand.
type readers struct {
	name    string
	columns string // dataset.json_columns for it
	idle    chan *loader
	loaded  atomic.Int64
}

// startReaders starts as many processes for a version as tests run at a time: importing the library takes seconds.
func startReaders(t *testing.T, name, columns, python string) *readers {
	t.Helper()
	r := &readers{name: name, columns: columns, idle: make(chan *loader, 64)}
	for range min(cap(r.idle), runtime.GOMAXPROCS(0)) {
		r.idle <- startLoader(t, python)
	}
	return r
}

// olderDatasets returns a Python with Hugging Face datasets 3.6, the last version before JSON columns:
// NATGO_DATASETS3_PYTHON or, if NATGO_REQUIRE names datasets3, a virtual environment set up for it in the user's
// cache. Without such a Python, it logs a message and returns "", and the test continues with the current version.
func olderDatasets(t *testing.T) string {
	t.Helper()
	path, err := datasets3()
	if err != nil {
		t.Fatal(err)
	}
	if path == "" {
		t.Log("SKIPPED: no Python with datasets 3.6; NATGO_REQUIRE=datasets3 sets one up, " +
			"NATGO_DATASETS3_PYTHON names one")
	}
	return path
}

var datasets3 = pythontest.Prepared("datasets3", "import datasets; assert datasets.__version__.startswith('3.6.')",
	[]string{"$NATGO_DATASETS3_PYTHON"},
	func(env, need string) error { return pythontest.Create(env, need, "python3", nil, "datasets==3.6.0") })

// TestLoadDataset has Hugging Face datasets, which trainers use to load rows, load every file of every format: the
// values come back unchanged from every table, and from every file of lines unless the manifest says that the reader
// changes or refuses it - which it then does. With NATGO_LONG=1 the inputs include all of the oracle data. What is
// made of an input is removed once it has been loaded.
func TestLoadDataset(t *testing.T) {
	python := pythontest.Need(t, "datasets", "import datasets", "rows were loaded by nat-go only")
	versions := []*readers{startReaders(t, "datasets 5", "", python)}
	if old := olderDatasets(t); old != "" {
		versions = append(versions, startReaders(t, "datasets 3.6", "text", old))
	}
	self, dir, long := e2e.Program(t), t.TempDir(), os.Getenv("NATGO_LONG") != ""
	var paths []string
	for name, b := range loadable(t) {
		paths = append(paths, filepath.Join(dir, name))
		putFile(t, paths[len(paths)-1], b)
	}
	var inputs atomic.Int64
	load := func(t *testing.T, path string) {
		inputs.Add(1)
		for _, r := range versions {
			loadInput(t, self, path, r)
		}
	}
	each := func(t *testing.T, paths []string, load func(t *testing.T, path string)) {
		for i, path := range paths {
			t.Run(fmt.Sprint(i, " ", filepath.Base(path)), func(t *testing.T) {
				t.Parallel()
				load(t, path)
			})
		}
	}
	t.Run("made", func(t *testing.T) { each(t, paths, load) })
	recorded := false
	t.Run("recorded", func(t *testing.T) {
		paths := recordedInputs(t)
		recorded = true
		each(t, paths, func(t *testing.T, path string) {
			if !long || readable(t, self, path) {
				load(t, path)
			}
		})
	})
	if least := int64(60); long && recorded && inputs.Load() < least {
		t.Errorf("%d inputs, want at least %d", inputs.Load(), least)
	}
	for _, r := range versions {
		if t.Logf("%s: %d files of %d inputs", r.name, r.loaded.Load(), inputs.Load()); r.loaded.Load() < 20 {
			t.Errorf("%s: %d files", r.name, r.loaded.Load())
		}
	}
}

// loadInput makes a run of an input in all formats and has its files loaded.
func loadInput(t *testing.T, self, path string, r *readers) {
	t.Helper()
	all := loadCases(t, self, t.TempDir(), r.columns, path)
	l := <-r.idle
	defer func() { r.idle <- l }()
	for _, c := range all {
		if wrong := l.load(t, c); wrong != "" {
			t.Errorf("%s: %s: %s", r.name, c.File, wrong)
		}
		r.loaded.Add(1)
	}
}

// loadCases makes a run in all formats and lists its files.
func loadCases(t *testing.T, self, dir, columns, input string) (all []loadCase) {
	t.Helper()
	args := []string{"run", "--run-id", "load", "--json", "--from", input}
	for _, f := range rows.Formats() {
		if f.Lines() != "trl_prompts" { // which takes a tokenizer
			args = append(args, "--format", f.Name)
		}
	}
	if columns != "" {
		args = append(args, "-o", "dataset.json_columns="+columns)
	}
	sum := newcomer(t, self, dir, "", args...)
	run := runfolder.Folder(filepath.Join(dir, sum["run_dir"].(string)))
	m, err := run.ReadManifest()
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range m.Dataset {
		format, _ := rows.Lookup(w.Format)
		for _, f := range w.Files {
			path := filepath.Join(run.Dataset(), filepath.FromSlash(f.Path))
			c := loadCase{
				File: path, Lines: path, Otherwise: f.ReadToday(), Old: f.ReadOtherwise, Nulls: format.TakesNull,
			}
			if format.Declared() {
				name := strings.TrimSuffix(filepath.Base(path), ".parquet") + ".jsonl"
				c.Lines = filepath.Join(run.Format(format.Lines()), name)
			}
			if format.Service && !format.Declared() || format.Lines() == "verl" {
				continue
			}
			all = append(all, c)
		}
	}
	return all
}
