package template

import (
	"github.com/nat-go/nat-go/ttc/pyvalue"
)

// globals are jinja2's functions, and transformers' own raise_exception and strftime_now.
var globals = map[string]val{
	"range":           function("safe_range", rangeGlobal),
	"dict":            class("dict", dictGlobal),
	"namespace":       class("jinja2.utils.Namespace", namespaceGlobal),
	"cycler":          unsupportedFunction("cycler"),
	"joiner":          unsupportedFunction("joiner"),
	"lipsum":          unsupportedFunction("lipsum"),
	"raise_exception": function("raise_exception", raiseGlobal),
	"strftime_now":    function("strftime_now", strftimeGlobal),
}

// maxRange is the sandbox's limit on range().
const maxRange = 100_000

func rangeGlobal(_ *state, a *args) val {
	if len(a.plain) == 0 || len(a.plain) > 3 || len(a.names) > 0 {
		throw("TypeError", "range expected 1 to 3 positional arguments, got %d", len(a.plain))
	}
	r := &rangeObject{step: 1}
	at := func(i int) int64 { return int64(min(max(index(a.plain[i]), -1<<61), 1<<61)) }
	if len(a.plain) == 1 {
		r.stop = at(0)
	} else {
		r.start, r.stop = at(0), at(1)
		if len(a.plain) == 3 {
			r.step = at(2)
		}
	}
	if r.step == 0 {
		throw("ValueError", "range() arg 3 must not be zero")
	}
	if r.length() > maxRange {
		throw("OverflowError", "Range too big. The sandbox blocks ranges larger than MAX_RANGE (%d).", maxRange)
	}
	return pyvalue.OfObject(r)
}

func dictGlobal(_ *state, a *args) val { return pyvalue.OfDict(a.dict("dict")) }

func namespaceGlobal(_ *state, a *args) val { return pyvalue.OfObject(&namespace{a.dict("namespace")}) }

// dict returns a function's arguments as a dict. All of them must be named.
func (a *args) dict(fn string) *pyvalue.Dict {
	if len(a.plain) > 0 {
		throwUnsupported("an argument of " + fn + " without a name")
	}
	d := pyvalue.NewDict(len(a.names))
	for i, name := range a.names {
		d.SetStr(name, a.named[i])
	}
	a.st.spend(2 * valueSize * d.Len())
	return d
}

func raiseGlobal(st *state, a *args) val {
	s, _ := st.text(a.bind("raise_exception", 1, "message")[0])
	throw("TemplateError", "%s", s)
	return missing
}

func strftimeGlobal(st *state, a *args) val {
	f := textArg(a.bind("strftime_now", 1, "format")[0], "strftime() argument 1")
	st.left -= int64(len(f.Text()))
	s := strftime(st.input.Now, f.Text())
	st.spend(len(s))
	return pyvalue.Str(s)
}
