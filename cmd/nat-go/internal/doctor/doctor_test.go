//go:build tokenizers

package doctor

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nat-go/nat-go/collator"
	"github.com/nat-go/nat-go/collator/tokenizer"
	"github.com/nat-go/nat-go/internal/pythontest"
)

const (
	toolRow = `{"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": {"name": "f", "arguments": {"a": 1}}}]}, ` +
		`{"role": "tool", "content": "42!"}, {"role": "assistant", "content": "It is 42."}]}`
	lastRow = `{"prompt": [{"role": "user", "content": "hi"}], "completion": [{"role": "assistant", "content": "ho"}]}`
	pairRow = `{"prompt": [{"role": "user", "content": "hi"}], "chosen": [{"role": "assistant", "content": "yes"}], "rejected": [{"role": "assistant", "content": "nope"}]}`
)

func modelConfig(t *testing.T, dir string) collator.Config {
	t.Helper()
	tok, err := tokenizer.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tok.Close)
	cfg := collator.Config{Tokenizer: tok, MaxLength: 1 << 20}
	if cfg.Template, err = collator.TemplateText(tok.Config, ""); err != nil {
		t.Fatal(err)
	}
	return cfg
}

// TestMaxLength checks that a run's rows are cut as its configuration says, unless the user says otherwise.
func TestMaxLength(t *testing.T) {
	model, err := filepath.Abs("testdata/model")
	if err != nil {
		t.Fatal(err)
	}
	run := t.TempDir()
	text := fmt.Sprintf("collator: {tokenizer: %s, max_length: 90, max_dpo_length: 80}\n", model)
	if err := os.WriteFile(filepath.Join(run, "config.yml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		settings map[string]any
		want     [2]int
	}{
		{nil, [2]int{90, 80}},
		{map[string]any{"packing": true}, [2]int{90, 80}},
		{map[string]any{"max_length": 70.0}, [2]int{70, 0}},
		{map[string]any{"max_length": nil}, [2]int{noLimit, 0}},
	} {
		cfg, err := (&Request{Paths: []string{run}, Load: tokenizer.Load}).collator(c.settings)
		if err != nil {
			t.Fatal(err)
		}
		cfg.Tokenizer.Close()
		if got := [2]int{cfg.MaxLength, cfg.MaxPairLength}; got != c.want {
			t.Errorf("%v: got %v, want %v", c.settings, got, c.want)
		}
	}
}

// TestCompareWithFake compares with a trainer that answers with our own ids and trains all of them.
func TestCompareWithFake(t *testing.T) {
	cfg := modelConfig(t, "testdata/model")
	known := input(t, toolRow)
	if err := makeRows(t.Context(), cfg, known, t.TempDir()); err != nil {
		t.Fatal(err)
	}
	ones := make([]int, len(known.rows[0].ours[0].IDs))
	for i := range ones {
		ones[i] = 1
	}
	answer, err := json.Marshal(map[string]any{
		"kind":  "row",
		"row":   0,
		"sides": map[string]any{"row": map[string]any{"ids": known.rows[0].ours[0].IDs, "trained": ones}},
	})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "answers")
	if err := os.WriteFile(file, append(answer, '\n'), 0o600); err != nil {
		t.Fatal(err)
	}
	c, _, err := compare(t.Context(), fake(t, versions+"cat "+file+"; "+done), cfg, input(t, toolRow, lastRow), 1)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{
		"trainer_trains template text", "trainer_trains user messages 2", "trainer_trains tool results 3",
	}, kinds(c)); diff != "" || c.Same != 0 || len(c.LeftOut) != 1 {
		t.Errorf("%s: %+v", diff, c)
	}
	if len(c.Row) != 1 || len(c.Row[0].Tokens) != len(ones) || c.Row[0].Tokens[0].Text != "<|im_start|>" {
		t.Errorf("%+v", c.Row)
	}
	for detail, want := range map[int]string{1: "<nil>", 2: "rows.jsonl has 1 row"} {
		_, _, err := compare(t.Context(), fake(t, versions+"cat "+file+"; "+done), cfg, input(t, toolRow), detail)
		if got := fmt.Sprint(err); !strings.HasSuffix(got, want) {
			t.Errorf("row %d of 1: %s", detail, got)
		}
	}
}

// kinds returns the differences in short form; how much template text there is doesn't matter.
func kinds(c *Compared) (out []string) {
	for _, d := range c.Differences {
		s := d.Kind + " " + d.Class
		if d.Class != classTemplate {
			s += fmt.Sprintf(" %d", d.Tokens)
		}
		out = append(out, s)
	}
	return out
}

