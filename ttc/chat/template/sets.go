package template

import (
	"slices"

	"github.com/nat-go/nat-go/ttc/pyvalue"
)

// set is Python's set, which templates get by subtracting from the keys or items of a dict. Its items stand in the
// order they were added in; Python's order follows their hashes, and those of texts change from process to process.
type set struct{ dict *pyvalue.Dict } // whose keys they are

func (*set) TypeName() string { return "set" }
func (s *set) Truth() bool    { return s.dict.Len() > 0 }
func (*set) Unhashable() bool { return true }

// AppendRepr prints a set with its content.
func (s *set) AppendRepr(dst []byte, mark pyvalue.Marker, depth int) ([]byte, error) {
	if !s.Truth() {
		return append(dst, "set()"...), nil
	}
	start := len(dst)
	dst, err := pyvalue.AppendReprAt(dst, pyvalue.NewList(s.dict.Keys()), mark, depth)
	if err == nil {
		dst[start], dst[len(dst)-1] = '{', '}'
	}
	return dst, err
}

func asSet(v val) *set {
	if v.Kind() != pyvalue.KindObject {
		return nil
	}
	s, _ := v.Object().(*set)
	return s
}

// isKeyed reports whether v is a view of a dict's keys or items, which Python treats as sets.
func isKeyed(v val) bool {
	d := asView(v)
	return d != nil && d.kind != "values"
}

// setOf is set(v).
func (st *state) setOf(v val) *set {
	s := &set{&pyvalue.Dict{}}
	st.addTo(s, v)
	return s
}

func (st *state) addTo(s *set, v val) {
	for it := st.mustIterate(v); ; {
		item, ok := it.next()
		if !ok {
			return
		}
		st.add1(s, item)
	}
}

func (st *state) add1(s *set, item val) {
	st.step()
	st.hashes(item)
	st.spend(2 * valueSize)
	check(s.dict.Set(item, pyvalue.None))
}

// where returns the items of a set for which keep is true.
func (st *state) where(s *set, keep func(item val) bool) *set {
	out := &set{&pyvalue.Dict{}}
	for _, item := range s.dict.Keys() {
		if keep(item) {
			st.add1(out, item)
		}
	}
	return out
}

// minus returns the items of a set that none of the others has.
func (st *state) minus(s *set, others ...val) *set {
	for _, o := range others {
		gone := st.setOf(o)
		s = st.where(s, func(item val) bool { return !st.in(item, pyvalue.OfDict(gone.dict)) })
	}
	return s
}

// subtract is a - b if one of them is a set or like one.
func (st *state) subtract(a, b val) (val, bool) {
	x, y := asSet(a), asSet(b)
	if x != nil && y != nil {
		return pyvalue.OfObject(st.minus(x, b)), true
	}
	if !isKeyed(a) && !isKeyed(b) {
		return missing, false
	}
	return pyvalue.OfObject(st.minus(st.setOf(a), b)), true
}

// compareSets is `a op b` for two sets or views of keys or items; otherwise it returns false.
func (st *state) compareSets(op string, a, b val) (is, ok bool) {
	if asSet(a) == nil && !isKeyed(a) || asSet(b) == nil && !isKeyed(b) {
		return false, false
	}
	m, _ := length(a)
	n, _ := length(b)
	switch op {
	case "==", "!=":
		return (m == n && st.isWithin(a, b)) == (op == "=="), true
	case "<":
		return m < n && st.isWithin(a, b), true
	case "<=":
		return m <= n && st.isWithin(a, b), true
	case ">":
		return m > n && st.isWithin(b, a), true
	}
	return m >= n && st.isWithin(b, a), true
}

// isWithin reports whether b has every item of a.
func (st *state) isWithin(a, b val) bool {
	return !slices.ContainsFunc(st.list(a), func(item val) bool { return !st.in(item, b) })
}

// inItems is `item in d.items()`.
func (st *state) inItems(item val, d *pyvalue.Dict) bool {
	if item.Kind() != pyvalue.KindTuple || len(item.Items()) != 2 {
		return false
	}
	st.hashes(item.Items()[0])
	v, ok, err := d.Get(item.Items()[0])
	check(err)
	return ok && st.same(v, item.Items()[1])
}

// setAttribute is an attribute of a set that the sandbox lets templates use.
func (st *state) setAttribute(v val, name string) (val, bool) {
	switch name {
	case "add", "clear", "difference_update", "discard", "pop", "remove", "symmetric_difference_update", "update":
		return st.unsafe(v, name), true
	}
	if m := setMethods[name]; m != nil {
		return boundMethod(v, name, m), true
	}
	return missing, false
}

var setMethods = map[string]method{
	"copy": func(st *state, self val, a *args) val {
		a.positional("copy", 0, 0)
		return pyvalue.OfObject(st.setOf(self))
	},
	"difference": func(st *state, self val, a *args) val {
		return pyvalue.OfObject(st.minus(st.setOf(self), a.iterables("difference")...))
	},
	"intersection": func(st *state, self val, a *args) val {
		return pyvalue.OfObject(st.common(asSet(self), a.iterables("intersection")))
	},
	"intersection_update": func(st *state, self val, a *args) val { // forgotten by jinja2's sandbox
		asSet(self).dict = st.common(asSet(self), a.iterables("intersection_update")).dict
		return pyvalue.None
	},
	"union": func(st *state, self val, a *args) val {
		s := st.setOf(self)
		for _, o := range a.iterables("union") {
			st.addTo(s, o)
		}
		return pyvalue.OfObject(s)
	},
	"symmetric_difference": func(st *state, self val, a *args) val {
		other := st.setOf(a.positional("symmetric_difference", 1, 1)[0])
		s := st.minus(asSet(self), pyvalue.OfObject(other))
		st.addTo(s, pyvalue.OfObject(st.minus(other, self)))
		return pyvalue.OfObject(s)
	},
	"issubset": func(st *state, self val, a *args) val {
		other := st.setOf(a.positional("issubset", 1, 1)[0])
		return pyvalue.Bool(st.isWithin(self, pyvalue.OfObject(other)))
	},
	"issuperset": func(st *state, self val, a *args) val {
		return pyvalue.Bool(st.isWithin(a.positional("issuperset", 1, 1)[0], self))
	},
	"isdisjoint": isDisjoint,
}

// isDisjoint is the method of that name of sets and of the keys and items of dicts.
func isDisjoint(st *state, self val, a *args) val {
	other := st.list(a.positional("isdisjoint", 1, 1)[0])
	return pyvalue.Bool(!slices.ContainsFunc(other, func(item val) bool { return st.in(item, self) }))
}

// iterables are the arguments of a method that takes any number of iterables.
func (a *args) iterables(fn string) []val {
	if len(a.names) > 0 {
		throw("TypeError", "set.%s() takes no keyword arguments", fn)
	}
	return a.plain
}

// common returns the items of a set that all others have.
func (st *state) common(s *set, others []val) *set {
	s = st.setOf(pyvalue.OfObject(s))
	for _, o := range others {
		in := st.setOf(o)
		s = st.where(s, func(item val) bool { return st.in(item, pyvalue.OfDict(in.dict)) })
	}
	return s
}
