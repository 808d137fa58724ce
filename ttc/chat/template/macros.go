package template

import (
	"slices"

	"github.com/nat-go/nat-go/ttc/pyvalue"
)

// macro is a macro, or the body of a generation or call block.
type macro struct {
	code *macroCode
	act  *activation // the activation in which the macro was defined
}

func (*macro) TypeName() string { return "Macro" }
func (m *macro) Repr() string {
	if m.code.name == "" {
		return "<Macro anonymous>"
	}
	return "<Macro '" + m.code.name + "'>"
}

// macroCode is a compiled macro.
type macroCode struct {
	name     string
	params   []string
	places   []variable // where the params are stored
	defaults []expr     // defaults of the last parameters
	caller   *variable  // the variable caller, if the body uses it
	fn       *funcScope
	enter    func(st *state)
	body     stmt
	at       int32
}

func (c *compiler) macro(n *macroNode, f *frame) *macroCode {
	in := f.function()
	m := &macroCode{name: n.name, fn: in.fn, at: n.at()}
	for _, p := range n.params {
		if slices.Contains(m.params, p.name) {
			throwAt(p.at(), "SyntaxError", "duplicate argument '%s' in function definition", p.name)
		}
		m.params = append(m.params, p.name)
		m.places = append(m.places, in.variable(in.sym.parameter(p.name)))
	}
	in.sym.scan(n.defaults...)
	in.sym.scan(n.body...)
	wants := undeclared(n.body, "caller", "kwargs", "varargs")
	if wants["caller"] && !slices.Contains(m.params, "caller") {
		v := in.variable(in.sym.parameter("caller"))
		m.caller = &v
	}
	for _, name := range []string{"kwargs", "varargs"} {
		if wants[name] && !slices.Contains(m.params, name) {
			throwAt(n.at(), unsupportedError, "the variable %s of a macro is not supported in chat templates", name)
		}
	}
	// Compile enter last, because caller may have been scanned as an ordinary name before it became a
	// parameter. jinja2 reanalyses the node for the same reason.
	m.enter = c.enter(in)
	m.defaults = c.exprs(n.defaults, in)
	m.body = c.body(n.body, in)
	return m
}

func (c *compiler) macroStatement(n *macroNode, f *frame) stmt {
	code := c.macro(n, f)
	r, _ := f.sym.find(n.name)
	to := f.variable(r)
	return func(st *state) flow {
		*to.of(st) = pyvalue.OfObject(&macro{code, st.act})
		return flowOn
	}
}

// generation compiles transformers' {% generation %}: the body runs like a macro, and the range of its text in the
// output is recorded. No range is recorded inside a macro or a set block, where the ranges of transformers are wrong.
func (c *compiler) generation(n *bodyNode, f *frame) stmt {
	code := c.macro(n.macro, f)
	at := n.at()
	return func(st *state) flow {
		v := st.callMacro(&macro{code, st.act}, &st.none)
		st.pos = at
		start := len(st.out.b)
		st.print(v)
		if len(st.outer) == 0 {
			st.generations = append(st.generations, [2]int{start, len(st.out.b)})
		}
		return flowOn
	}
}

// callMacro calls a macro using Python's and jinja2's argument rules.
func (st *state) callMacro(m *macro, a *args) val {
	code := m.code
	given := st.values(len(code.params))
	given = given[:copy(given, a.plain)]
	taken := make([]bool, len(a.names))
	st.left -= int64(len(a.names)*(1+len(code.params))) >> 2
	take := func(name string) val {
		for i, n := range a.names {
			if n == name && !taken[i] {
				taken[i] = true
				return a.named[i]
			}
		}
		return missing
	}
	for _, name := range code.params[len(given):] {
		given = append(given, take(name))
	}
	back := st.call(code.at, code.fn, m.act)
	if code.caller != nil {
		caller := take("caller")
		if isMissing(caller) || caller.IsNone() {
			caller = undefinedHint("No caller defined")
		}
		*code.caller.of(st) = caller
	}
	code.refuseRest(a, taken)
	for i, place := range code.places {
		*place.of(st) = given[i]
	}
	code.enter(st)
	st.push(code.at)
	for i, place := range code.places {
		if !isMissing(*place.of(st)) {
			continue
		}
		if d := i - (len(code.places) - len(code.defaults)); d >= 0 {
			*place.of(st) = code.defaults[d](st)
		} else {
			*place.of(st) = undefinedHint("parameter '" + code.params[i] + "' was not provided")
		}
	}
	code.body(st)
	v := st.pop()
	st.depth--
	st.act = back
	return v
}

// refuseRest rejects arguments that no parameter accepts.
func (code *macroCode) refuseRest(a *args, taken []bool) {
	for i, name := range a.names {
		if !taken[i] {
			throw("TypeError", "macro '%s' takes no keyword argument '%s'", code.name, name)
		}
	}
	if len(a.plain) > len(code.params) {
		throw("TypeError", "macro '%s' takes not more than %d argument(s)", code.name, len(code.params))
	}
}
