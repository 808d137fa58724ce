package template

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/ttc/json"
)

// TestProvenance renders one text through every kind of operation and shows, for each run of the output, where it comes
// from: c3+4 is four bytes of the content from byte 3 on, c3=2 two bytes that stand for byte 3, a dot a byte of the
// template.
func TestProvenance(t *testing.T) {
	const request = `[{"role": "user", "content": " aé\"b\n<c> "}]` // bytes: 0 space, 1 a, 2-3 é, 4 ", 5 b, 6 \n, 7 <, 8 c, 9 >, 10 space
	for src, want := range map[string]string{
		"{{ c }}":                                    "c0+11",
		"<{{ c }}>":                                  ".c0+11.",
		"{{ c | trim }}":                             "c1+9",
		"{{ c.strip() }}{{ c.lstrip()}}":             "c1+9c1+10",
		"{{ c[1:3] }}":                               "c1+3",
		"{{ c[2] }}":                                 "c2+2",
		"{{ '[' + c + ']' }}":                        ".c0+11.",
		"{{ c ~ 1 ~ c }}":                            "c0+11.c0+11",
		"{{ c | upper }}":                            "c0+11",
		"{{ 'ß' ~ (c | upper) }}":                    "..c0+11",
		"{{ c | replace('b', 'XY') }}":               "c0+5..c6+5",
		"{{ 'xbx' | replace('b', c) }}":              ".c0+11.",
		"{{ c.split('b')[1] }}":                      "c6+5",
		"{{ c.split('b') | join('-') }}":             "c0+5.c6+5",
		"{{ c | tojson }}":                           "c0=1c0+4c4=2c5+1c6=2c7+4c11=1",
		"{{ [c] | tojson }}":                         ".c0=1c0+4c4=2c5+1c6=2c7+4c11=1.",
		"{{ (c | tojson)[1:4] }}":                    "c0+4",
		"{{ [c] }}":                                  ".c0=1c0+6c6=2c7+4c11=1.",
		"{{ c | e }}":                                "c0+4c4=5c5+2c7=4c8+1c9=4c10+1",
		"{{ (c ~ '<') | e }}":                        "c0+4c4=5c5+2c7=4c8+1c9=4c10+1....",
		"{{ (c | tojson | safe)[1:4] }}":             "c0+4",
		"{{ c | indent(1, true) }}":                  ".c0+6c6=1.c7+4",
		"{{ '%s!' % c }}{{ '%s' % c }}":              "c0+11.c0+11",
		"{% set x %}<{{ c }}{% endset %}{{ x[1:] }}": "c0+11",
		"{% macro m(x) %}{{ x | trim }}{% endmacro %}{{ m(c) }}":                                        "c1+9",
		"{% set ns = namespace(x='') %}{% for k in c %}{% set ns.x = ns.x + k %}{% endfor %}{{ ns.x }}": "c0+11",
		"{% filter trim %}{{ c }}{% endfilter %}":                                                       "c1+9",
		"{{ c | list | sort | first }}{{ c | last }}":                                                   "c6+1c10+1",
		"{{ messages | map(attribute='content') | join }}":                                              "c0+11",
		"{{ c if c else '' }}{{ c or 1 }}":                                                              "c0+11c0+11",
	} {
		t.Run(src, func(t *testing.T) {
			src = "{% set c = messages[0].content %}" + src
			messages, err := ParseMessages(json.Raw(request))
			if err != nil {
				t.Fatal(err)
			}
			tmpl, err := Compile(src)
			if err != nil {
				t.Fatal(err)
			}
			res, err := tmpl.Render(Input{Messages: messages})
			if err != nil {
				t.Fatalf("%s: %v", src, err)
			}
			if got := origins(&res); got != want {
				t.Errorf("%s\n renders %q\n got %s\nwant %s", src, res.Text, got, want)
			}
		})
	}
}

func origins(res *Result) string {
	var b strings.Builder
	at := 0
	var last Span
	for s := range res.Exact() {
		if s.Field != "content" {
			continue
		}
		if s.Start == at && s.Mode == Linear && last.Mode == Linear && last.End == s.Start &&
			last.Offset+last.End-last.Start == s.Offset && last.End > 0 {
			last.End = s.End
			at = s.End
			continue
		}
		flush(&b, last)
		b.WriteString(strings.Repeat(".", s.Start-at))
		at, last = s.End, s
	}
	flush(&b, last)
	b.WriteString(strings.Repeat(".", len(res.Text)-at))
	return b.String()
}

