package template

import (
	"os"
	"testing"
)

// TestSets checks what Python makes of subtracting from a dict's keys and items, and of comparing them.
func TestSets(t *testing.T) {
	var templates []string
	operands := []string{
		"d.keys()", "e.keys()", "{}.keys()", "{}.items()", "e.items()", "d.items()", "d.values()", "(d.keys() - [])",
		"(d.keys() - ['b', 'c'])", "(e.items() - [])", "[]", "['b']", "['b', 'c', 'b']", "(('a', 1),)", "'b'", "''",
		"(1, 2)", "[[1]]", "nothing", "none", "5", "2.5", "d", "e", "range(3)", "(l|reverse)", "(l|select)", "loops",
		"namespace(b=1)", "('b'|safe)",
	}
	names := "{% set d = {'b': 1, 'A': 2, 'c': [1]} %}{% set e = {'a': 1} %}{% set l = ['c', 'a'] %}"
	for _, a := range operands {
		for _, b := range operands {
			for _, op := range []string{"-", "==", "!=", "<", "<=", ">", ">=", "in", "not in"} {
				x := "(" + a + " " + op + " " + b + ")"
				if op == "-" {
					x += "|sort|string"
				}
				templates = append(templates, names+"{{ "+x+" }}")
			}
		}
	}
	templates = some(templates, 30)
	for _, x := range []string{
		"one", "none_left", "[one]", "{'k': one}", "'%s %r' % (one, one)", "s|length", "s|list|length", "one|list",
		"one|first", "one|last", "one|reverse|list", "one|tojson", "one|join(',')", "s|sort|join(',')", "s|max",
		"one|sum",
		"one is sequence", "one is iterable", "one is mapping", "one is string", "one is callable", "one is defined",
		"one[0]", "one.x", "one['b']", "one[1:]", "one ~ 'x'", "one + one", "one * 2", "one - one", "one - ['b']",
		"one - d.keys()",
		"[] - one", "s - one|list", "{one: 1}", "'b' in one", "'x' in one", "[1] in one", "'b' in none_left",
		"not none_left",
		"one == one.copy()", "one.copy() is sameas one", "one|string|wordcount", "one.add('x')", "one.pop()",
		"one.update([1])",
		"one.remove", "one.discard", "one.clear()", "one.union([], 'b')", "one.union(['q'])|sort", "one.union(5)",
		"one.union(x=1)", "one.difference()", "one.difference('b')", "one.difference('x', 'y')",
		"s.difference(['b'], d)",
		"s.intersection('bA')|sort", "s.intersection('bA', ['b'])", "s.intersection()|sort", "one.intersection([[1]])",
		"s.symmetric_difference('bz')|sort", "one.symmetric_difference()", "one.issubset(s)", "s.issubset(one)",
		"one.issubset(5)",
		"s.issuperset('bc')", "s.issuperset('bcd')", "one.isdisjoint('ac')", "one.isdisjoint('b')",
		"d.keys().isdisjoint([1])",
		"d.keys().isdisjoint('b')", "d.items().isdisjoint([('b', 1)])", "d.values().isdisjoint([])", "one.nosuch",
		"one.__class__", "one.__len__()", "('b', 1) in d.items()", "('b', 2) in d.items()", "['b', 1] in d.items()",
		"(1, 2, 3) in d.items()", "('c', [1]) in d.items()", "([1], 1) in d.items()", "one|batch(1)|list",
		"one|map('upper')|list",
		"one|unique|list", "one|urlencode", "dict(one)", "dict([one])", "one|items|list", "one|dictsort", "one|int",
		"one|float", "one|abs", "one|escape", "one|pprint", "one|groupby(0)", "one|default(1)",
		"one.intersection_update([])",
		"one.intersection_update('b') ~ one", "s.intersection_update(['b'], 'b') ~ s", "one < one.copy()",
		"one <= one.copy()",
		"one > none_left", "one >= s", "one < ['b']", "one == ['b']",
	} {
		templates = append(templates, names+"{% set s = d.keys() - [] %}{% set one = d.keys() - ['A', 'c'] %}"+
			"{% set none_left = d.keys() - d %}{% if one %}{{ "+x+" }}{% endif %}")
	}
	templates = append(templates, names+"{% for x in d.keys() - 'Ac' %}{{ x }}{{ loop.length }}{{ loop.last }}{% endfor %}",
		names+"{% for k, v in e.items() - [] %}{{ k }}={{ v }}{% else %}none{% endfor %}",
		names+"{% set a, b = e.keys() - 'z' %}{{ a }}", names+"{% set a, = e.keys() - 'z' %}{{ a }}")
	asJinja(t, templates)
}

