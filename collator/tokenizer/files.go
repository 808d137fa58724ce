package tokenizer

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/nat-go/nat-go/internal/lists"
	wire "github.com/nat-go/nat-go/ttc/json"
)

// Limits on the files of a tokenizer folder.
const (
	MaxTokenizerBytes = 128 << 20 // tokenizer.json; the largest in use are about 35 MB
	MaxConfigBytes    = 16 << 20  // tokenizer_config.json, special_tokens_map.json
	MaxTemplateBytes  = 1 << 20   // one chat template
	MaxTemplates      = 64        // named chat templates
)

// Config is the configuration in a tokenizer folder apart from tokenizer.json.
type Config struct {
	// Special holds the named special tokens in the order Hugging Face lists them (bos_token, eos_token, unk_token,
	// sep_token, pad_token, cls_token, mask_token); a chat template can access each one by its name.
	Special []NamedToken
	// AdditionalSpecial is additional_special_tokens (extra_special_tokens in newer files).
	AdditionalSpecial []string
	// Templates are the chat templates, "default" first, then by name.
	Templates []Template

	added []addedToken // added_tokens_decoder, by index
}

// NamedToken is a special token with a role, like {"eos_token", "<|im_end|>"}.
type NamedToken struct{ Name, Text string }

// Template is a chat template and where it was found.
type Template struct {
	Name   string // "default" or the model's own name for it, like "tool_use"
	Text   string
	Source string // file name within the folder
}

// Token returns the text of a named special token ("eos_token"), if there is one.
func (c *Config) Token(name string) (string, bool) {
	t, ok := lists.Find(c.Special, func(t NamedToken) bool { return t.Name == name })
	return t.Text, ok
}

// Template returns the chat template with that name; "" means the default one.
func (c *Config) Template(name string) (Template, bool) {
	name = cmp.Or(name, "default")
	return lists.Find(c.Templates, func(t Template) bool { return t.Name == name })
}

// specialNames are in the same order as in transformers' SpecialTokensMixin.
var specialNames = []string{"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"}

// ReadConfig reads the files next to tokenizer.json in a Hugging Face folder: tokenizer_config.json,
// special_tokens_map.json in folders old enough that the former lists no added tokens, chat_template.jinja (which takes
// precedence over a template in the config, as in transformers), chat_template.json and
// additional_chat_templates/*.jinja. If a folder lacks all of them, it returns an empty Config. ReadConfig works
// without the library.
func ReadConfig(dir string) (*Config, error) {
	c := &Config{}
	raw, err := readObject(dir, "tokenizer_config.json")
	older, err2 := readObject(dir, "special_tokens_map.json")
	if err := cmp.Or(err, err2); err != nil {
		return nil, err
	}
	if raw["added_tokens_decoder"] == nil { // a folder from before transformers 4.34: the older file takes precedence
		if raw == nil {
			raw = map[string]wire.Raw{}
		}
		maps.Copy(raw, older)
	}
	for _, name := range specialNames {
		if text, ok := tokenText(raw[name]); ok {
			c.Special = append(c.Special, NamedToken{name, text})
		}
	}
	for _, key := range []string{"additional_special_tokens", "extra_special_tokens"} {
		for item := range raw[key].Elements() {
			if text, ok := tokenText(item); ok {
				c.AdditionalSpecial = append(c.AdditionalSpecial, text)
			}
		}
	}
	if c.Templates, err = readTemplates(dir, raw["chat_template"]); err != nil {
		return nil, err
	}
	c.added, err = c.addedTokens(raw["added_tokens_decoder"])
	return c, err
}

// addedTokens lists the tokens that transformers adds to the tokenizer when it opens a folder: every entry of
// added_tokens_decoder, by index. An entry's flags take precedence over those in tokenizer.json, but a token that the
// configuration names as special is always special. See transformers' PreTrainedTokenizerFast.__init__.
func (c *Config) addedTokens(decoder wire.Raw) ([]addedToken, error) {
	if present(decoder) && decoder.Kind() != wire.Object {
		return nil, refuse(CodeBadTokenizer, "tokenizer_config.json: added_tokens_decoder is not an object")
	}
	tokens := map[int]addedToken{}
	for key, value := range decoder.Members() {
		name, _ := key.Text()
		index, err := strconv.Atoi(name)
		if err != nil || index < 0 {
			return nil, refuse(CodeBadTokenizer, "tokenizer_config.json: added_tokens_decoder has the key %q, which is not an id", name)
		}
		if tokens[index], err = readToken(value); err != nil {
			return nil, refuse(CodeBadTokenizer, "tokenizer_config.json: added_tokens_decoder: %v", err)
		}
	}
	named := c.specialTexts()
	var list []addedToken
	for _, index := range slices.Sorted(maps.Keys(tokens)) {
		token := tokens[index]
		token.Special = token.Special || slices.Contains(named, token.Content)
		list = append(list, token)
	}
	return list, nil
}

// specialTexts returns the texts of the tokens that the configuration names as special.
func (c *Config) specialTexts() []string {
	return append(lists.Map(c.Special, func(t NamedToken) string { return t.Text }), c.AdditionalSpecial...)
}

// tokenText reads a token given as "text" or as {"content": "text", ...}.
func tokenText(raw wire.Raw) (string, bool) {
	if content, ok := raw.Get("content"); ok {
		raw = content
	}
	return raw.Text()
}

