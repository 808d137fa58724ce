package rows

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/e2e"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"

	"github.com/nat-go/nat-go/collator/rows"
)

// arrival is a file brought by somebody who hasn't read any of the documentation.
type arrival struct {
	name   string // of the file or folder; "-": standard input
	write  func(t *testing.T, path string)
	rows   int    // of the input that should become rows
	format string // the consumer's
}

type object = map[string]any

// lines returns the rows of a made-up file: what make returns for numbers from 0.
func lines(n int, make func(i int) object) (out []object) {
	for i := range n {
		out = append(out, make(i))
	}
	return out
}

func question(i int) string { return fmt.Sprintf("How far is it from town %d to town %d?", i, i+1) }

func answer(i int) string { return fmt.Sprintf("It is %d miles.", 7*i+3) }

func jsonLines(t *testing.T, all []object) []byte {
	t.Helper()
	var b bytes.Buffer
	for _, o := range all {
		if err := json.NewEncoder(&b).Encode(o); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

func putFile(t *testing.T, path string, b []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func asLines(all []object) func(*testing.T, string) {
	return func(t *testing.T, path string) { t.Helper(); putFile(t, path, jsonLines(t, all)) }
}

func message(role, text string) object { return object{"role": role, "content": text} }

func zipped(t *testing.T, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// toolTalk is a conversation with a call, text in several parts, and a thank-you that gets no answer.
func toolTalk(i int) object {
	function := object{"name": "distance", "arguments": fmt.Sprintf(`{"from": %d}`, i)}
	call := object{"id": "c", "type": "function", "function": function}
	from := object{"type": "object", "properties": object{"from": object{"type": "integer"}}}
	return object{
		"messages": []object{
			{"role": "user", "content": []object{{"type": "text", "text": question(i)}}},
			{"role": "assistant", "content": nil, "tool_calls": []object{call}},
			{"role": "tool", "tool_call_id": "c", "content": answer(i)},
			message("assistant", answer(i)),
			message("user", "Thanks!"),
		},
		"tools": []object{{"type": "function", "function": object{"name": "distance", "parameters": from}}},
	}
}

// arrivals are twelve kinds of file that people have.
func arrivals() []arrival {
	scored := func(prompt, output, score string) []object {
		return lines(60, func(i int) object {
			return object{prompt: question(i / 2), output: fmt.Sprintf("%s (%d)", answer(i), i%2), score: i % 2}
		})
	}
	type row struct {
		Question string  `parquet:"question"`
		Reply    string  `parquet:"reply"`
		Grade    float64 `parquet:"grade"`
	}
	return []arrival{
		{"judged.jsonl", asLines(scored("question", "answer", "rating")), 30, "trl"},
		{"judged.csv", func(t *testing.T, path string) {
			t.Helper()
			var b strings.Builder
			b.WriteString("prompt,completion,reward\n")
			for i := range 60 {
				fmt.Fprintf(&b, "\"%s\",\"It is far,\nand \"\"%d\"\" miles\",%d\n", question(i/2), i, i%2)
			}
			putFile(t, path, []byte(b.String()))
		}, 30, "trl"},
		{"judged.parquet", func(t *testing.T, path string) {
			t.Helper()
			var all []row
			for i := range 60 {
				all = append(all, row{question(i / 2), answer(i), float64(i%2) + 0.5})
			}
			if err := parquet.WriteFile(path, all); err != nil {
				t.Fatal(err)
			}
		}, 30, "trl"},
		{"ids.jsonl.gz", asZipped(lines(60, func(i int) object {
			id := fmt.Sprint("q", i/2)
			return object{"id": id, "prompt": question(i / 2), "output": answer(i), "score": i % 2}
		})), 30, "trl"},
		{"talks.jsonl", asLines(lines(40, func(i int) object {
			return object{"messages": []object{
				message("system", "Be brief."), message("user", question(i)), message("assistant", answer(i)),
			}}
		})), 40, "trl"},
		{"sharegpt.json", func(t *testing.T, path string) {
			t.Helper()
			b, err := json.Marshal(lines(40, func(i int) object {
				return object{"conversations": []object{
					{"from": "human", "value": question(i)},
					{"from": "gpt", "value": answer(i)},
					{"from": "human", "value": "Sure?"},
					{"from": "gpt", "value": "Yes."},
				}}
			}))
			if err != nil {
				t.Fatal(err)
			}
			putFile(t, path, b)
		}, 40, "messages"},
		{"agent.jsonl.zst", func(t *testing.T, path string) {
			t.Helper()
			w, err := zstd.NewWriter(nil)
			if err != nil {
				t.Fatal(err)
			}
			putFile(t, path, w.EncodeAll(jsonLines(t, lines(40, toolTalk)), nil))
		}, 40, "messages"},
		{"preferences.jsonl", asLines(lines(40, func(i int) object {
			return object{"prompt": question(i), "chosen": answer(i), "rejected": "I don't know."}
		})), 40, "trl"},
		{"binarized.jsonl", asLines(lines(40, func(i int) object {
			ask := message("user", question(i))
			return object{
				"prompt": question(i), "chosen": []object{ask, message("assistant", answer(i))},
				"rejected": []object{ask, message("assistant", "No idea.")}, "score_chosen": 8.5, "score_rejected": 3.0,
			}
		})), 40, "trl"},
		{"alpaca.jsonl", asLines(lines(40, func(i int) object {
			return object{"instruction": "Answer the question.", "input": question(i), "output": answer(i)}
		})), 40, "trl"},
		{"folder", func(t *testing.T, path string) {
			t.Helper()
			for part := range 2 {
				half := lines(20, func(i int) object {
					return object{"prompt": question(20*part + i), "response": answer(i)}
				})
				putFile(t, filepath.Join(path, fmt.Sprintf("part-%d.jsonl", part)), jsonLines(t, half))
			}
			putFile(t, filepath.Join(path, "README.md"), []byte("# Data\n"))
		}, 40, "trl"},
		{"-", asLines(lines(30, func(i int) object {
			both := []string{answer(i), answer(i + 1)}
			return object{"query": question(i), "responses": both, "scores": []float64{0.1, 0.9}}
		})), 30, "trl"},
	}
}

// TestNewcomer plays somebody who has read nothing: for each of these files, `nat-go run FILE`, and `nat-go init FILE`
// followed by a run of what it writes, produce rows that their consumer loads, without any flags. Making rows of fewer
// than nine tenths of a file without a reason is a failure.
func TestNewcomer(t *testing.T) {
	self, dir := e2e.Program(t), t.TempDir()
	var written []string
	for i, a := range slices.Concat(arrivals(), publicSets(), compared(), oddShapes(), keptElsewhere()) {
		name, stdin := a.name, ""
		if name == "-" {
			stdin = filepath.Join(dir, "stdin")
			a.write(t, stdin)
		} else {
			a.write(t, filepath.Join(dir, name))
		}
		began := time.Now()
		sum := newcomer(t, self, dir, stdin, "run", name, "--run-id", fmt.Sprint("run", i), "--json")
		config := fmt.Sprint("config", i, ".yml")
		announced := announces(t, newcomer(t, self, dir, stdin, "init", name, "--write", config, "--json"))
		again := newcomer(t, self, dir, stdin,
			"finetune", "run", "--config-file", config, "--run-id", fmt.Sprint("init", i), "--json")
		first, second := rowsOf(t, dir, sum, a.format), rowsOf(t, dir, again, a.format)
		if !slices.Equal(first.counts, second.counts) {
			t.Errorf("%s: run gave %v rows, init and run %v", a.name, first.counts, second.counts)
		}
		if made := again["counts"].(object)["records"].(float64); made != announced {
			t.Errorf("%s: init announced %v records, and the run made %v", a.name, announced, made)
		}
		t.Logf("nat-go run %-18s %3d of %3d rows as %-8s  %.1f s, init and run included",
			a.name, first.rows, a.rows, a.format, time.Since(began).Seconds())
		if 10*first.rows < 9*a.rows || first.rows > a.rows {
			t.Errorf("%s: %d rows of %d: %v", a.name, first.rows, a.rows, sum)
		}
		written = append(written, append(first.files, second.files...)...)
	}
	loadAll(t, written)
}

// announces returns how many records init says the builders will make that it chose.
func announces(t *testing.T, printed object) (records float64) {
	t.Helper()
	report := printed["report"].(object)
	chosen := report["choice"].(object)["builders"].([]any)
	for _, y := range report["builders"].([]any) {
		if slices.Contains(chosen, y.(object)["builder"]) {
			records += y.(object)["records"].(float64)
		}
	}
	return records
}

// newcomer runs a command and returns the JSON object that it prints.
func newcomer(t *testing.T, self, dir, stdin string, args ...string) (out object) {
	t.Helper()
	cmd := exec.Command(self, args...)
	cmd.Dir = dir
	if stdin != "" {
		f, err := os.Open(stdin)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		cmd.Stdin = f
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	b, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(b, &out)
	}
	if err != nil {
		t.Fatalf("nat-go %s: %v\n%s\n%s", strings.Join(args, " "), err, b, stderr.Bytes())
	}
	return out
}

type yield struct {
	rows   int
	counts []int
	files  []string
}

// rowsOf reads back all rows of a run, as the format's consumer does.
func rowsOf(t *testing.T, dir string, sum object, format string) (y yield) {
	t.Helper()
	f, ok := rows.Lookup(format)
	if !ok {
		t.Fatalf("no format %q", format)
	}
	folder := filepath.Join(dir, sum["dataset_dir"].(string), format)
	all, _ := filepath.Glob(filepath.Join(folder, "*.jsonl"))
	for _, file := range all {
		if filepath.Base(file) == "rows.jsonl" {
			continue
		}
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for line := range bytes.Lines(b) {
			if _, err := f.Read(bytes.TrimSpace(line)); err != nil {
				t.Errorf("%s: %v", file, err)
			}
			n++
		}
		y.rows, y.counts, y.files = y.rows+n, append(y.counts, n), append(y.files, file)
	}
	return y
}

// loadAll has the datasets library, which trainers use to read rows, load the files.
func loadAll(t *testing.T, files []string) {
	t.Helper()
	if exec.Command("python3", "-c", "import datasets").Run() != nil {
		if slices.Contains(strings.Split(os.Getenv("NATGO_REQUIRE"), ","), "datasets") {
			t.Fatal("python3 has no datasets, and NATGO_REQUIRE names it")
		}
		t.Log("SKIPPED: python3 has no datasets, so that the rows were read back by nat-go only")
		return
	}
	script := filepath.Join(t.TempDir(), "newcomer.py")
	b, err := os.ReadFile(filepath.Join("testdata", "newcomer.py"))
	if err == nil {
		err = os.WriteFile(script, b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("python3", append([]string{script}, files...)...)
	cmd.Env = append(os.Environ(), "HF_HUB_OFFLINE=1", "HF_DATASETS_OFFLINE=1", "HF_HOME="+t.TempDir())
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if n := strings.Count(string(out), ".jsonl"); n != len(files) {
		t.Errorf("%d of %d files were loaded:\n%s", n, len(files), out)
	}
}
