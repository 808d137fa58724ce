package template

import (
	"github.com/nat-go/nat-go/ttc/pyvalue"
)

var filters = map[string]filterFunc{
	"capitalize": textFilter("capitalize", (*state).capitalize),
	"count":      lengthFilter,
	"d":          defaultFilter,
	"default":    defaultFilter,
	"dictsort":   dictsortFilter,
	"e":          escapeFilter,
	"escape":     escapeFilter,
	"first":      firstFilter,
	"format":     formatFilter,
	"indent":     indentFilter,
	"int":        intFilter,
	"items":      itemsFilter,
	"join":       joinFilter,
	"last":       lastFilter,
	"length":     lengthFilter,
	"list":       listFilter,
	"lower":      textFilter("lower", (*state).lower),
	"map":        mapFilter,
	"min":        minFilter,
	"reject":     selectFilter("reject", false, false),
	"rejectattr": selectFilter("rejectattr", true, false),
	"replace":    replaceFilter,
	"safe":       safeFilter,
	"select":     selectFilter("select", false, true),
	"selectattr": selectFilter("selectattr", true, true),
	"sort":       sortFilter,
	"string":     func(st *state, v val, a *args) val { a.bind("string", 0); return st.softText(v) },
	"title":      textFilter("title", (*state).titleWords),
	"tojson":     tojsonFilter,
	"trim":       trimFilter,
	"unique":     uniqueFilter,
	"upper":      textFilter("upper", (*state).upper),
}

func textFilter(name string, f func(st *state, v val) val) filterFunc {
	return func(st *state, v val, a *args) val {
		a.bind(name, 0)
		return f(st, st.softText(v))
	}
}

func lengthFilter(_ *state, v val, a *args) val {
	a.bind("length", 0)
	n, ok := length(v)
	if !ok {
		throw("TypeError", "object of type '%s' has no len()", v.TypeName())
	}
	return pyvalue.Int(int64(n))
}

func defaultFilter(_ *state, v val, a *args) val {
	p := a.bind("default", 0, "default_value", "boolean")
	if asUndefined(v) != nil || !isMissing(p[1]) && p[1].Truth() && !v.Truth() {
		return or(p[0], pyvalue.Str(""))
	}
	return v
}

func escapeFilter(st *state, v val, a *args) val {
	a.bind("escape", 0)
	return st.escape(v)
}

func safeFilter(st *state, v val, a *args) val {
	a.bind("safe", 0)
	v = st.softText(v)
	return str(v.Text(), markupProv(rawProv(v)))
}
