package dataset

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	textrows "github.com/nat-go/nat-go/collator/rows"
	"github.com/nat-go/nat-go/internal/pythontest"
)

// verlPython returns a Python with verl: the one in NATGO_VERL_PYTHON, one made earlier in the user's cache or, if
// NATGO_REQUIRE names verl, one made now.
func verlPython(t *testing.T) string {
	t.Helper()
	pythontest.Long(t, "no row is loaded by verl")
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	env := filepath.Join(cache, "nat-go", "verl-env")
	ours := filepath.Join(env, "bin", "python")
	has := func(p string) bool { return p != "" && exec.Command(p, "-c", "import torch, verl").Run() == nil }
	for _, p := range []string{os.Getenv("NATGO_VERL_PYTHON"), ours} {
		if has(p) {
			return p
		}
	}
	if !slices.Contains(strings.Split(os.Getenv("NATGO_REQUIRE"), ","), "verl") {
		t.Skip("SKIPPED: no Python with verl; NATGO_REQUIRE=verl sets one up (some GB), NATGO_VERL_PYTHON names one")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	for _, argv := range [][]string{
		{"python3", "-m", "venv", "--clear", env},
		{ours, "-m", "pip", "install", "-q", "torch", "verl==0.9.1"},
	} {
		if out, err := exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", strings.Join(argv, " "), err, out)
		}
	}
	if !has(ours) {
		t.Fatal("verl is installed and can't be imported")
	}
	return ours
}

// load has a consumer load a run's rows, and returns what it reports about them.
func load(t *testing.T, python, name, run string, into any) {
	t.Helper()
	cmd := exec.Command(python, "testdata/consumers.py", name, filepath.Join(run, "dataset"))
	cmd.Env = append(os.Environ(), "PYTHONPATH=../../../../plugins/python", "PYTHONDONTWRITEBYTECODE=1",
		"OMP_NUM_THREADS=1", "RAY_USAGE_STATS_ENABLED=0")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if err == nil {
		err = json.Unmarshal([]byte(lines[len(lines)-1]), into)
	}
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, out, stderr.String())
	}
}

func formats(names ...string) (fs []Format) {
	for _, n := range names {
		f, _ := Lookup(n)
		fs = append(fs, f)
	}
	return fs
}

// TestTRLTakesOurRows checks that TRL's own trainers load the rows and train a step on them.
func TestTRLTakesOurRows(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: trainers are slow to start")
	}
	python := pythontest.TRL(t)
	run, _, _ := allKinds(t, formats("trl", "kto")...)
	var got map[string]struct {
		Rows       int
		Loss       float64
		Labels     []bool
		Completion string
	}
	load(t, python, "trl", run, &got)
	if d, s, k := got["dpo"], got["sft"], got["kto"]; d.Rows != 8 || s.Rows != 8 || k.Rows != 16 ||
		math.Abs(d.Loss-math.Ln2) > 1e-4 || s.Loss <= 0 || k.Loss <= 0 ||
		!slices.Equal(k.Labels, []bool{false, true}) || !strings.HasPrefix(k.Completion, "good<|im_end|>") {
		t.Errorf("%+v", got)
	}
}

// TestVerlTakesOurRows checks that verl's own data sets load the Parquet files and that what MultiTurnSFTDataset trains
// is the assistant's text.
func TestVerlTakesOurRows(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: trainers are slow to start")
	}
	python := verlPython(t)
	run, _, _ := allKinds(t, formats("verl")...)
	var got struct {
		RL struct {
			Rows   int
			Prompt []map[string]any
			Index  int
			Truth  map[string]string
			Source string
		}
		SFT struct {
			Rows    int
			Trained string
		}
	}
	load(t, python, "verl", run, &got)
	prompt := []map[string]any{{"content": "question 0.0", "role": "user"}}
	if !cmp.Equal(got.RL.Prompt, prompt) || got.RL.Rows != 16 ||
		got.RL.Truth["style"] != "model" || got.RL.Source != "mine" {
		t.Errorf("%+v", got.RL)
	}
	if got.SFT.Rows != 8 || strings.TrimSpace(got.SFT.Trained) != "so<|im_end|>" {
		t.Errorf("%+v", got.SFT)
	}
}

