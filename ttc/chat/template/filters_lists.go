package template

import (
	"sort"
	"strings"

	"github.com/nat-go/nat-go/ttc/pyvalue"
)

// ignoreCase lower-cases texts for comparison.
func (st *state) ignoreCase(v val) val {
	if v.Kind() == pyvalue.KindStr {
		return st.lower(v)
	}
	return v
}

func dictsortFilter(st *state, v val, a *args) val {
	p := a.bind("dictsort", 0, "case_sensitive", "by", "reverse")
	by := or(p[1], pyvalue.Str("key")).Text()
	if by != "key" && by != "value" {
		throw("FilterArgumentError", "You can only sort by either \"key\" or \"value\"")
	}
	d := defined(v).Dict()
	if d == nil {
		throw("AttributeError", "'%s' object has no attribute 'items'", v.TypeName())
	}
	items := (&dictView{"items", d}).items()
	keys := make([]val, len(items))
	for i, item := range items {
		keys[i] = item.Items()[0]
		if by == "value" {
			keys[i] = item.Items()[1]
		}
		if !or(p[0], pyvalue.False).Truth() {
			keys[i] = st.ignoreCase(keys[i])
		}
	}
	return pyvalue.NewList(st.sorted(items, keys, isSet(p[2])))
}

// sorted sorts items by keys, stably, even when reversed.
func (st *state) sorted(items, keys []val, reversed bool) []val {
	order := make([]int, len(items))
	for i := range order {
		order[i] = i
	}
	st.spend(2 * valueSize * len(items))
	sort.SliceStable(order, func(i, j int) bool {
		x, y := keys[order[i]], keys[order[j]]
		if reversed {
			x, y = y, x
		}
		return st.holds("<", x, y)
	})
	out := make([]val, len(items))
	for i, k := range order {
		out[i] = items[k]
	}
	return out
}

func firstFilter(st *state, v val, a *args) val {
	a.bind("first", 0)
	it := st.mustIterate(v)
	if item, ok := it.next(); ok {
		return item
	}
	return undefinedHint("No first item, sequence was empty.")
}

func lastFilter(st *state, v val, a *args) val {
	a.bind("last", 0)
	if v.Kind() == pyvalue.KindObject {
		switch v.Object().(type) {
		case *dictView, *rangeObject, *undefined:
		default:
			throw("TypeError", "'%s' object is not reversible", v.TypeName())
		}
	} else if _, ok := length(v); !ok {
		throw("TypeError", "'%s' object is not reversible", v.TypeName())
	}
	if items := st.list(v); len(items) > 0 {
		return items[len(items)-1]
	}
	return undefinedHint("No last item, sequence was empty.")
}

func itemsFilter(st *state, v val, a *args) val {
	a.bind("items", 0)
	d, i := v.Dict(), -1
	empty := asUndefined(v) != nil
	return pyvalue.OfObject(&generator{"do_items", func() (val, bool) {
		if empty {
			return missing, false
		}
		if d == nil {
			throw("TypeError", "Can only get item pairs from a mapping.")
		}
		if i++; i >= d.Len() {
			return missing, false
		}
		pair := st.values(2)
		pair[0], pair[1] = d.At(i)
		return st.newTuple(pair), true
	}})
}

func listFilter(st *state, v val, a *args) val {
	a.bind("list", 0)
	items := st.list(v)
	st.spend(valueSize * len(items))
	return pyvalue.NewList(append([]val(nil), items...))
}

func sortFilter(st *state, v val, a *args) val {
	p := a.bind("sort", 0, "reverse", "case_sensitive", "attribute")
	sensitive := or(p[1], pyvalue.False).Truth()
	var gets []func(val) val
	if attr := or(p[2], pyvalue.None); attr.Kind() == pyvalue.KindStr {
		for _, part := range strings.Split(attr.Text(), ",") {
			gets = append(gets, st.attrGetter(pyvalue.Str(part), pyvalue.None))
		}
	} else {
		gets = append(gets, st.attrGetter(attr, pyvalue.None))
	}
	items := st.list(v)
	keys := make([]val, len(items))
	for i, item := range items {
		parts := make([]val, len(gets))
		for k, get := range gets {
			if parts[k] = get(item); !sensitive {
				parts[k] = st.ignoreCase(parts[k])
			}
		}
		keys[i] = pyvalue.NewList(parts)
	}
	return pyvalue.NewList(st.sorted(items, keys, isSet(p[0])))
}
