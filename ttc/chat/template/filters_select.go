package template

import (
	"strings"

	"github.com/nat-go/nat-go/ttc/internal/pytext"
	"github.com/nat-go/nat-go/ttc/pyvalue"
)

func mapFilter(st *state, v val, a *args) val {
	return st.newLazyGenerator("sync_do_map", v, func() func(val) (val, bool) {
		f := st.mapped(a)
		return func(item val) (val, bool) { return f(item), true }
	})
}

// newLazyGenerator returns a generator over v that prepares its function on first use, as the generator functions in
// jinja2's filters do. The function returns the value to yield, and whether to yield it.
func (st *state) newLazyGenerator(name string, v val, prepare func() func(val) (val, bool)) val {
	var it iterator
	var f func(val) (val, bool)
	started := false
	return st.newGenerator(name, func() (val, bool) {
		if !started && v.Truth() {
			f = prepare()
			it = st.mustIterate(v)
		}
		started = true
		for item := range it.all {
			st.step()
			if out, keep := f(item); keep {
				return out, true
			}
		}
		return missing, false
	})
}

func (st *state) mapped(a *args) func(val) val {
	if len(a.plain) == 0 {
		if attribute, ok := a.get("attribute"); ok {
			a.refuse("map", 0, "default")
			if len(a.names) > 1 {
				throw("FilterArgumentError", "Unexpected keyword argument")
			}
			return st.attrGetter(attribute)
		}
		throw("FilterArgumentError", "map requires a filter argument")
	}
	name := a.plain[0]
	f := filters[name.Text()]
	rest := st.newArgs(a.plain[1:], a.names, a.named)
	return func(item val) val {
		if f == nil {
			refuseUnknown(st.pos, "TemplateRuntimeError", "filter", name.Text(), "")
		}
		st.applies(item, rest)
		return f(st, item, rest)
	}
}

func selectFilter(name string, byAttribute, keep bool) filterFunc {
	return func(st *state, v val, a *args) val {
		return st.newLazyGenerator("select_or_reject", v, func() func(val) (val, bool) {
			plain := a.plain
			get := func(v val) val { return v }
			if byAttribute {
				if len(plain) == 0 {
					throw("FilterArgumentError", "Missing parameter for attribute name")
				}
				get = st.attrGetter(plain[0])
				plain = plain[1:]
			}
			if len(plain) == 0 {
				return func(item val) (val, bool) { return item, get(item).Truth() == keep }
			}
			test := testNamed(plain[0].Text())
			rest := st.newArgs(plain[1:], a.names, a.named)
			return func(item val) (val, bool) {
				if test == nil {
					refuseUnknown(st.pos, "TemplateRuntimeError", "test", plain[0].Text(), "")
				}
				of := get(item)
				st.applies(of, rest)
				return item, test(st, of, rest) == keep
			}
		})
	}
}

// attrGetter looks up a dotted path; parts consisting of digits are indices.
func (st *state) attrGetter(attribute val) func(val) val {
	var parts []val
	switch {
	case attribute.Kind() == pyvalue.KindStr:
		for p := range strings.SplitSeq(attribute.Text(), ".") {
			v := pyvalue.Str(p)
			if i, ok := parseInt(p); ok && !strings.ContainsFunc(p, func(r rune) bool { return !pytext.IsDigit(r) }) {
				v = pyvalue.Int(i)
			}
			parts = append(parts, v)
		}
	case !attribute.IsNone() && !isMissing(attribute):
		parts = []val{attribute}
	}
	return func(v val) val {
		for _, p := range parts {
			v = st.getitem(v, p)
		}
		return v
	}
}
