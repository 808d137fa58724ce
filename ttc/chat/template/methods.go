package template

import (
	"strings"

	"github.com/nat-go/nat-go/ttc/internal/pytext"
	"github.com/nat-go/nat-go/ttc/pyvalue"
)

var stringMethods = map[string]method{
	"upper":        plainMethod("upper", (*state).upper),
	"lower":        plainMethod("lower", (*state).lower),
	"title":        plainMethod("title", (*state).title),
	"capitalize":   plainMethod("capitalize", (*state).capitalize),
	"strip":        stripMethod("strip", true, true),
	"lstrip":       stripMethod("lstrip", true, false),
	"rstrip":       stripMethod("rstrip", false, true),
	"split":        splitMethod("split", false),
	"rsplit":       splitMethod("rsplit", true),
	"splitlines":   splitLinesMethod,
	"replace":      replaceMethod,
	"join":         joinMethod,
	"startswith":   affixMethod("startswith", strings.HasPrefix),
	"endswith":     affixMethod("endswith", strings.HasSuffix),
	"removeprefix": removeMethod("removeprefix", true),
	"removesuffix": removeMethod("removesuffix", false),
	"find":         findMethod("find", strings.Index, false),
	"rfind":        findMethod("rfind", strings.LastIndex, false),
	"index":        findMethod("index", strings.Index, true),
	"rindex":       findMethod("rindex", strings.LastIndex, true),
	"count":        countMethod,
	"partition":    partitionMethod("partition", strings.Index, false),
	"rpartition":   partitionMethod("rpartition", strings.LastIndex, true),
	"format":       formatMethod,
	"isalpha":      isMethod("isalpha", pytext.IsAlpha),
	"isalnum":      isMethod("isalnum", pytext.IsAlnum),
	"isdigit":      isMethod("isdigit", pytext.IsDigit),
	"isnumeric":    isMethod("isnumeric", pytext.IsNumeric),
	"isspace":      isMethod("isspace", pytext.IsSpace),
	"isupper":      caseMethod("isupper", isUpper),
	"islower":      caseMethod("islower", isLower),
}

func plainMethod(name string, f func(st *state, v val) val) method {
	return func(st *state, self val, a *args) val {
		a.positional(name, 0, 0)
		return f(st, self)
	}
}

// positional returns the arguments of a method without named parameters; missing ones are marked as such.
func (a *args) positional(name string, least, most int) []val {
	if len(a.names) > 0 {
		throw("TypeError", "%s() takes no keyword arguments", name)
	}
	if n := len(a.plain); n < least || n > most {
		throw("TypeError", "%s() takes from %d to %d arguments (%d given)", name, least, most, n)
	}
	out := a.st.values(most)
	copy(out, a.plain)
	for i := len(a.plain); i < most; i++ {
		out[i] = missing
	}
	return out
}

// textArg returns an argument that must be a str.
func textArg(v val, what string) val {
	if v.Kind() != pyvalue.KindStr {
		throw("TypeError", "%s must be str, not %s", what, v.TypeName())
	}
	return v
}

// isSet returns a flag that Python takes as an int.
func isSet(v val) bool { return intArg(v, 0) != 0 }

func intArg(v val, otherwise int) int {
	if isMissing(v) {
		return otherwise
	}
	return index(v, "")
}

func stripMethod(name string, left, right bool) method {
	return func(st *state, self val, a *args) val {
		return st.strip(self, a.positional(name, 0, 1)[0], left, right)
	}
}

func splitMethod(name string, right bool) method {
	return func(st *state, self val, a *args) val {
		p := a.bind(name, 0, "sep", "maxsplit")
		return st.split(self, p[0], intArg(p[1], -1), right)
	}
}

func splitLinesMethod(st *state, self val, a *args) val {
	p := a.bind("splitlines", 0, "keepends")
	return pyvalue.NewList(st.splitLines(self, isSet(p[0])))
}

func replaceMethod(st *state, self val, a *args) val {
	p := a.positional("replace", 2, 3)
	old, with := textArg(p[0], "replace() argument 1"), textArg(p[1], "replace() argument 2")
	if isMarkup(self) {
		with = st.escape(with)
	}
	return st.replace(self, old, with, intArg(p[2], -1))
}

func joinMethod(st *state, self val, a *args) val {
	it := st.mustIterate(a.positional("join", 1, 1)[0])
	var items []val
	for {
		item, ok := it.next()
		if !ok {
			break
		}
		switch {
		case isMarkup(self):
			item = st.escape(item)
		case item.Kind() != pyvalue.KindStr:
			throw("TypeError", "sequence item %d: expected str instance, %s found", len(items), item.TypeName())
		}
		items = append(items, item)
		st.spend(valueSize)
	}
	return st.like(self, st.joinTexts(self, items))
}

// span is s[start:end] for a search method, in bytes; ok is false if start is past the end.
func span(s string, start, end val) (i, j int, ok bool) {
	n := pytext.Len(s)
	clip := func(v val, absent int) int {
		if isMissing(v) || v.IsNone() {
			return absent
		}
		x := index(v, "")
		if x < 0 {
			x = max(x, -n) + n
		}
		return x
	}
	a, b := clip(start, 0), min(clip(end, n), n)
	if a > b {
		return 0, 0, false
	}
	return pytext.ByteIndex(s, a), pytext.ByteIndex(s, b), true
}

