package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/collator/rows"
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
}

// conformanceInputs are inputs in the conformance data: a few or, with NATGO_LONG=1, all files that may be some.
func conformanceInputs(t *testing.T) (paths []string) {
	t.Helper()
	root := os.Getenv("NATGO_CONFORMANCE")
	switch {
	case root == "":
	case os.Getenv("NATGO_LONG") == "":
		for _, name := range []string{
			"unicode_and_control", "message_prompt_full", "several_examples_turns_interleaved",
		} {
			paths = append(paths, filepath.Join(root, "nat", "cases", name, "input", "workflow_output.json"))
		}
		paths = append(paths, filepath.Join(root, "chat", "traces", "gpt-4o-airline-dev.json"))
	default:
		for _, pattern := range []string{
			"nat/cases/*/input/*.json", "nat/e2e/*/eval_out/*.json", "chat/traces/*.json*", "readers/*/*.json*",
			"readers/*/*/*.json*", "readers/*/sessions/*/*/*/*.jsonl", "wire/customizer/*/input.jsonl",
		} {
			found, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(pattern)))
			if err != nil || found == nil {
				t.Fatalf("%s: no files (%v)", pattern, err)
			}
			paths = append(paths, found...)
		}
	}
	return paths
}

// readable reports whether a run reads a file and makes rows of it; the others say why they don't.
func readable(t *testing.T, self, path string) bool {
	t.Helper()
	cmd := exec.Command(self, "run", path, "--plan", "--json")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Logf("%s is not loaded: %s", path, bytes.TrimSpace(out)[:min(200, len(bytes.TrimSpace(out)))])
	}
	return err == nil
}

// TestLoadDataset has Hugging Face datasets, which trainers use to load rows, load every file of every format: the
// values come back unchanged from every table, and from every file of lines unless the manifest says that the reader
// changes or refuses it - which it then does. With NATGO_LONG=1 the inputs are all of the conformance data.
func TestLoadDataset(t *testing.T) {
	pythons := map[string]string{}
	pythons[""] = pythontest.Need(t, "datasets", "import datasets", "rows were loaded by nat-go only")
	if old := pythontest.Datasets3(t); old != "" {
		pythons["text"] = old
	}
	self, dir := program(t), t.TempDir()
	var runs []string
	for name, b := range loadable(t) {
		putFile(t, filepath.Join(dir, name), b)
		runs = append(runs, "--from "+name)
	}
	inputs := conformanceInputs(t)
	for _, path := range inputs {
		if os.Getenv("NATGO_LONG") == "" || readable(t, self, path) {
			runs = append(runs, "--from "+path)
		}
	}
	if least := 60; os.Getenv("NATGO_LONG") != "" && inputs != nil && len(runs) < least {
		t.Errorf("%d inputs, want at least %d", len(runs), least)
	}
	for columns, python := range pythons {
		var all []loadCase
		for i, from := range runs {
			all = append(all, loadCases(t, self, dir, fmt.Sprint("run", columns, i), columns, strings.Fields(from))...)
		}
		wrong, count := load(t, python, dir, all)
		t.Logf("%s: %d files", python, count)
		if wrong != "" || count != len(all) || count < 20 {
			t.Errorf("%s: %d files of %d compared\n%s", python, count, len(all), wrong)
		}
	}
}

// loadCases makes a run in all formats and lists its files.
func loadCases(t *testing.T, self, dir, id, columns string, args []string) (all []loadCase) {
	t.Helper()
	args = append([]string{"run", "--run-id", id, "--json"}, args...)
	for _, f := range rows.Formats() {
		args = append(args, "--format", f.Name)
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
			c := loadCase{File: path, Lines: path, Otherwise: f.ReadToday(), Old: f.ReadOtherwise}
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

func load(t *testing.T, python, dir string, all []loadCase) (wrong string, count int) {
	t.Helper()
	var b bytes.Buffer
	for _, c := range all {
		if err := json.NewEncoder(&b).Encode(c); err != nil {
			t.Fatal(err)
		}
	}
	list := filepath.Join(t.TempDir(), "cases")
	putFile(t, list, b.Bytes())
	script, err := filepath.Abs(filepath.Join("testdata", "loaded.py"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(python, script, list)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HF_HUB_OFFLINE=1", "HF_DATASETS_OFFLINE=1", "HF_HOME="+t.TempDir(),
		"PYTHONDONTWRITEBYTECODE=1")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	said := strings.Split(strings.TrimSpace(string(out)), "\n")
	if _, scan := fmt.Sscan(said[len(said)-1], &count); scan != nil || err != nil && len(said) == 1 {
		t.Fatalf("%v\n%s\n%s", err, out, stderr.Bytes())
	}
	return strings.Join(said[:len(said)-1], "\n"), count
}