// TestTRL asks the real one.
func TestTRL(t *testing.T) {
	py := pythontest.TRL(t)
	if testing.Short() {
		t.Skip("-short")
	}
	model, err := filepath.Abs("testdata/model")
	if err != nil {
		t.Fatal(err)
	}
	cfg := modelConfig(t, model)
	for _, c := range []struct {
		name     string
		rows     []string
		settings map[string]any
		want     []string
		same     int
		failure  string
	}{
		{
			"all turns",
			[]string{toolRow},
			nil,
			[]string{"trainer_trains template text", "trainer_trains user messages 2", "trainer_trains tool results 3"},
			0,
			"",
		},
		// The newline after the end of the turn.
		{"completion", []string{lastRow}, nil, []string{"trainer_trains template text"}, 0, ""},
		{"pairs", []string{pairRow}, nil, []string{"trainer_trains template text"}, 0, ""},
		{"token rows", []string{tokenRow}, nil, nil, 1, ""},
		{"cut", []string{`{"input_ids": [5, 6, 7, 8], "labels": [-100, 6, -100, 8]}`}, map[string]any{"max_length": 3}, []string{"only_in_ours assistant turns 1"}, 0, ""},
		{
			"no such setting",
			[]string{lastRow},
			map[string]any{"max_len": 7},
			nil,
			0,
			"unexpected keyword argument 'max_len'",
		},
		{"no markers", []string{toolRow}, map[string]any{"assistant_only_loss": true}, nil, 0, "TRL 1."},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.settings == nil {
				c.settings = map[string]any{}
			}
			tr := &Trainer{Python: py, Timeout: 5 * time.Minute, Tokenizer: model, Settings: c.settings}
			got, _, err := compare(t.Context(), tr, cfg, input(t, c.rows...), 0)
			if c.failure != "" {
				if err == nil || !strings.Contains(err.Error(), c.failure) {
					t.Errorf("got %v, want %q", err, c.failure)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, kinds(got)); diff != "" || got.Same != c.same ||
				(c.name == "cut") != (len(got.Cut) == 1) {
				t.Errorf("%s %+v", diff, got)
			}
		})
	}
}

// TestServe checks that each way in which a serving folder can differ is found, and nothing in a copy.
func TestServe(t *testing.T) {
	cfg := modelConfig(t, "testdata/model")
	for _, c := range []struct {
		name, file, from, to string
		about                []string
	}{
		{"a copy", "config.json", "", "", nil},
		{
			"another text of the same template",
			"chat_template.jinja",
			"{%- if tools %}",
			"{# hello #}{%- if tools %}",
			nil,
		},
		{"template", "chat_template.jinja", "{{ message.role }}", "{{ message.role | upper }}", []string{"template"}},
		{"broken template", "chat_template.jinja", "{%- endfor %}", "{%- end %}", []string{"template"}},
		{"id", "tokenizer.json", `"a": 64`, `"a": 65`, []string{"vocabulary", "tokenizer"}},
		{"name", "tokenizer.json", `<|pad|>`, `<|fill|>`, []string{"vocabulary", "vocabulary"}},
		{"normalizer", "tokenizer.json", `"normalizer": null`, `"normalizer": {"type": "NFC"}`, []string{"tokenizer"}},
		{"end of text", "tokenizer_config.json", `"eos_token": "<|im_end|>"`, `"eos_token": "<|pad|>"`, []string{"special_tokens"}},
		{"small model", "config.json", `"vocab_size": 259`, `"vocab_size": 200`, []string{"model"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := serve(t, cfg, func(dir string) { edit(t, filepath.Join(dir, c.file), c.from, c.to) })
			if diff := cmp.Diff(c.about, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	got := serve(t, cfg, func(dir string) {
		edit(t, filepath.Join(dir, "tokenizer_config.json"), `"eos_token": "<|im_end|>"`, `"eos_token": "<|pad|>"`)
		edit(t, filepath.Join(dir, "generation_config.json"), `"eos_token_id": 257`, `"eos_token_id": [258]`)
	})
	if diff := cmp.Diff([]string{"special_tokens", "stop"}, got); diff != "" {
		t.Error(diff)
	}
}

func serve(t *testing.T, cfg collator.Config, change func(dir string)) (about []string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "served")
	if err := os.CopyFS(dir, os.DirFS("testdata/model")); err != nil {
		t.Fatal(err)
	}
	change(dir)
	s, err := compareServing(cfg, "testdata/model", dir, []*Input{input(t, toolRow, lastRow)})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range s.Findings {
		t.Log(f)
		about = append(about, f.About)
	}
	return about
}

func edit(t *testing.T, path, from, to string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(b), from) {
		t.Fatalf("%s lacks %q", path, from)
	}
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(string(b), from, to)), 0o644); err != nil {
		t.Fatal(err)
	}
}
