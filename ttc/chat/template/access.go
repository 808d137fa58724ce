package template

import (
	"slices"
	"strings"

	"github.com/nat-go/nat-go/ttc/internal/pytext"
	"github.com/nat-go/nat-go/ttc/pyvalue"
)

// changing lists the methods that the immutable sandbox forbids.
var changing = map[pyvalue.Kind][]string{
	pyvalue.KindList: {"append", "clear", "pop", "reverse", "insert", "sort", "extend", "remove"},
	pyvalue.KindDict: {"clear", "pop", "popitem", "setdefault", "update"},
}

// attributeOf implements Python's getattr. It returns a method or attribute of v's type, or false if the name
// doesn't exist.
func (st *state) attributeOf(v val, name string) (val, bool) {
	if strings.HasPrefix(name, "__") && strings.HasSuffix(name, "__") && len(name) > 4 &&
		isDunder(v, name[2:len(name)-2]) {
		return st.unsafe(v, name), true
	}
	if slices.Contains(changing[v.Kind()], name) {
		return st.unsafe(v, name), true
	}
	var table map[string]method
	switch v.Kind() {
	case pyvalue.KindStr:
		table = stringMethods
	case pyvalue.KindDict:
		table = dictMethods
	case pyvalue.KindObject:
		return st.objectAttribute(v, name)
	}
	m := table[name]
	if m == nil {
		refuseUnsupported(v, name)
		return missing, false
	}
	return pyvalue.OfObject(&callable{"builtin_function_or_method", name, func(st *state, a *args) val {
		st.reads(v)
		st.reads(a.plain...)
		return m(st, v, a)
	}}), true
}

// isDunder reports whether v has __name__.
func isDunder(v val, name string) bool {
	switch name {
	case "len", "iter", "getitem", "contains":
		_, sized := length(v)
		return sized
	case "class", "doc", "init", "new", "repr", "str", "eq", "ne", "lt", "le", "gt", "ge", "hash", "dir", "format",
		"getattribute", "setattr", "delattr", "reduce", "reduce_ex", "sizeof", "init_subclass", "subclasshook",
		"getstate":
		return true
	}
	return false
}

func (st *state) unsafe(v val, name string) val {
	return pyvalue.OfObject(&undefined{of: v, name: pyvalue.Str(name), unsafe: true})
}

func (st *state) objectAttribute(v val, name string) (val, bool) {
	switch o := v.Object().(type) {
	case *undefined:
		o.raise()
	case *namespace:
		return o.attrs.GetStr(name)
	case *loop:
		return o.attribute(name)
	}
	refuseUnsupported(v, name)
	return missing, false
}

// subscript implements Python's v[i]. It returns false if Python would raise TypeError or LookupError.
func (st *state) subscript(v, i val) (val, bool) {
	switch v.Kind() {
	case pyvalue.KindDict:
		st.hashes(i)
		item, ok, err := v.Dict().Get(i)
		return item, ok && err == nil
	case pyvalue.KindList, pyvalue.KindTuple:
		items := v.Items()
		if n, ok := normalIndex(i, len(items)); ok {
			return items[n], true
		}
	case pyvalue.KindStr:
		s := v.Text()
		st.reads(v)
		if n, ok := normalIndex(i, pytext.Len(s)); ok {
			a := pytext.ByteIndex(s, n)
			_, size := pytext.DecodeRune(s[a:])
			return st.cut(v, a, a+size), true
		}
	case pyvalue.KindObject:
		switch o := v.Object().(type) {
		case *undefined:
			o.raise()
		case *rangeObject:
			if n, ok := normalIndex(i, o.length()); ok {
				return o.at(n), true
			}
		}
	}
	return missing, false
}

// normalIndex converts an index into a sequence of n elements to a non-negative one. It returns false if i is out of
// range or not an int.
func normalIndex(i val, n int) (int, bool) {
	if i.Kind() != pyvalue.KindInt && i.Kind() != pyvalue.KindBool {
		return 0, false
	}
	x, ok := i.Int64()
	if !ok {
		return 0, false
	}
	if x < 0 {
		x += int64(n)
	}
	return int(x), x >= 0 && x < int64(n)
}

// safe hides attributes that the sandbox considers private.
func (st *state) safe(v, attr val, name string) val {
	if name[0] == '_' {
		return st.unsafe(v, name)
	}
	return attr
}

// getattr implements v.name. An attribute takes precedence over an item.
func (st *state) getattr(v, name val) val {
	st.step()
	n := name.Text()
	if a, ok := st.attributeOf(v, n); ok {
		return st.safe(v, a, n)
	}
	if item, ok := st.subscript(v, name); ok {
		return item
	}
	return undefinedIn(v, name)
}

func isChanging(name string) bool {
	return slices.Contains(changing[pyvalue.KindDict], name)
}

// getitem implements v[i]. If there is no item and i is a string, it returns the attribute.
func (st *state) getitem(v, i val) val {
	st.step()
	if item, ok := st.subscript(v, i); ok {
		return item
	}
	if i.Kind() == pyvalue.KindStr && i.Text() != "" {
		if a, ok := st.attributeOf(v, i.Text()); ok {
			return st.safe(v, a, i.Text())
		}
	}
	return undefinedIn(v, i)
}

// callValue calls v.
func (st *state) callValue(v val, a *args) val {
	st.step()
	switch o := v.Object().(type) {
	case *undefined:
		o.raise()
	case *callable:
		return o.fn(st, a)
	case *macro:
		return st.callMacro(o, a)
	}
	throw("TypeError", "'%s' object is not callable", v.TypeName())
	return missing
}
