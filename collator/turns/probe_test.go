package turns

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nat-go/nat-go/internal/oracletest"

	"github.com/nat-go/nat-go/ttc/pyvalue"
)

const chatml = `{%- for m in messages %}
{{- '<|start|>' + m.role + '\n' }}
{%- if m.content %}{{ m.content }}{% endif %}
{%- for c in m.tool_calls or [] %}{{ '<call>' + c.function.name + ' ' }}{{ c.function.arguments if c.function.arguments is string else c.function.arguments | tojson }}{% endfor %}
{{- '<|end|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|start|>assistant\n' }}{% endif %}`

func probeReport(t *testing.T, source string) *Report {
	t.Helper()
	vars := &pyvalue.Dict{}
	vars.SetStr("bos_token", pyvalue.Str("<s>"))
	vars.SetStr("eos_token", pyvalue.Str("</s>"))
	rep, err := Probe(source, Settings{Vars: vars})
	if err != nil {
		t.Fatal(err)
	}
	return rep
}

func TestPlainTemplate(t *testing.T) {
	rep := probeReport(t, chatml)
	if rep.GenerationPrompt != "<|start|>assistant\n" || !rep.PromptIsPrefix || rep.NoThink != nil ||
		rep.RewritesHistory || len(rep.Filler) > 0 {
		t.Errorf("%+v", rep)
	}
	for role, fate := range rep.Roles {
		if fate != Kept {
			t.Errorf("role %s: %s", role, fate)
		}
	}
	for kind, end := range rep.Terminators {
		if end != "<|end|>" {
			t.Errorf("%s ends in %q", kind, end)
		}
	}
	if rep.Calls != Kept || rep.ParallelCalls != Kept || rep.Arguments != "object" || rep.RawArguments != "raw" ||
		rep.ToolsShown || rep.Reasoning.Last {
		t.Errorf("%+v", rep)
	}
	for place, p := range rep.Hints {
		if p != (Place{Kept, true}) {
			t.Errorf("hint %s: %+v", place, p)
		}
	}
	if len(rep.Hints) != 5 || len(rep.Terminators) != 4 || len(rep.PrefixPreserving) != 4 {
		t.Errorf("%+v", rep)
	}
}

// TestEachDefectIsSeen checks that each change to the template shows up only in the finding that it concerns.
func TestEachDefectIsSeen(t *testing.T) {
	for name, c := range map[string]struct {
		old, new string
		seen     func(*Report) bool
	}{
		"trims": {
			"{{ m.content }}",
			"{{ m.content | trim }}",
			func(r *Report) bool { return r.Trims["user"] == Trim{true, true} },
		},
		"trims left": {
			"{{ m.content }}",
			"{{ m.content.lstrip() }}",
			func(r *Report) bool { return r.Trims["tool"] == Trim{true, false} },
		},
		"drops tools": {
			"{%- if m.content %}",
			"{%- if m.content and m.role != 'tool' %}",
			func(r *Report) bool { return r.Roles["tool"] == Dropped },
		},
		"drops calls": {"m.tool_calls or []", "[]", func(r *Report) bool { return r.Calls == Dropped }},
		"drops second": {
			"m.tool_calls or []",
			"(m.tool_calls or [])[:1]",
			func(r *Report) bool { return r.Calls == Kept && r.ParallelCalls == Dropped },
		},
		"hoists": {
			"{%- for m in messages %}", "{%- for m in messages|selectattr('role','equalto','system') %}{{ m.content }}{% endfor %}{% for m in messages if m.role != 'system' %}",
			func(r *Report) bool {
				return r.Roles["system_mid"] == Hoisted && r.Roles["system"] == Kept &&
					!r.Hints["system_after_result"].Splice
			},
		},
		"refuses": {
			"{%- for m in messages %}", "{%- for m in messages %}{% if m.role == 'system' and not loop.first %}{{ raise_exception('x') }}{% endif %}",
			func(r *Report) bool {
				return r.Roles["system_mid"] == Refused && r.Hints["system_before_call"].Fate == Refused
			},
		},
		"quotes":      {"c.function.arguments if c.function.arguments is string else ", "", func(r *Report) bool { return r.RawArguments == "quoted" }},
		"wants text":  {"{{ c.function.arguments if c.function.arguments is string else c.function.arguments | tojson }}", "{{ '' + c.function.arguments }}", func(r *Report) bool { return r.Arguments == "string" && r.Calls == Kept }},
		"shows tools": {"{%- for m in messages %}", "{% if tools %}{{ tools|tojson }}{% endif %}{%- for m in messages %}", func(r *Report) bool { return r.ToolsShown }},
		"not a prefix": {
			"{{ '<|start|>assistant\\n' }}",
			"{{ '<|start|>assistant\\n<think>' }}",
			func(r *Report) bool { return !r.PromptIsPrefix },
		},
		"thinking": {
			"{%- if m.content %}", "{%- if m.reasoning_content and loop.last %}{{ '<think>' + m.reasoning_content + '</think>' }}{% endif %}{%- if m.content %}",
			func(r *Report) bool {
				return r.Reasoning == Reasoning{Last: true} && !r.PrefixPreserving["reasoning"] &&
					r.PrefixPreserving["chat"] && r.RewritesHistory && r.Hints["user_after_result"].Splice
			},
		},
		"no think switch": {
			"{{ '<|start|>assistant\\n' }}", "{{ '<|start|>assistant\\n' }}{% if enable_thinking is false %}{{ '<think></think>' }}{% endif %}",
			func(r *Report) bool {
				return r.NoThink != nil && r.NoThink.Variable == "enable_thinking" &&
					strings.HasSuffix(r.NoThink.Prompt, "<think></think>")
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if !strings.Contains(chatml, c.old) {
				t.Fatalf("%s: %q is not in the template", name, c.old)
			}
			if rep := probeReport(t, strings.Replace(chatml, c.old, c.new, 1)); !c.seen(rep) {
				var b strings.Builder
				_ = rep.WriteText(&b)
				t.Errorf("%s was not found:\n%s", name, b.String())
			}
		})
	}
}

