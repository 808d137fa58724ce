package collator

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/nat-go/nat-go/collator/tokenizer"
	"github.com/nat-go/nat-go/internal/durable"
	"github.com/nat-go/nat-go/ttc/pyvalue"
)

// DefaultTemplateTime is the default result of strftime_now. Rows must not depend on the machine's clock.
const DefaultTemplateTime = "2026-01-02T03:04:05"

// ParseTemplateTime parses a time in the layout of DefaultTemplateTime or of RFC 3339, or a date.
func ParseTemplateTime(s string) (time.Time, error) {
	for _, layout := range []string{"2006-01-02T15:04:05", time.RFC3339, "2006-01-02"} {
		if t, err := time.Parse(layout, s); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("invalid time %q: expected a time like %s", s, DefaultTemplateTime)
}

// TemplateText returns the source of a chat template: the content of the file called name or, if there is no such file,
// the tokenizer's template of that name. If name is empty, it returns the tokenizer's default template, or
// PlainTemplate if the tokenizer lacks templates.
func TemplateText(c *tokenizer.Config, name string) (string, error) {
	if name != "" {
		info, err := os.Stat(name)
		switch {
		case err == nil && info.Size() > tokenizer.MaxTemplateBytes:
			return "",
				fmt.Errorf("template too large: %s has %d bytes; the limit is "+
					"%d", name, info.Size(), tokenizer.MaxTemplateBytes)
		case err == nil && !info.IsDir():
			text, err := durable.ReadInput(name, tokenizer.MaxTemplateBytes)
			return string(text), err
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return "", err
		}
	}
	if t, ok := c.Template(name); ok {
		return t.Text, nil
	}
	if name == "" && len(c.Templates) == 0 {
		return PlainTemplate, nil
	}
	if name == "" {
		return "", errors.New("cannot choose a chat template: the tokenizer has no default, so name one")
	}
	return "", fmt.Errorf("unknown template %q: neither a file nor a template of the tokenizer", name)
}

// PlainTemplate replaces the chat template of a tokenizer that lacks one. Callers report its use with PlainAdvice,
// because a model trained with its own template would learn a different format.
const PlainTemplate = `{%- for m in messages -%}
{%- if not loop.first %}{{ '\n' }}{% endif -%}
{{- m.content or '' -}}
{%- for c in m.tool_calls or [] -%}
{%- if m.content or not loop.first %}{{ '\n' }}{% endif -%}
{{- {'name': c.function.name, 'arguments': c.function.arguments} | tojson -}}
{%- endfor -%}
{%- if m.role == 'assistant' and eos_token %}{{ eos_token }}{% endif -%}
{%- endfor -%}
{%- if add_generation_prompt %}{{ '\n' }}{% endif -%}`

// PlainAdvice describes the effect of PlainTemplate.
const PlainAdvice = "message contents are joined with newlines, calls are written as JSON, and the tokenizer's end of text ends each model turn"

// TemplateVars returns the variables that a template is rendered with: the tokenizer's special tokens, named as in
// transformers, and then the variables in extra.
func TemplateVars(c *tokenizer.Config, extra *pyvalue.Dict) *pyvalue.Dict {
	vars := &pyvalue.Dict{}
	for _, s := range c.Special {
		vars.SetStr(s.Name, pyvalue.Str(s.Text))
	}
	if extra != nil {
		for i := range extra.Len() {
			k, v := extra.At(i)
			_ = vars.Set(k, v)
		}
	}
	return vars
}
