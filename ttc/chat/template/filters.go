package template

import (
	"github.com/nat-go/nat-go/ttc/pyvalue"
)

type filterFunc func(st *state, v val, a *args) val

// filters are the supported filters of jinja2, with transformers' own tojson.
var filters = map[string]filterFunc{
	"capitalize": textFilter("capitalize", (*state).capitalize),
	"count":      plainFilter("length", lengthFilter),
	"d":          defaultFilter,
	"default":    defaultFilter,
	"dictsort":   dictsortFilter,
	"e":          plainFilter("escape", (*state).escape),
	"escape":     plainFilter("escape", (*state).escape),
	"first":      plainFilter("first", firstFilter),
	"format":     formatFilter,
	"indent":     indentFilter,
	"int":        intFilter,
	"items":      plainFilter("items", itemsFilter),
	"join":       joinFilter,
	"last":       plainFilter("last", lastFilter),
	"length":     plainFilter("length", lengthFilter),
	"list":       plainFilter("list", listFilter),
	"lower":      textFilter("lower", (*state).lower),
	"min":        minFilter,
	"reject":     selectFilter("reject", false, false),
	"rejectattr": selectFilter("rejectattr", true, false),
	"replace":    replaceFilter,
	"safe":       textFilter("safe", safeFilter),
	"select":     selectFilter("select", false, true),
	"selectattr": selectFilter("selectattr", true, true),
	"sort":       sortFilter,
	"string":     plainFilter("string", (*state).softText),
	"title":      textFilter("title", (*state).titleWords),
	"tojson":     tojsonFilter,
	"trim":       trimFilter,
	"unique":     uniqueFilter,
	"upper":      textFilter("upper", (*state).upper),
}

func init() { filters["map"] = mapFilter } // avoids an initialization cycle: mapFilter looks up filters

// plainFilter returns a filter without arguments, and textFilter returns one that is applied to str(v).
func plainFilter(name string, f func(st *state, v val) val) filterFunc {
	return func(st *state, v val, a *args) val {
		a.bind(name, 0)
		return f(st, v)
	}
}

func textFilter(name string, f func(st *state, v val) val) filterFunc {
	return plainFilter(name, func(st *state, v val) val { return f(st, st.softText(v)) })
}

func lengthFilter(_ *state, v val) val {
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

func safeFilter(_ *state, v val) val { return str(v.Text(), markupProv(rawProv(v))) }
