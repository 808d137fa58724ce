package template

import (
	"math/rand/v2"
	"os"
	"strings"
	"testing"
)

// writer writes random templates shaped like chat templates: nested blocks around lookups in messages.
type writer struct {
	r     *rand.Rand
	depth int
	loops int
	names []string
}

func (w *writer) pick(s ...string) string { return s[w.r.IntN(len(s))] }

func (w *writer) name() string {
	return w.pick(append([]string{"x", "y", "s", "n", "l", "d", "ns.a", "ns.b"}, w.names...)...)
}

func (w *writer) text() string {
	return w.pick("'a'", "' b '", `"it's"`, "'<|im_start|>'", "'\\n'", "s", "ws", "lines", "u", "html", "messages[1].content", "messages[0]['content']", "x", "'%s'", "num", "(s|upper)", "(ws|trim)")
}

func (w *writer) expr(d int) string {
	if d <= 0 {
		return w.pick(w.name(), w.text(), "1", "0", "-1", "2.5", "true", "false", "none", "[]", "{}", "[1, 2]",
			"{'a': 1}", "messages", "loop.index0", "loop.last", "loop.first", "tools", "add_generation_prompt")
	}
	e := func() string { return w.expr(d - 1) }
	switch w.r.IntN(16) {
	case 0, 1:
		return "(" + e() + " " +
			w.pick("~", "~", "==", "==", "!=", "and", "and", "or", "or",
				w.pick("+", "in", "not in", "<", ">", "-", "*", "%")) + " " + e() + ")"
	case 2:
		return e() + " | " +
			w.pick("string", "tojson", "default('-')", "default('-', true)", "upper", "trim", "title", "safe", "e",
				"replace('a', 'b')", "string | length", "capitalize", w.pick(sweepFilters...))
	case 3:
		return "(" + w.text() + " ~ '')." +
			w.pick("strip()", "upper()", "split()", "split('a')", "split('\\n')[-1]", "startswith('a')",
				"endswith('>')", "replace('a', '')", "lstrip('\\n')", "rstrip()", "title()", w.pick(sweepMethods...))
	case 4:
		return w.text() + w.pick("[0]", "[-1]", "[1:]", "[:-1]", "[::-1]", "[2:4]", w.pick(sweepItems...))
	case 5, 6:
		return "(" + e() + " is " +
			w.pick("defined", "not defined", "none", "not none", "string", "mapping", "iterable", "sequence", "number",
				"true", "false", "boolean", "undefined", "equalto('a')", "in ['a', 1]") + ")"
	case 7:
		return "(" + e() + " if " + e() + w.pick("", " else "+e()) + ")"
	case 8:
		return "not " + e()
	case 9:
		return "(" + w.text() + " ~ '') + (" + w.text() + " ~ '')"
	case 10:
		return w.pick("m", "messages[0]", "messages[-1]", "messages[2]", "d") +
			w.pick(".role", ".content", "['role']", ".tool_calls", ".get('content')", ".x")
	case 11:
		return w.text() + " ~ " + e() + " ~ " + w.text()
	case 12:
		return "[" + e() + ", " + e() + "]"
	case 13:
		return w.pick("mac", "mac2") + "(" + w.pick(e(), e(), "a="+e()) + ")"
	case 14:
		return "(messages | " +
			w.pick("selectattr('role', 'equalto', 'user')", "rejectattr('content')", "map(attribute='role')",
				"map('length')",
				"selectattr('tool_calls', 'defined')") + " | " +
			w.pick("list", "first", "last", "length", "join(',')", "tojson", "list | length") + ")"
	}
	return e()
}

func (w *writer) space() string { return w.pick("", "", "", " ", "\n", "  \n  ", "\n\n", "\t") }
func (w *writer) open() string  { return w.space() + w.pick("{%", "{%", "{%-", "{%+") + " " }
func (w *writer) end() string   { return " " + w.pick("%}", "%}", "-%}", "+%}") + w.space() }