func TestTemplateThatDoesNotCompile(t *testing.T) {
	if _, err := Probe("{% if %}", Settings{}); err == nil || !strings.Contains(err.Error(), "line 1, column 7") {
		t.Error(err)
	}
}

func TestRefusingEverythingIsAReport(t *testing.T) {
	rep := probeReport(t, "{{ raise_exception('no') }}")
	if rep.Calls != Refused || rep.Roles["system"] != Refused || rep.Arguments != "refused" ||
		rep.GenerationPrompt != "" {
		t.Errorf("%+v", rep)
	}
}

// TestConformance compares the probe's findings with what is known about stock templates.
func TestConformance(t *testing.T) {
	dir := oracletest.Path(t, "chat", "render", "templates")
	probed := func(name string) *Report {
		src, err := os.ReadFile(filepath.Join(dir, name+".jinja"))
		if err != nil {
			t.Fatal(err)
		}
		return probeReport(t, string(src))
	}
	check := func(name string, ok bool) {
		if !ok {
			t.Error(name)
		}
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.jinja"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		probed(strings.TrimSuffix(filepath.Base(f), ".jinja")) // none fails
	}
	r := probed("qwen3")
	check("qwen3", r.Roles["system_mid"] == Kept && r.RewritesHistory && r.NoThink != nil && len(r.Filler) == 1 &&
		!r.Reasoning.History &&
		r.Hints["system_after_result"].Splice && !r.Hints["user_after_result"].Splice)
	r = probed("qwen3_5_think")
	check("qwen3.5", r.Roles["system_mid"] == Refused)
	r = probed("gemma3")
	check("gemma3", r.Roles["system_mid"] == Refused && r.Trims["user"] == Trim{true, true})
	r = probed("deepseekv3")
	check("deepseekv3", r.Roles["system_mid"] == Hoisted && r.Arguments == "string" && r.RawArguments == "raw")
	r = probed("llama3_1")
	check("llama3.1", r.Roles["system_mid"] == Kept && r.Trims["system"] == Trim{true, true} &&
		r.ParallelCalls == Refused)
	r = probed("qwen2_5")
	check("qwen2.5", !r.RewritesHistory && r.Terminators["call"] == "<|im_end|>" && r.Roles["system_mid"] == Kept)
	r = probed("phi3")
	check("phi3", r.Roles["tool"] == Dropped)
}

// TestSlowTemplate: a template that takes long is given up.
func TestSlowTemplate(t *testing.T) {
	p := &probing{until: time.Now().Add(-time.Second)}
	if _, _, err := p.render(false, ask); !errors.Is(err, errSlow) {
		t.Errorf("after its time it was rendered: %v", err)
	}
}