// TestVerlTakesTools checks that natgo.verl reads rows with tools and calls into verl 0.9.1 as they were, without the
// keys that other rows have, and that verl trains the calls and answers.
func TestVerlTakesTools(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: trainers are slow to start")
	}
	python := verlPython(t)
	const rows = `{"messages": [{"role": "user", "content": "Weather?"}, {"role": "assistant", "content": null, "tool_calls": [{"id": "1", "type": "function", "function": {"name": "look", "arguments": {"city": "Oslo"}}}]}, {"role": "tool", "content": "rain", "tool_call_id": "1"}, {"role": "assistant", "content": "Rain."}], "tools": [{"name": "look", "city": "string"}]}
{"messages": [{"role": "user", "content": "2+2?"}, {"role": "assistant", "content": "", "tool_calls": [{"id": "2", "type": "function", "function": {"name": "add", "arguments": {"a": 2, "b": 2}}}]}, {"role": "tool", "content": "4", "tool_call_id": "2"}, {"role": "assistant", "content": "4."}], "tools": [{"name": "add", "a": "integer"}]}
`
	dir := t.TempDir()
	file := filepath.Join(dir, "train.jsonl")
	if err := os.WriteFile(file, []byte(rows), 0o600); err != nil {
		t.Fatal(err)
	}
	place, err := Find(file, DefaultLimits)
	if err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(dir, "dataset")
	if _, err := ConvertRows(t.Context(), place.Texts()[0], formats("verl"), textrows.Options{}, to); err != nil {
		t.Fatal(err)
	}
	type row struct{ Text, Trained string }
	var got []row
	load(t, python, "verl_tools", dir, &got)
	turn := func(role, text string) string { return "<|im_start|>" + role + "\n" + text + "<|im_end|>\n" }
	want := []row{{
		turn("system", `{"name": "look", "city": "string"}`) + turn("user", "Weather?") +
			turn("assistant", `<tool_call>look {"city": "Oslo"}`) + turn("tool", "rain") + turn("assistant", "Rain."),
		"<tool_call>look {\"city\": \"Oslo\"}<|im_end|>\nRain.<|im_end|>\n",
	}, {
		turn("system", `{"name": "add", "a": "integer"}`) + turn("user", "2+2?") +
			turn("assistant", `<tool_call>add {"a": 2, "b": 2}`) + turn("tool", "4") + turn("assistant", "4."),
		"<tool_call>add {\"a\": 2, \"b\": 2}<|im_end|>\n4.<|im_end|>\n",
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// stated returns the folder of a run with a state that ends in a tool's result.
func stated(t *testing.T, format string) string {
	t.Helper()
	ex := conversation(false)
	place, _ := writeConversation(t, formats(format)[0], ex, recordsOf(ex)[4])
	return string(place.Run)
}

// TestVerlTakesStates checks that verl's own RLHFDataset loads states with calls as they were, and filters none.
func TestVerlTakesStates(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: trainers are slow to start")
	}
	var got struct {
		Text, State string
		Prompt      []struct {
			ToolCallID string `json:"tool_call_id"`
		}
	}
	load(t, verlPython(t), "verl_states", stated(t, "verl"), &got)
	turn := func(role, text string) string { return "<|im_start|>" + role + "\n" + text + "<|im_end|>\n" }
	want := turn("system", "be brief") + turn("user", "when is high tide?") +
		turn("assistant", `<tool_call>tide {"port": "\u00c5bo"}`) + turn("tool", "at noon") + "<|im_start|>assistant\n"
	if got.Text != want && got.Text != strings.ReplaceAll(want, `\u00c5`, "Å") {
		t.Errorf("got %q, want %q", got.Text, want)
	}
	if got.State != "{}" || len(got.Prompt) != 4 || got.Prompt[3].ToolCallID != "1" {
		t.Errorf("%+v", got)
	}
}

// TestNeMoGymTakesStates checks that NeMo Gym's own model of a request accepts our rows, item by item.
func TestNeMoGymTakesStates(t *testing.T) {
	python := os.Getenv("NATGO_NEMO_GYM_PYTHON")
	if python == "" {
		t.Skip("SKIPPED: NATGO_NEMO_GYM_PYTHON names no Python with nemo-gym, so its model of a request was not asked")
	}
	var got struct{ Types, Tools []string }
	load(t, python, "nemo_gym", stated(t, "nemo_gym"), &got)
	if !slices.Equal(got.Tools, []string{"tide"}) ||
		!slices.Equal(got.Types, []string{"message", "message", "function_call", "function_call_output"}) {
		t.Errorf("%+v", got)
	}
}
