package finetune

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"github.com/nat-go/nat-go/builders/finding"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/compat"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage/read"
	"github.com/nat-go/nat-go/internal/oracletest"
)

func testEnv(t *testing.T) stage.Env {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return stage.Env{
		Log: zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.WarnLevel), Self: self, Now: time.Now,
		Findings: func(fs []finding.Finding) {
			for _, f := range fs {
				t.Logf("%s:%d:%d %s %s", f.File, f.Line, f.Column, f.Code, f.Message)
			}
		},
	}
}

// runAs runs finetune.yml with the given id, below the folder o.
func runAs(t *testing.T, id string) *Summary {
	t.Helper()
	sum, err := Run(context.Background(), Request{ConfigFile: "finetune.yml", RunID: id, OutputDir: "o"}, testEnv(t))
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

// caseInputs returns the inputs of a case, in the order of the collection runs. A run whose file is missing failed.
func caseInputs(t *testing.T, dir string) []string {
	t.Helper()
	names := []string{"input/workflow_output.json"}
	more, err := filepath.Glob(filepath.Join(dir, "input", "workflow_output_run*.json"))
	if err != nil {
		t.Fatal(err)
	}
	for range more {
		names = append(names, "input/workflow_output_run"+string(rune('0'+len(names)))+".json")
	}
	return names
}

// TestCompatIsNAT runs every recorded case with --compat nat, and compares the output with NAT's, byte for byte.
func TestCompatIsNAT(t *testing.T) {
	cases, err := filepath.Glob(filepath.Join(oracletest.Path(t, "nat", "cases"), "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range cases {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			work := t.TempDir()
			if err := os.CopyFS(work, os.DirFS(dir)); err != nil {
				t.Fatal(err)
			}
			t.Chdir(work)
			sum, err := Run(context.Background(), Request{
				ConfigFile: "config.yml", DryRun: true, RunID: "oracle",
				Choice: read.Choice{Compat: compat.NAT, From: caseInputs(t, dir)},
			}, testEnv(t))
			var metrics struct {
				FinalStatus []struct{ Status string } `json:"final_status"`
			}
			text := bytes.ReplaceAll(readFile(t, "expected/metrics.json"), []byte("NaN"), []byte("null"))
			text = bytes.ReplaceAll(bytes.ReplaceAll(text, []byte("-Infinity"), []byte("null")), []byte("Infinity"),
				[]byte("null"))
			if jerr := json.Unmarshal(text, &metrics); jerr != nil {
				t.Fatal(jerr)
			}
			completed := metrics.FinalStatus[0].Status == "completed"
			if completed != (err == nil) || !completed && exit.Code(err) != exit.Failed {
				t.Fatalf("NAT ended %q, we with %v", metrics.FinalStatus[0].Status, err)
			}
			if sum.DatasetDir == "" {
				t.Fatal("no dataset_dir")
			}
			for _, name := range []string{"training_file.jsonl", "validation_file.jsonl"} {
				want, got := readFile(t, "expected/"+name), readFile(t, filepath.Join(sum.DatasetDir, "customizer", name))
				if !bytes.Equal(got, want) {
					t.Errorf("%s differs:\n%s", name, cmp.Diff(string(want), string(got)))
				}
				if copied := readFile(t, filepath.Join("out/datasets/oracle", name)); !bytes.Equal(copied, want) {
					t.Errorf("dataset_output_dir: %s differs", name)
				}
			}
			wants, _ := filepath.Glob("expected/trajectories*.json")
			for _, want := range append(wants, "expected/submitted.json") {
				if want, got := readFile(t, want),
					readFile(t, filepath.Join(sum.DatasetDir, "nat_trajectories", filepath.Base(want))); !sameJSON(t, want,
					got) {
					t.Errorf("%s differs", filepath.Base(string(want)))
				}
			}
			checkProgress(t, sum)
		})
	}
}

// checkProgress compares nat-go's progress files with NAT's metrics, except for the times.
func checkProgress(t *testing.T, sum *Summary) {
	t.Helper()
	var want struct {
		Builder []any `json:"builder"`
		History []any `json:"collection_history"`
	}
	if err := json.Unmarshal(pythonJSON(readFile(t, "expected/metrics.json")), &want); err != nil {
		t.Fatal(err)
	}
	var got []map[string]any
	if b := readFile(t, filepath.Join(sum.RunDir, "collection_history.json")); b != nil {
		if err := json.Unmarshal(pythonJSON(b), &got); err != nil {
			t.Fatal(err)
		}
	}
	var history []any
	for _, g := range got {
		delete(g, "timestamp")
		history = append(history, g)
	}
	if d := cmp.Diff(want.History, history); d != "" {
		t.Errorf("collection_history (-NAT +ours):\n%s", d)
	}
	var lines []any
	for k := range want.Builder {
		var l map[string]any
		if err := json.Unmarshal(readFile(t,
			filepath.Join(sum.RunDir, fmt.Sprintf("dpo_trajectory_builder_oracle_run%d.jsonl", k))), &l); err != nil {
			t.Fatal(err)
		}
		if c, ok := l["config"].(map[string]any); !ok || len(c) != 4 || c["ttc_step_name"] == nil {
			t.Errorf("the builder's line has the config %v", l["config"])
		}
		delete(l, "timestamp")
		delete(l, "config") // the recording has only the metrics
		lines = append(lines, l)
	}
	if d := cmp.Diff(want.Builder, lines); d != "" {
		t.Errorf("builder metrics (-NAT +ours):\n%s", d)
	}
}

// readFile returns a file's content, or nil if the file doesn't exist.
func readFile(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return b
}

// pythonJSON quotes the bare words that Python writes for numbers that JSON can't represent.
func pythonJSON(b []byte) []byte {
	var out []byte
	for i, inText := 0, false; i < len(b); i++ {
		switch {
		case inText && b[i] == '\\':
			out = append(out, b[i])
			i++
		case b[i] == '"':
			inText = !inText
		case !inText:
			for _, word := range []string{"-Infinity", "Infinity", "NaN"} {
				if bytes.HasPrefix(b[i:], []byte(word)) {
					out = append(out, `"`+word...)
					i += len(word)
					out = append(out, '"')
					break
				}
			}
		}
		if i < len(b) {
			out = append(out, b[i])
		}
	}
	return out
}

func sameJSON(t *testing.T, a, b []byte) bool {
	t.Helper()
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	var x, y any
	for _, p := range []struct {
		text []byte
		into *any
	}{{a, &x}, {b, &y}} {
		dec := json.NewDecoder(bytes.NewReader(pythonJSON(p.text)))
		dec.UseNumber()
		if err := dec.Decode(p.into); err != nil {
			t.Fatalf("%v in %s", err, p.text)
		}
	}
	if d := cmp.Diff(x, y, cmp.Comparer(sameNumber)); d != "" {
		t.Logf("(-NAT +ours)\n%s", d)
		return false
	}
	return true
}

func sameNumber(a, b json.Number) bool {
	x, xerr := a.Float64()
	y, yerr := b.Float64()
	return a == b || xerr == nil && yerr == nil && x == y
}
