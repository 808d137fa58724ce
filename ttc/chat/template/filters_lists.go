package template

import (
	"slices"
	"sort"
	"strings"

	"github.com/nat-go/nat-go/ttc/pyvalue"
)

// ignoreCase lower-cases strings for comparison.
func (st *state) ignoreCase(v val) val {
	if v.Kind() == pyvalue.KindStr {
		return st.lower(v)
	}
	return v
}

func dictsortFilter(st *state, v val, a *args) val {
	a.refuse("dictsort", 0, "case_sensitive", "by", "reverse")
	a.bind("dictsort", 0)
	d := defined(v).Dict()
	if d == nil {
		throw("AttributeError", "'%s' object has no attribute 'items'", v.TypeName())
	}
	items := (&dictView{"items", d}).items()
	keys := make([]val, len(items))
	for i, item := range items {
		keys[i] = st.ignoreCase(item.Items()[0])
	}
	return pyvalue.NewList(st.sorted(items, keys))
}

func minFilter(st *state, v val, a *args) val {
	a.refuse("min", 0, "case_sensitive", "attribute")
	a.bind("min", 0)
	items := st.list(v)
	if len(items) == 0 {
		return undefinedHint("No aggregated item, sequence was empty.")
	}
	best := items[0]
	for _, item := range items[1:] {
		st.step()
		if st.holds("<", st.ignoreCase(item), st.ignoreCase(best)) {
			best = item
		}
	}
	return best
}

// uniqueFilter yields the items without duplicates. Of several items that differ only in case, it yields the first.
func uniqueFilter(st *state, v val, a *args) val {
	a.refuse("unique", 0, "case_sensitive", "attribute")
	a.bind("unique", 0)
	seen := &pyvalue.Dict{}
	var it iterator
	started := false
	return st.newGenerator("sync_do_unique", func() (val, bool) {
		if !started {
			it, started = st.mustIterate(v), true
		}
		for item := range it.all {
			st.step()
			key := st.ignoreCase(item)
			st.hashes(key)
			known, err := seen.Contains(key)
			check(err)
			if !known {
				st.spend(4 * valueSize)
				check(seen.Set(key, pyvalue.None))
				return item, true
			}
		}
		return missing, false
	})
}

// sorted sorts items stably by their keys.
func (st *state) sorted(items, keys []val) []val {
	order := make([]int, len(items))
	for i := range order {
		order[i] = i
	}
	st.spend(2 * valueSize * len(items))
	sort.SliceStable(order, func(i, j int) bool {
		return st.holds("<", keys[order[i]], keys[order[j]])
	})
	out := make([]val, len(items))
	for i, k := range order {
		out[i] = items[k]
	}
	return out
}

func firstFilter(st *state, v val) val {
	it := st.mustIterate(v)
	if item, ok := it.next(); ok {
		return item
	}
	return undefinedHint("No first item, sequence was empty.")
}

func lastFilter(st *state, v val) val {
	switch v.Object().(type) {
	case *dictView, *rangeObject, *undefined:
	default:
		if !isSequence(v) {
			throw("TypeError", "'%s' object is not reversible", v.TypeName())
		}
	}
	if items := st.list(v); len(items) > 0 {
		return items[len(items)-1]
	}
	return undefinedHint("No last item, sequence was empty.")
}

func itemsFilter(st *state, v val) val {
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

func listFilter(st *state, v val) val {
	items := st.list(v)
	st.spend(valueSize * len(items))
	return pyvalue.NewList(slices.Clone(items))
}

func sortFilter(st *state, v val, a *args) val {
	a.refuse("sort", 0, "reverse", "case_sensitive")
	attr := a.bind("sort", 0, "attribute")[0]
	if strings.Contains(attr.Text(), ",") {
		throwUnsupported("sorting by several attributes")
	}
	get := st.attrGetter(attr)
	items := st.list(v)
	keys := make([]val, len(items))
	for i, item := range items {
		keys[i] = pyvalue.NewList([]val{st.ignoreCase(get(item))}) // in a list, undefined values compare equal
	}
	return pyvalue.NewList(st.sorted(items, keys))
}