func flush(b *strings.Builder, s Span) {
	if s.End > 0 {
		fmt.Fprintf(b, "c%d%c%d", s.Offset, "+="[s.Mode], s.End-s.Start)
	}
}

func TestOriginsOfStructuredFields(t *testing.T) {
	messages, err := ParseMessages(json.Raw(`[{"role": "user", "content": [{"type": "text", "text": "hi"}]}, {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": {"city": "Z\u00fc", "n": 40}}}]}]`))
	if err != nil {
		t.Fatal(err)
	}
	tools, err := ParseTools(json.Raw(`[{"name": "f"}]`))
	if err != nil {
		t.Fatal(err)
	}
	tmpl, err := Compile("{{ messages[0].content[0].text }}{% set a = messages[1].tool_calls[0].function.arguments %}{{ a.n }}{{ a|tojson }}{{ tools[0].name }}")
	if err != nil {
		t.Fatal(err)
	}
	res, err := tmpl.Render(Input{Messages: messages, Tools: tools})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range res.Spans {
		got = append(got, fmt.Sprintf("%d %s %q", s.Message, s.Field, res.Text[s.Start:s.End]))
	}
	const args = "1 tool_calls[0].function.arguments"
	want := []string{`0 content[0].text "hi"`, args + `.n "40"`, args + ` "{\"city\": "`, args + `.city "\"Zü\""`, args + ` ", \"n\": "`, args + `.n "40"`, args + ` "}"`, `-2 tools[0].name "f"`}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestErrorsNameThePlace(t *testing.T) {
	for src, want := range map[string]string{
		"a\n  {{ x.y }}":                       "template line 2, column 7: UndefinedError: 'x' is undefined",
		"{% if x %}":                           "template line 1, column 11: TemplateSyntaxError: Unexpected end of template. Jinja was looking for the following tags: 'elif' or 'else' or 'endif'. The innermost block that needs to be closed is 'if'.",
		"é\n{{ 'ü' + 1 }}":                     "template line 2, column 8: TypeError: can only concatenate str (not \"int\") to str",
		"{{ messages.append(1) }}":             "template line 1, column 19: SecurityError: access to attribute 'append' of 'list' object is unsafe.",
		"{{ raise_exception('no ' ~ 'way') }}": "template line 1, column 19: TemplateError: no way",
		"{{ messages[0].content.x }}":          "template line 1, column 15: UndefinedError: list object has no element 0",

		"{% macro m() %}\n\n{{ 1 % 0 }}{% endmacro %}{{ m() }}": "template line 3, column 6: ZeroDivisionError: integer division or modulo by zero",
		"{% for i in range(9) %}{{ 1 }":                         "template line 1, column 29: TemplateSyntaxError: unexpected '}'",
	} {
		t.Run(src, func(t *testing.T) {
			tmpl, err := Compile(src)
			if err == nil {
				_, err = tmpl.Render(Input{})
			}
			if err == nil || err.Error() != want {
				t.Errorf("%s\n got %v\nwant %s", src, err, want)
			}
		})
	}
}

func TestConcurrentRenders(t *testing.T) {
	tmpl, err := Compile("{% set ns = namespace(x='') %}{% for m in messages %}{% set ns.x = ns.x ~ m.content|upper %}{% endfor %}{{ ns.x|tojson }}")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan string)
	for i := range 8 {
		go func() {
			word := strings.Repeat(string(rune('a'+i)), 50)
			messages, _ := ParseMessages(json.Raw(`[{"content": "` + word + `"}, {"content": "\n"}]`))
			bad := ""
			var room Room
			for i := range 200 {
				in := &room
				if i%3 == 0 {
					in = nil
				}
				res, err := tmpl.RenderIn(in, Input{Messages: messages})
				if err != nil || res.Text != `"`+strings.ToUpper(word)+`\n"` || len(res.Spans) == 0 || res.Spans[0].Message != 0 {
					bad = fmt.Sprintf("%q %v", res.Text, err)
				}
			}
			done <- bad
		}()
	}
	for range 8 {
		if bad := <-done; bad != "" {
			t.Error(bad)
		}
	}
}
