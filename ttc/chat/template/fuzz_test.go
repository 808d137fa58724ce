package template

import (
	"errors"
	"testing"

	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/pyvalue"
)

// FuzzTemplate: whatever the template, compiling and rendering end after bounded work with a text or an *Error.
func FuzzTemplate(f *testing.F) {
	for _, src := range statements(f) {
		f.Add(src)
	}
	for _, src := range hostile {
		f.Add(src)
	}
	messages, err := ParseMessages(json.Raw(`[{"role": "user", "content": "Hi \"x\"\n"}, {"role": "assistant", "content": "é😀", "n": 1.5}]`))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, src string) {
		tmpl, err := Compile(src)
		if err == nil {
			var res Result
			res, err = tmpl.Render(Input{
				Messages: messages,
				Kwargs:   testVars().Dict(),
				Limits:   Limits{Steps: 100_000, Bytes: 1 << 20, Depth: 50},
			})
			if err == nil {
				if bad := spansFit(&res); bad != nil {
					t.Fatalf("%q: %v", src, bad)
				}
				return
			}
		}
		var e *Error
		if !errors.As(err, &e) || e.Line < 1 || e.Column < 1 || e.Class == "" {
			t.Fatalf("%q: error %#v", src, err)
		}
	})
}

// hostile templates try to run away; each must reach a limit or be cheap.
var hostile = []string{
	"{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
	"{% set ns = namespace(x='a') %}{% for i in range(99) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
	"{% set ns = namespace(x=[1]) %}{% for i in range(99) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x }}",
	"{% set ns = namespace(x=[]) %}{% for i in range(9999) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x }}{{ ns.x == ns.x }}",
	"{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
	"{{ 'x' * 10 ** 12 }}", "{{ '' * 10 ** 12 }}", "{{ [] * 10 ** 18 }}", "{{ [1] * 10 ** 12 }}",
	"{{ 10 ** 10 ** 10 }}", "{{ 'x'|center(10 ** 15) }}", "{{ '%999999999999d' % 1 }}",
	"{{ '{:>99999999999}'.format(1) }}", "{{ '{:,099999999}'.format(1) }}",
	"{{ 'x'|indent(10 ** 15) }}", "{{ [1]|batch(10 ** 15, 'x')|list }}", "{{ [1]|slice(10 ** 15)|list }}", "{{ messages|tojson(indent=10 ** 12) }}", "{{ 'a'|replace('', 'b' * 1000)|replace('', 'b' * 1000)|replace('', 'b' * 1000) }}",
	"{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}", "{% set ns = namespace() %}{% set ns.s = ns %}{{ ns }}",
	"{% set d = {} %}{{ '\t' .expandtabs(10 ** 15) }}", "{{ ((((((((((1)))))))))) }}",
	"{% set ns = namespace(g=[1]) %}{% for i in range(9999) %}{% set ns.g = ns.g|map('string') %}{% endfor %}{{ ns.g|list }}",
	"{{ '{0:{0:{0}}}'.format(1) }}", "{{ 1e308 * 10 ** 400 }}", "{{ (10 ** 400)|float }}",
	"{{ 'x'.join(range(99999)|map('string')) * 9999 }}", "{{ '1'.zfill(10 ** 15) }}", "{{ range(10 ** 30) }}",
	"{{ [1, 2][10 ** 30:] }}", "{{ 'a' in [[]] * 99999999 }}",
}

func TestHostileTemplatesEnd(t *testing.T) {
	for _, src := range hostile {
		t.Run(src, func(t *testing.T) {
			tmpl, err := Compile(src)
			if err != nil {
				t.Logf("%s: %v", src, err)
				return
			}
			_, err = tmpl.Render(Input{Kwargs: &pyvalue.Dict{}, Limits: Limits{Steps: 2_000_000, Bytes: 16 << 20}})
			var e *Error
			if err != nil && !errors.As(err, &e) {
				t.Errorf("%s: %v", src, err)
			}
		})
	}
}