// TestOddArguments checks that arguments are looked at only where jinja2 looks at them.
func TestOddArguments(t *testing.T) {
	link, plain := "'see http://www.example.com/abc, (mailto:me@example.com) me@example.com ftp://x'", "'no link'"
	var templates []string
	for _, text := range []string{link, plain, "''", "5", "none", "nothing", "(" + link + "|safe)"} {
		for _, args := range []string{
			"", "5", "-3", "0", "100", "true", "5.0", "100.0", "'x'", "none", "nothing", "[]", "10 ** 30",
			"nofollow='x'", "nofollow=nothing", "rel=nothing", "rel=5", "rel=''", "rel='a b a'", "rel=[]",
			"target=nothing",
			"target=5", "target=''", "target='<'", "extra_schemes=nothing", "extra_schemes=none", "extra_schemes=[]",
			"extra_schemes=['ftp://']", "extra_schemes=['ftp:']|reverse", "extra_schemes=['ftp:']|select",
			"extra_schemes='ftp:'", "extra_schemes={'ftp:': 1}", "extra_schemes=5", "extra_schemes=[5]",
			"extra_schemes=['x']",
		} {
			templates = append(templates, "{{ "+text+"|urlize("+args+") }}")
		}
	}
	for _, text := range []string{
		"'some words well-known as--they are'", "''", "'\\n'", "'abc'", "5", "none", "nothing",
	} {
		for _, width := range []string{
			"4", "4.0", "40.0", "0.5", "1.0", "0.0", "-1.5", "0", "true", "false", "none", "nothing", "'5'", "[]",
			"10 ** 30", "10.0 ** 30",
		} {
			for _, more := range []string{
				"", ", false", ", nothing", ", wrapstring=''", ", wrapstring=none", ", wrapstring=nothing",
				", wrapstring=5",
				", wrapstring=0", ", wrapstring='<'|safe", ", wrapstring=['x']", ", break_on_hyphens=1",
				", break_on_hyphens=0",
				", break_on_hyphens=nothing", ", true, none, 'x'",
			} {
				templates = append(templates, "{{ "+text+"|wordwrap("+width+more+") }}")
			}
		}
	}
	templates = some(templates, 7)
	for _, of := range []string{"'it\\'s é'", "('<'|safe)", "5", "[1, {'a': 2}]", "{}", "none", "nothing"} {
		for _, args := range []string{
			"", "indent=(1, 2)", "indent='--'", "indent=2.5", "indent=nothing", "true, []", "separators=5",
			"separators='ab'",
			"separators=(1, 2)", "separators=nothing", "separators=[',']", "separators=none",
			"ensure_ascii=nothing, indent=[]",
			"sort_keys=nothing", "sort_keys=[1]",
		} {
			templates = append(templates, "{{ "+of+"|tojson("+args+") }}", "{{ ("+of+"|tojson("+args+")) ~ '' }}")
		}
	}
	asJinja(t, templates)
}

// TestFolding checks what jinja2 makes of constant expressions, of which it may never look at a part.
func TestFolding(t *testing.T) {
	var templates []string
	for _, x := range []string{
		"(7 or namespace(a=1))[:1]", "(0 or namespace(a=1))[:1]", "(0 or 7)[:1]", "(0 and namespace(a=1))[:1]",
		"(7 and namespace(a=1))[:1]", "(7 and 5)[:1]", "(7 or x)[1:]", "(x or 7)[1:]", "((7 or x) or y)[1:]",
		"('a' or x)|upper", "(7 or x or y)[:1]", "(none and x)[:1]", "(7 if true else x)[:1]",
		"(x if false else 7)[:1]",
	} {
		templates = append(templates, "{{ "+x+" }}", "{% set v = "+x+" %}{{ v }}", "{{ ["+x+"] }}")
	}
	asJinja(t, templates)
}

// TestPrintedCallables checks what is printed of functions, methods and classes, but for the addresses.
func TestPrintedCallables(t *testing.T) {
	var templates []string
	for _, x := range []string{
		"range", "dict", "namespace", "cycler", "joiner", "lipsum", "raise_exception", "'a'.upper", "'a'.format",
		"'a'.format_map", "('<'|safe).upper", "('<'|safe).format", "('<'|safe).find", "('<'|safe).striptags",
		"('<'|safe).split",
		"{}.items", "{'a': 1}.get", "[1].index", "(1, 2).count", "(3).bit_length", "true.conjugate", "(2.5).hex",
		"range(3).index",
		"cycler(1, 2)", "cycler(1, 2).next", "cycler(1).reset", "joiner()", "mac", "self", "self.b", "l|batch(2)",
		"l|map('upper')",
		"l|select", "l|reverse", "l|slice(2)", "{}|items", "l|unique", "{}.keys().isdisjoint", "({}.keys() - []).union",
	} {
		for _, f := range []string{
			"wordcount", "string|length", "striptags", "e|wordcount", "string|truncate(12, true)", "title|wordcount",
		} {
			templates = append(templates, "{% set l = [1] %}{% macro mac() %}{% endmacro %}{% block b %}{% endblock %}{{ "+x+"|"+f+" }}")
		}
		templates = append(templates, "{% set l = [1] %}{% for m in l %}{{ (loop.cycle, loop.changed, loop)|string }}{% endfor %}")
	}
	asJinja(t, templates)
}

// some returns every nth template, or all of them if NATGO_LONG is set.
func some(templates []string, n int) (out []string) {
	if os.Getenv("NATGO_LONG") != "" {
		return templates
	}
	for i := 0; i < len(templates); i += n {
		out = append(out, templates[i])
	}
	return out
}

// asJinja compares what we make of templates with what jinja2 makes of them.
func asJinja(t *testing.T, templates []string) {
	t.Helper()
	o, bad := startOracle(t), 0
	for _, src := range templates {
		want, err := o.ask(src)
		if err != nil {
			t.Fatal(err)
		}
		if got := render(src); !got.equal(want) {
			if bad++; bad <= 40 {
				t.Errorf("%s\n got %v %q %s\nwant %v %q %s", src, got.ok, got.text, got.error, want.ok, want.text,
					want.error)
			}
		}
	}
	t.Logf("%d of %d templates as jinja2", len(templates)-bad, len(templates))
}
