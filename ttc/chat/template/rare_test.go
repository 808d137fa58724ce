package template

import "testing"

// TestRare checks parts of jinja2 that one or two published templates use. The answers are jinja2's.
func TestRare(t *testing.T) {
	for _, c := range []struct{ of, src, want string }{
		{"Kimi K2", "{{ d|tojson(separators=(',', ':')) }}", `{"a":[1,2],"b":{}}`},
		{"Kimi K2", "{{ d|tojson(false, none, [',', ':']) }}", `{"a":[1,2],"b":{}}`},
		{"Kimi K2", "{{ d|tojson(separators=('', '')) }}", `{"a"[12]"b"{}}`},
		{
			"Kimi K2", "{{ d|tojson(indent=1, separators=(';', '=')) }}",
			"{\n \"a\"=[\n  1;\n  2\n ];\n \"b\"={}\n}",
		},
		{"Kimi K2", "{{ d|tojson(separators=none) }}", `{"a": [1, 2], "b": {}}`},
		{"Kimi K2", "{{ 'x'|tojson(separators=(1, 2)) }}", `"x"`},
		{"OpenChat 3.5, Starling", "{{ \"it's a-b (ΑΣ) ßx ǆ 1st\".title() }}", "It'S A-B (Ας) Ssx ǅ 1St"},
		{"MiniCPM3, Jamba 1.5", "{{ \"it's a-b (ΑΣ) ßx ǆ 1st\"|title }}", "It's A-B (Ασ) SSx Ǆ 1st"},
		{"froggeric's for Qwen 3.5", "{{ 'é<a<'.find('<') }}{{ 'é<a<'.rfind('<') }}{{ 'é'.find('<') }}", "13-1"},
		{"MiniCPM5", "{{ [3, 1, 2]|min }}{{ ['b', 'A', 'a']|min }}{{ []|min }}", "1A"},
		{"functionary v3.2", "{{ ['b', 'A', 'a', 1, 'B', 1]|unique|list }}", "['b', 'A', 1]"},
		{"Hunyuan 3", "{{ '<a{}>{{}}{}'.format(d.a, none, 3) }}", "<a[1, 2]>{}None"},
		{"vLLM's for Llama 4", "{{ '%s' | format(d) }}{{ '%%%d-%s'|format(1, 'x') }}", "{'a': [1, 2], 'b': {}}%1-x"},
		{"Mixtral 8x22B", "{{ dict(b=1, a='x')|tojson }}{{ dict() }}", `{"b": 1, "a": "x"}{}`},
		{
			"Jamba 1.5", "{% macro m(a, b, c=3) %}{{ a }}{{ b }}{{ c }};{% endmacro %}{{ m(*[1, 2]) }}{{ m(0, *'x', c=4) }}",
			"123;0x4;",
		},
		{
			"MiniCPM3", "{% macro m(n) %}[{{ caller() * n }}]{% endmacro %}{% call m(2) %}{{ d.a }}{% endcall %}",
			"[[1, 2][1, 2]]",
		},
		{
			"MiniCPM3", "{% macro m() %}{{ caller(1, j=2) }}{% endmacro %}{% call(i, j) m() %}{{ i }}{{ j }}{% endcall %}",
			"12",
		},
		{"MiniCPM3", "{% macro m() %}{{ caller }}|{{ caller is defined }}{% endmacro %}{{ m() }}", "|False"},
		{
			"vLLM's for dse-qwen2", "a {% raw %}\n{{ x }} {% if %}\n  {% endraw %}\nb{%- raw -%}  c{# {%- endraw +%}\n",
			"a \n{{ x }} {% if %}\nbc{#",
		},
	} {
		t.Run(c.of+" "+c.src, func(t *testing.T) {
			tmpl, err := Compile("{% set d = {'a': [1, 2], 'b': {}} %}" + c.src)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := tmpl.Render(Input{}); err != nil || got.Text != c.want {
				t.Errorf("got %q (%v), want %q", got.Text, err, c.want)
			}
		})
	}
}

// TestRareErrors checks that wrong uses of these parts are errors, as in jinja2, or named as unsupported.
func TestRareErrors(t *testing.T) {
	for src, class := range map[string]string{
		"{% raw %}x":                         "TemplateSyntaxError",
		"{% raw +%}x{% endraw %}":            "TemplateSyntaxError",
		"{% call 1 %}{% endcall %}":          "TemplateSyntaxError",
		"{{ range(*[1], *[2]) }}":            "TemplateSyntaxError",
		"{{ range(*[1], 2) }}":               "TemplateSyntaxError",
		"{{ range(*3) }}":                    "TypeError",
		"{{ range(**{}) }}":                  "UnsupportedError",
		"{{ '{}{}'.format(1) }}":             "IndexError",
		"{{ '{'.format(1) }}":                "ValueError",
		"{{ '}'.format(1) }}":                "ValueError",
		"{{ '{0}'.format(1) }}":              "UnsupportedError",
		"{{ 'a'.find('a', 1) }}":             "UnsupportedError",
		"{{ 'a'.rfind(1) }}":                 "TypeError",
		"{{ '%s'|format }}":                  "TypeError",
		"{{ '%s'|format(x=1) }}":             "UnsupportedError",
		"{{ dict([]) }}":                     "UnsupportedError",
		"{{ [1]|min(true) }}":                "UnsupportedError",
		"{{ [1]|unique(attribute=0)|list }}": "UnsupportedError",
		"{{ 1|unique|list }}":                "TypeError",
		"{{ self.x }}":                       "UnsupportedError",
		"{% set self = 1 %}{{ self.x.y }}":   "UndefinedError",
	} {
		t.Run(src, func(t *testing.T) {
			tmpl, err := Compile(src)
			if err == nil {
				_, err = tmpl.Render(Input{})
			}
			if e, ok := err.(*Error); !ok || e.Class != class {
				t.Errorf("got %v, want a %s", err, class)
			}
		})
	}
}
