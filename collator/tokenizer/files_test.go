package tokenizer

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// folder writes files into a new folder.
func folder(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestReadConfig(t *testing.T) {
	c, err := ReadConfig(folder(t, map[string]string{
		"tokenizer_config.json": `{"bos_token": null, "eos_token": {"content": "</s>", "lstrip": false}, "pad_token": "<pad>",
			"additional_special_tokens": ["<x>", {"content": "<y>"}], "chat_template": [{"name": "default", "template": "old"}, {"name": "tool_use", "template": "tools"}]}`,
		"special_tokens_map.json":                 `{"bos_token": "<s>", "unk_token": {"content": "<unk>"}}`,
		"chat_template.jinja":                     "new",
		"additional_chat_templates/rag.jinja":     "rag",
		"additional_chat_templates/README.md":     "no template",
		"additional_chat_templates/default.jinja": "newest",
	}))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"bos_token": "<s>",
		"eos_token": "</s>",
		"unk_token": "<unk>",
		"pad_token": "<pad>",
		"cls_token": "",
	} {
		t.Run(name, func(t *testing.T) {
			if got, ok := c.Token(name); got != want || ok != (want != "") {
				t.Errorf("%s is %q", name, got)
			}
		})
	}
	if strings.Join(c.AdditionalSpecial, " ") != "<x> <y>" {
		t.Errorf("got %+v", c)
	}
	var names []string
	for _, tpl := range c.Templates {
		names = append(names, tpl.Name+"="+tpl.Text)
	}
	if got := strings.Join(names, " "); got != "default=newest rag=rag tool_use=tools" {
		t.Errorf("templates %s", got)
	}
	if tpl, ok := c.Template(""); !ok || tpl.Source != "additional_chat_templates/default.jinja" {
		t.Errorf("got %+v", tpl)
	}
	// A folder that lists its added tokens doesn't need the older file.
	c, err = ReadConfig(folder(t, map[string]string{"tokenizer_config.json": `{"eos_token": "a", "added_tokens_decoder": {}}`, "special_tokens_map.json": `{"eos_token": "b", "bos_token": "c"}`}))
	if err != nil || len(c.Special) != 1 || c.Special[0].Text != "a" {
		t.Errorf("%+v, %v", c, err)
	}
	if c, err := ReadConfig(t.TempDir()); err != nil || len(c.Templates) != 0 {
		t.Errorf("an empty folder: %+v, %v", c, err)
	}
	if c, err := ReadConfig(folder(t, map[string]string{"tokenizer_config.json": `{"chat_template": "x"}`})); err != nil || c.Templates[0].Text != "x" {
		t.Errorf("%+v, %v", c, err)
	}
	for name, files := range map[string]map[string]string{
		"no JSON":        {"tokenizer_config.json": "{"},
		"a list":         {"special_tokens_map.json": "[]"},
		"a long one":     {"chat_template.jinja": strings.Repeat("x", MaxTemplateBytes+1)},
		"a bad index":    {"tokenizer_config.json": `{"added_tokens_decoder": {"x": {}}}`},
		"a wrong type":   {"tokenizer_config.json": `{"added_tokens_decoder": {"1": {"content": 3}}}`},
		"a long in JSON": {"tokenizer_config.json": `{"chat_template": "` + strings.Repeat("x", MaxTemplateBytes+1) + `"}`},
	} {
		t.Run(name, func(t *testing.T) {
			var refused *Error
			if _, err := ReadConfig(folder(t, files)); !errors.As(err, &refused) || refused.Code != CodeBadTokenizer {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
}

// TestLoadErrors checks that each error says what is wrong and, if there is one, how to fix it.
func TestLoadErrors(t *testing.T) {
	if _, err := Load(filepath.Join(t.TempDir(), "nothing")); err == nil ||
		!strings.Contains(err.Error(), "no such file") {
		t.Errorf("got %v", err)
	}
	_, err := Load(folder(t, map[string]string{"tokenizer.model": "x"}))
	var refused *Error
	if !errors.As(err, &refused) || refused.Code != CodeMissingFile ||
		!strings.Contains(err.Error(), "tokenizer.model") {
		t.Errorf("got %v", err)
	}
	_, err = Load(folder(t, map[string]string{"tokenizer.json": "{}"}))
	switch {
	case !available && (!errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "make lib")):
		t.Errorf("got %v", err)
	case available && !errors.As(err, &refused):
		t.Errorf("got %v", err)
	}
}

func TestUnavailable(t *testing.T) {
	if available {
		t.Skip("this build has the library")
	}
	if _, err := New(synthetic(t, nil)); !errors.Is(err, ErrUnavailable) {
		t.Errorf("got %v", err)
	}
}
