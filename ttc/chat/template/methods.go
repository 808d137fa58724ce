package template

import (
	"strings"

	"github.com/nat-go/nat-go/ttc/internal/pytext"
	"github.com/nat-go/nat-go/ttc/pyvalue"
)

type method func(st *state, self val, a *args) val

var stringMethods = map[string]method{
	"upper":      plainMethod("upper", (*state).upper),
	"lower":      plainMethod("lower", (*state).lower),
	"capitalize": plainMethod("capitalize", (*state).capitalize),
	"title":      plainMethod("title", (*state).title),
	"format":     formatMethod,
	"strip":      stripMethod("strip", true, true),
	"lstrip":     stripMethod("lstrip", true, false),
	"rstrip":     stripMethod("rstrip", false, true),
	"split":      splitMethod,
	"replace":    replaceMethod,
	"startswith": affixMethod("startswith", strings.HasPrefix),
	"endswith":   affixMethod("endswith", strings.HasSuffix),
	"find":       findMethod("find", strings.Index),
	"rfind":      findMethod("rfind", strings.LastIndex),
}

func plainMethod(name string, f func(st *state, v val) val) method {
	return func(st *state, self val, a *args) val {
		a.positional(name, 0, 0)
		return f(st, self)
	}
}

// positional returns the arguments of a method without named parameters; an omitted argument has the value missing.
func (a *args) positional(name string, minArgs, maxArgs int) []val {
	if len(a.names) > 0 {
		throw("TypeError", "%s() takes no keyword arguments", name)
	}
	if n := len(a.plain); n < minArgs || n > maxArgs {
		throw("TypeError", "%s() takes from %d to %d arguments (%d given)", name, minArgs, maxArgs, n)
	}
	return a.padded(maxArgs)
}

// textArg returns an argument that must be a str.
func textArg(v val, what string) val {
	if v.Kind() != pyvalue.KindStr {
		throw("TypeError", "%s must be str, not %s", what, v.TypeName())
	}
	return v
}

func stripMethod(name string, left, right bool) method {
	return func(st *state, self val, a *args) val {
		return st.strip(self, a.positional(name, 0, 1)[0], left, right)
	}
}

func splitMethod(st *state, self val, a *args) val {
	p := a.bind("split", 0, "sep", "maxsplit")
	return st.split(self, p[0], index(or(p[1], pyvalue.Int(-1))))
}

func replaceMethod(st *state, self val, a *args) val {
	if len(a.plain) > 2 {
		throwUnsupported("the count argument of replace")
	}
	p := a.positional("replace", 2, 2)
	old, with := textArg(p[0], "replace() argument 1"), textArg(p[1], "replace() argument 2")
	if isMarkup(self) {
		with = st.escape(with)
	}
	return st.replace(self, old, with)
}

func affixMethod(name string, has func(s, affix string) bool) method {
	return func(st *state, self val, a *args) val {
		if len(a.plain) > 1 {
			throwUnsupported(name + " within part of a string")
		}
		affix := a.positional(name, 1, 1)[0]
		switch affix.Kind() {
		case pyvalue.KindTuple:
			throwUnsupported(name + " of several texts")
		case pyvalue.KindStr:
			return pyvalue.Bool(has(self.Text(), affix.Text()))
		}
		throw("TypeError", "%s first arg must be str or a tuple of str, not %s", name, affix.TypeName())
		return missing
	}
}

func findMethod(name string, find func(s, part string) int) method {
	return func(st *state, self val, a *args) val {
		if len(a.plain) > 1 {
			throwUnsupported(name + " within part of a string")
		}
		s := self.Text()
		i := find(s, textArg(a.positional(name, 1, 1)[0], name+"() argument 1").Text())
		if i < 0 {
			return pyvalue.Int(-1)
		}
		st.countScan(s[:i])
		return pyvalue.Int(int64(pytext.Len(s[:i])))
	}
}

var dictMethods = map[string]method{
	"keys":   viewMethod("keys"),
	"values": viewMethod("values"),
	"items":  viewMethod("items"),
	"get": func(st *state, self val, a *args) val {
		p := a.positional("get", 1, 2)
		st.hashes(p[0])
		v, ok, err := self.Dict().Get(p[0])
		check(err)
		if ok {
			return v
		}
		return or(p[1], pyvalue.None)
	},
}

func viewMethod(kind string) method {
	return func(_ *state, self val, a *args) val {
		a.positional(kind, 0, 0)
		return pyvalue.OfObject(&dictView{kind, self.Dict()})
	}
}