func (w *writer) tag(s string) string { return w.open() + s + w.end() }

func (w *writer) body() string {
	w.depth++
	defer func() { w.depth-- }()
	var b strings.Builder
	for range 1 + w.r.IntN(3) {
		b.WriteString(w.statement())
	}
	return b.String()
}

func (w *writer) statement() string {
	kind := w.r.IntN(13)
	if w.depth > 3 {
		kind = w.r.IntN(3)
	}
	switch kind {
	case 0:
		return w.pick("text", "<|im_end|>\n", " \n", "x\n  y", "{# note #}", "{#- note -#}", "é")
	case 1, 2, 3:
		return w.space() + w.pick("{{ ", "{{- ") + w.expr(w.r.IntN(3)) + w.pick(" }}", " -}}") + w.space()
	case 4:
		// m shadows the loop's variable.
		return w.tag("set " + w.pick("x", "y", "z", "ns.a", "ns.b", "m") + " = " + w.expr(2))
	case 5, 6:
		out := w.tag("if "+w.expr(2)) + w.body()
		if w.r.IntN(3) == 0 {
			out += w.tag("elif "+w.expr(1)) + w.body()
		}
		if w.r.IntN(2) == 0 {
			out += w.tag("else") + w.body()
		}
		return out + w.tag("endif")
	case 7, 8, 9:
		w.loops++
		out := w.tag("for " +
			w.pick("m in messages", "m in messages[::-1]", "i in l", "k, v in d.items()", "k, v in d|items",
				"i in range(3)", "c in s[:3]", "m in messages", "i in l", "m in messages if m.content",
				"i in l if i > 1", "x in missing"))
		out += w.body()
		if w.r.IntN(4) == 0 {
			out += w.tag("if "+w.expr(1)) + w.tag(w.pick("break", "continue")) + w.tag("endif") + w.body()
		}
		w.loops--
		if w.r.IntN(5) == 0 {
			out += w.tag("else") + w.body()
		}
		return out + w.tag("endfor")
	case 10:
		return w.tag("set x") + w.body() + w.tag("endset")
	case 11:
		return w.tag("filter "+w.pick("upper", "trim", "indent(1)", "replace('a', 'b')")) + w.body() +
			w.tag("endfilter")
	}
	return w.tag("macro "+w.pick("mac3", "mac4")+w.pick("()", "(a)", "(a, b=1)", "(a=x, b=none)")) + w.body() +
		w.tag("endmacro")
}

func randomTemplate(seed uint64) string {
	w := &writer{r: rand.New(rand.NewPCG(seed, 17))}
	return "{% set ns = namespace(a='', b=0) %}{% set m = messages[1] %}" + w.pick("{% macro mac(a, b='B') %}[{{ a }}{{ b }}]{% endmacro %}{% macro mac2(a) %}{{ a }}{% endmacro %}") + w.body() + w.body() + w.body()
}

// TestRandom compares random templates with jinja2. With NATGO_LONG there are many more of them.
func TestRandom(t *testing.T) {
	o := startOracle(t)
	n := 150
	if os.Getenv("NATGO_LONG") != "" {
		n = 5000
	}
	same, rendered, bad := 0, 0, 0
	for seed := range n {
		src := randomTemplate(uint64(seed))
		want, err := o.ask(src)
		if err != nil {
			t.Fatal(err)
		}
		got := render(src)
		if want.ok {
			rendered++
		}
		if got.equal(want) || outside(got) || addresses.MatchString(want.text) {
			same++
			continue
		}
		if bad++; bad <= 8 {
			t.Errorf("%s\n got %v %q %s\nwant %v %q %s", src, got.ok, got.text, got.error, want.ok, want.text,
				want.error)
		}
	}
	t.Logf("%d of %d as jinja2 (%d of them render)", same, n, rendered)
}