func readTemplates(dir string, inConfig wire.Raw) ([]Template, error) {
	found := templates{dir: dir, byName: map[string]Template{}}
	legacy, err := readObject(dir, "chat_template.json")
	err = cmp.Or(err, found.fromConfig(inConfig, "tokenizer_config.json"),
		found.fromConfig(legacy["chat_template"], "chat_template.json"), found.fromFiles())
	if err != nil {
		return nil, err
	}
	return found.sorted(), nil
}

// defaultTemplate is the name of the template that is used when none is named.
const defaultTemplate = "default"

// templates holds the templates found in a folder. If two have the same name, the one found later wins.
type templates struct {
	dir    string
	byName map[string]Template
}

func (t *templates) add(name, text, source string) error {
	if len(text) > MaxTemplateBytes {
		return refuse(CodeBadTokenizer, "%s: chat template %q has %d bytes; the limit is %d",
			filepath.Join(t.dir, source), name, len(text), MaxTemplateBytes)
	}
	if len(t.byName) >= MaxTemplates {
		return refuse(CodeBadTokenizer, "%s: more than %d chat templates", t.dir, MaxTemplates)
	}
	t.byName[name] = Template{name, text, source}
	return nil
}

// fromConfig adds the templates in a configuration: a single one, or a list of named ones.
func (t *templates) fromConfig(raw wire.Raw, source string) error {
	if single, _ := raw.Text(); single != "" {
		return t.add(defaultTemplate, single, source)
	}
	for named := range raw.Elements() {
		if _, ok := named.Get("template"); ok {
			if err := t.add(text(named, "name"), text(named, "template"), source); err != nil {
				return err
			}
		}
	}
	return nil
}

// fromFiles adds chat_template.jinja and the files in additional_chat_templates.
func (t *templates) fromFiles() error {
	files := []string{"chat_template.jinja"}
	more, err := os.ReadDir(filepath.Join(t.dir, "additional_chat_templates"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("reading chat templates: %w", err)
	}
	for _, entry := range more {
		if strings.HasSuffix(entry.Name(), ".jinja") {
			files = append(files, filepath.Join("additional_chat_templates", entry.Name()))
		}
	}
	for i, file := range files {
		text, err := readLimited(filepath.Join(t.dir, file), MaxTemplateBytes)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return err
		}
		name := strings.TrimSuffix(filepath.Base(file), ".jinja")
		if i == 0 {
			name = defaultTemplate
		}
		if err := t.add(name, string(text), filepath.ToSlash(file)); err != nil {
			return err
		}
	}
	return nil
}

// sorted lists the templates by name, the default first.
func (t *templates) sorted() []Template {
	return slices.SortedFunc(maps.Values(t.byName), func(a, b Template) int {
		if (a.Name == defaultTemplate) != (b.Name == defaultTemplate) {
			if a.Name == defaultTemplate {
				return -1
			}
			return 1
		}
		return strings.Compare(a.Name, b.Name)
	})
}

// readObject reads a JSON object, or returns nil if the file doesn't exist.
func readObject(dir, name string) (map[string]wire.Raw, error) {
	path := filepath.Join(dir, name)
	data, err := readLimited(path, MaxConfigBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	raw, err := wire.Parse(data, wire.Limits{})
	if err == nil && raw.Kind() != wire.Object {
		err = fmt.Errorf("got %v", raw.Kind())
	}
	if err != nil {
		return nil, refuse(CodeBadTokenizer, "%s is not a JSON object: %v", path, err)
	}
	return members(raw), nil
}

// readLimited reads a regular file (or a pipe) of at most limit bytes.
func readLimited(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	if int64(len(data)) > limit {
		return nil, refuse(CodeBadTokenizer, "%s is larger than %d bytes", path, limit)
	}
	return data, nil
}

// FileNames returns the names of the files in a tokenizer's folder that Load reads. Load also reads
// additional_chat_templates/*.jinja.
func FileNames() []string {
	return []string{
		"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "chat_template.json",
		"chat_template.jinja",
	}
}

// locate finds the tokenizer.json that a path refers to: one in the folder, or the file itself. The configuration next
// to a file is used only if the file is called tokenizer.json, since the folder of a file with another name may be
// unrelated.
func locate(path string) (file, dir string, err error) {
	info, err := os.Stat(path)
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		err = e.Err
	}
	if err != nil {
		return "", "", refuse(CodeMissingFile, "no tokenizer at %s: %v", path, err)
	}
	if !info.IsDir() {
		if filepath.Base(path) == "tokenizer.json" {
			return path, filepath.Dir(path), nil
		}
		return path, "", nil
	}
	file = filepath.Join(path, "tokenizer.json")
	if _, err := os.Stat(file); err != nil {
		hint := ""
		for _, other := range []string{"tokenizer.model", "spiece.model", "vocab.json", "vocab.txt", "tiktoken.model"} {
			if _, err := os.Stat(filepath.Join(path, other)); err == nil {
				hint = fmt.Sprintf("; it has %s, in another format: save the tokenizer with transformers "+
					"(use_fast=True) to create tokenizer.json", other)
				break
			}
		}
		return "", "", refuse(CodeMissingFile, "folder %s has no tokenizer.json%s", path, hint)
	}
	return file, path, nil
}