func affixMethod(name string, has func(s, affix string) bool) method {
	return func(st *state, self val, a *args) val {
		p := a.positional(name, 1, 3)
		affixes := []val{p[0]}
		if p[0].Kind() == pyvalue.KindTuple {
			affixes = p[0].Items()
		}
		i, j, ok := span(self.Text(), p[1], p[2])
		for _, x := range affixes {
			if x.Kind() != pyvalue.KindStr {
				throw("TypeError", "%s first arg must be str or a tuple of str, not %s", name, x.TypeName())
			}
			if ok && has(self.Text()[i:j], x.Text()) {
				return pyvalue.True
			}
		}
		return pyvalue.False
	}
}

func removeMethod(name string, prefix bool) method {
	return func(_ *state, self val, a *args) val {
		x := textArg(a.positional(name, 1, 1)[0], name+"() argument").Text()
		s := self.Text()
		switch {
		case prefix && strings.HasPrefix(s, x):
			return cut(self, len(x), len(s))
		case !prefix && x != "" && strings.HasSuffix(s, x):
			return cut(self, 0, len(s)-len(x))
		}
		return self
	}
}

func findMethod(name string, find func(s, sub string) int, strict bool) method {
	return func(_ *state, self val, a *args) val {
		p := a.positional(name, 1, 3)
		sub := textArg(p[0], name+"() argument").Text()
		s := self.Text()
		if i, j, ok := span(s, p[1], p[2]); ok {
			if at := find(s[i:j], sub); at >= 0 {
				return pyvalue.Int(int64(pytext.Len(s[:i+at])))
			}
		}
		if strict {
			throw("ValueError", "substring not found")
		}
		return pyvalue.Int(-1)
	}
}

func countMethod(_ *state, self val, a *args) val {
	p := a.positional("count", 1, 3)
	sub := textArg(p[0], "count() argument").Text()
	s := self.Text()
	i, j, ok := span(s, p[1], p[2])
	switch {
	case !ok:
		return pyvalue.Int(0)
	case sub == "":
		return pyvalue.Int(int64(pytext.Len(s[i:j]) + 1))
	}
	return pyvalue.Int(int64(strings.Count(s[i:j], sub)))
}

func partitionMethod(name string, find func(s, sub string) int, right bool) method {
	return func(st *state, self val, a *args) val {
		sep := textArg(a.positional(name, 1, 1)[0], name+"() argument")
		if sep.Text() == "" {
			throw("ValueError", "empty separator")
		}
		if isMarkup(self) {
			sep = st.escape(sep)
		}
		s := self.Text()
		i := find(s, sep.Text())
		empty := st.like(self, pyvalue.Str(""))
		switch {
		case i >= 0:
			j := i + len(sep.Text())
			return pyvalue.NewTuple(cut(self, 0, i), sep, cut(self, j, len(s)))
		case right:
			return pyvalue.NewTuple(empty, empty, self)
		}
		return pyvalue.NewTuple(self, empty, empty)
	}
}

func isMethod(name string, in func(rune) bool) method {
	return func(st *state, self val, a *args) val {
		a.positional(name, 0, 0)
		st.goesThrough(self.Text())
		ok := self.Text() != ""
		eachRune(self.Text(), func(_ int, r rune, _ int) { ok = ok && in(r) })
		return pyvalue.Bool(ok)
	}
}

func caseMethod(name string, is func(s string) bool) method {
	return func(st *state, self val, a *args) val {
		a.positional(name, 0, 0)
		st.goesThrough(self.Text())
		return pyvalue.Bool(is(self.Text()))
	}
}

func isUpper(s string) bool {
	any, ok := false, true
	eachRune(s, func(_ int, r rune, _ int) {
		any = any || pytext.IsUpper(r)
		ok = ok && !pytext.IsLower(r) && !pytext.IsTitle(r)
	})
	return any && ok
}

func isLower(s string) bool {
	any, ok := false, true
	eachRune(s, func(_ int, r rune, _ int) {
		any = any || pytext.IsLower(r)
		ok = ok && !pytext.IsUpper(r) && !pytext.IsTitle(r)
	})
	return any && ok
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
	"copy": func(st *state, self val, a *args) val {
		a.positional("copy", 0, 0)
		d := self.Dict()
		st.spend(2 * valueSize * d.Len())
		out := &pyvalue.Dict{Tag: d.Tag}
		for i := range d.Len() {
			k, v := d.At(i)
			st.hashes(k)
			check(out.Set(k, v))
		}
		return pyvalue.OfDict(out)
	},
}

func viewMethod(kind string) method {
	return func(_ *state, self val, a *args) val {
		a.positional(kind, 0, 0)
		return pyvalue.OfObject(&dictView{kind, self.Dict()})
	}
}

var listMethods = map[string]method{
	"index": func(st *state, self val, a *args) val {
		p := a.positional("index", 1, 3)
		items := self.Items()
		start, stop, _ := bounds(len(items), or(p[1], pyvalue.None), or(p[2], pyvalue.None), pyvalue.None)
		for i := start; i < stop; i++ {
			if st.same(items[i], p[0]) {
				return pyvalue.Int(int64(i))
			}
		}
		throw("ValueError", "%s is not in list", reprOf(p[0]))
		return missing
	},
	"count": func(st *state, self val, a *args) val {
		p := a.positional("count", 1, 1)
		n := 0
		for _, item := range self.Items() {
			if st.same(item, p[0]) {
				n++
			}
		}
		return pyvalue.Int(int64(n))
	},
	"copy": func(st *state, self val, a *args) val {
		a.positional("copy", 0, 0)
		st.spend(valueSize * len(self.Items()))
		return pyvalue.NewList(append([]val(nil), self.Items()...))
	},
}

func (st *state) same(a, b val) bool {
	st.costOf(a)
	same, err := pyvalue.Same(a, b)
	check(err)
	return same
}
