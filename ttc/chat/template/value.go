package template

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/nat-go/nat-go/ttc/internal/pytext"
	"github.com/nat-go/nat-go/ttc/pyvalue"
)

type val = pyvalue.Value

// missing is the value of an unset variable or an omitted argument.
var missing = pyvalue.OfSentinel(&absent{})

type absent struct{ _ byte }

func (*absent) TypeName() string { return "MissingType" }

func isMissing(v val) bool { return v.IsSentinel() }

// undefined is jinja2's lenient Undefined: it prints as an empty string, is false, iterates as empty and equals other
// undefined values; most other uses raise an error.
type undefined struct {
	hint   string
	of     val // the value that lacks the attribute or item; missing for an undefined variable
	name   val
	unsafe bool // the attribute exists, but the sandbox forbids it
}

func (*undefined) TypeName() string            { return "Undefined" }
func (*undefined) Truth() bool                 { return false }
func (*undefined) length() int                 { return 0 }
func (*undefined) Str() string                 { return "" }
func (*undefined) Repr() string                { return "Undefined" }
func (*undefined) Hash() string                { return "Undefined" }
func (*undefined) Equal(o pyvalue.Object) bool { _, ok := o.(*undefined); return ok }

func undefinedName(name string) val {
	return pyvalue.OfObject(&undefined{of: missing, name: pyvalue.Str(name)})
}

func undefinedHint(hint string) val { return pyvalue.OfObject(&undefined{hint: hint, of: missing}) }

func undefinedIn(of, name val) val { return pyvalue.OfObject(&undefined{of: of, name: name}) }

func asUndefined(v val) *undefined {
	u, _ := v.Object().(*undefined)
	return u
}

// raise raises jinja2's error for a forbidden use of an undefined value.
func (u *undefined) raise() {
	switch {
	case u.unsafe:
		throw("SecurityError", "access to attribute '%s' of '%s' object is unsafe.", u.name.Text(), u.of.TypeName())
	case u.hint != "":
		throw("UndefinedError", "%s", u.hint)
	case isMissing(u.of):
		throw("UndefinedError", "'%s' is undefined", u.name.Text())
	}
	of := u.of.TypeName() + " object"
	if u.of.IsNone() {
		of = "None"
	}
	if u.name.Kind() == pyvalue.KindStr {
		throw("UndefinedError", "'%s' has no attribute %s", of, reprOf(u.name))
	}
	throw("UndefinedError", "%s has no element %s", of, reprOf(u.name))
}

// reprOf returns repr(v), shortened for an error message.
func reprOf(v val) string {
	const maxBytes = 200
	if s := v.Text(); len(s) > maxBytes {
		v = pyvalue.Str(strings.ToValidUTF8(s[:maxBytes], ""))
		s, _ := pyvalue.Repr(v) // v is a str, so Repr can't fail
		return s + "..."
	}
	if parts := maxBytes; !isSmall(v, &parts) {
		return "a large " + v.TypeName()
	}
	s, err := pyvalue.Repr(v)
	if err != nil {
		return v.TypeName()
	}
	if len(s) > maxBytes {
		s = strings.ToValidUTF8(s[:maxBytes], "") + "..."
	}
	return s
}

// isSmall reports whether the total number of values and text bytes in v is at most *parts, which it counts down.
func isSmall(v val, parts *int) bool {
	if *parts -= 1 + len(v.Text()); *parts < 0 {
		return false
	}
	switch v.Kind() {
	case pyvalue.KindList, pyvalue.KindTuple:
		return !slices.ContainsFunc(v.Items(), func(e val) bool { return !isSmall(e, parts) })
	case pyvalue.KindDict:
		return isSmall(pyvalue.NewList(v.Dict().Keys()), parts) && isSmall(pyvalue.NewList(v.Dict().Values()), parts)
	case pyvalue.KindObject: // a namespace or a view may contain values of any size
		_, prints := v.Object().(pyvalue.Printer)
		return !prints
	}
	return true
}

// defined returns v, or raises an error if it is undefined.
func defined(v val) val {
	if u := asUndefined(v); u != nil {
		u.raise()
	}
	return v
}

// namespace is the only kind of value that templates may change.
type namespace struct{ attrs *pyvalue.Dict }

func (*namespace) TypeName() string { return "Namespace" }

// AppendRepr prints a namespace along with its content.
func (n *namespace) AppendRepr(dst []byte, mark pyvalue.Marker, depth int) ([]byte, error) {
	dst, err := pyvalue.AppendReprAt(append(dst, "<Namespace "...), pyvalue.OfDict(n.attrs), mark, depth)
	return append(dst, '>'), err
}

// callable is a function, method or class that templates may call.
type callable struct {
	kind string // its Python type: function, type or builtin_function_or_method
	name string // the name that Python prints
	fn   func(st *state, a *args) val
}

// address replaces the varying address that Python prints for an object.
const address = "0x7f0000000000"

func (c *callable) TypeName() string { return c.kind }

// Repr prints a callable without its receiver or address.
func (c *callable) Repr() string {
	if c.kind == "type" {
		return "<class '" + c.name + "'>"
	}
	return "<" + c.kind + " " + c.name + ">"
}

func function(name string, fn func(st *state, a *args) val) val {
	return pyvalue.OfObject(&callable{"function", name, fn})
}

func class(name string, fn func(st *state, a *args) val) val {
	return pyvalue.OfObject(&callable{"type", name, fn})
}

// args are the arguments of a call.
type args struct {
	st    *state
	plain []val
	names []string
	named []val
}

// bind matches arguments to parameters as Python does: the first required parameters need an argument, the others are
// optional.
func (a *args) bind(fn string, required int, params ...string) []val {
	if len(params) == 0 && a.none() {
		return nil
	}
	if len(a.plain) > len(params) {
		throw("TypeError", "%s() takes %d positional arguments but %d were given", fn, len(params), len(a.plain))
	}
	out := a.padded(len(params))
	for k, name := range a.names {
		i := slices.Index(params, name)
		if i < 0 {
			throw("TypeError", "%s() got an unexpected keyword argument '%s'", fn, name)
		}
		if !isMissing(out[i]) {
			throw("TypeError", "%s() got multiple values for argument '%s'", fn, name)
		}
		out[i] = a.named[k]
	}
	for i := range required {
		if isMissing(out[i]) {
			throw("TypeError", "%s() missing a required argument: '%s'", fn, params[i])
		}
	}
	return out
}

// padded returns n plain arguments, with the value missing for the omitted ones.
func (a *args) padded(n int) []val {
	out := a.st.values(n)
	for i := copy(out, a.plain); i < n; i++ {
		out[i] = missing
	}
	return out
}

// none reports whether no argument was given.
func (a *args) none() bool { return len(a.plain)+len(a.names) == 0 }

func (a *args) get(name string) (val, bool) {
	if i := slices.Index(a.names, name); i >= 0 {
		return a.named[i], true
	}
	return missing, false
}

func or(v, otherwise val) val {
	if isMissing(v) {
		return otherwise
	}
	return v
}

// iterator yields the items of an iterable.
type iterator struct {
	items []val              // remaining items, if all are known
	draw  func() (val, bool) // for an iterator that produces items on demand; else nil
}

func (it *iterator) next() (val, bool) {
	if it.draw != nil {
		return it.draw()
	}
	if len(it.items) == 0 {
		return missing, false
	}
	item := it.items[0]
	it.items = it.items[1:]
	return item, true
}

// all yields the remaining items.
func (it *iterator) all(yield func(val) bool) {
	for item, ok := it.next(); ok && yield(item); item, ok = it.next() {
	}
}

func slice(items []val) iterator { return iterator{items: items} }

// generator is a Python iterator that can be consumed only once.
type generator struct {
	name string // name of the function that made it
	next func() (val, bool)
}

func (*generator) TypeName() string { return "generator" }

// Repr prints an address as Python does, but always the same address.
func (g *generator) Repr() string { return "<generator object " + g.name + " at " + address + ">" }

// maxGenerators is the maximum number of generators that may draw from one another.
const maxGenerators = 500

func (st *state) newGenerator(name string, next func() (val, bool)) val {
	return pyvalue.OfObject(&generator{name, func() (val, bool) {
		if st.nested++; st.nested > maxGenerators {
			throw("RecursionError", "maximum recursion depth exceeded")
		}
		v, ok := next()
		st.nested--
		return v, ok
	}})
}

// dictView is the value returned by a dict's keys(), values() or items().
type dictView struct {
	kind string // "keys", "values", "items"
	dict *pyvalue.Dict
}

func (d *dictView) TypeName() string { return "dict_" + d.kind }
func (d *dictView) Truth() bool      { return d.length() > 0 }
func (d *dictView) length() int      { return d.dict.Len() }
func (d *dictView) Unhashable() bool { return d.kind != "values" }

// AppendRepr prints a view along with its content.
func (d *dictView) AppendRepr(dst []byte, mark pyvalue.Marker, depth int) ([]byte, error) {
	dst = append(append(dst, d.TypeName()...), '(')
	dst, err := pyvalue.AppendReprAt(dst, pyvalue.NewList(d.items()), mark, depth)
	return append(dst, ')'), err
}

func (d *dictView) items() []val {
	switch d.kind {
	case "keys":
		return d.dict.Keys()
	case "values":
		return d.dict.Values()
	}
	n := d.dict.Len()
	room := make([]val, 3*n) // memory for the tuples and their items
	out, pairs := room[:n:n], room[n:]
	for i := range out {
		pair := pairs[2*i : 2*i+2 : 2*i+2]
		pair[0], pair[1] = d.dict.At(i)
		out[i] = pyvalue.NewTuple(pair...)
	}
	return out
}

// rangeObject implements Python's range(start, stop, step).
type rangeObject struct{ start, stop, step int64 }

func (*rangeObject) TypeName() string { return "range" }
func (r *rangeObject) length() int    { return count(int(r.start), int(r.stop), int(r.step)) }
func (r *rangeObject) Truth() bool    { return r.length() > 0 }
func (r *rangeObject) at(i int) val   { return pyvalue.Int(r.start + int64(i)*r.step) }
func (r *rangeObject) Hash() string   { return fmt.Sprint("range", r.normal()) }

// normal returns a normal form that is equal for ranges over the same numbers.
func (r *rangeObject) normal() [3]int64 {
	switch n := r.length(); n {
	case 0:
		return [3]int64{}
	case 1:
		return [3]int64{1, r.start, 0}
	default:
		return [3]int64{int64(n), r.start, r.step}
	}
}

func (r *rangeObject) Equal(o pyvalue.Object) bool {
	other, ok := o.(*rangeObject)
	return ok && r.normal() == other.normal()
}

func (r *rangeObject) Repr() string {
	if r.step == 1 {
		return fmt.Sprintf("range(%d, %d)", r.start, r.stop)
	}
	return fmt.Sprintf("range(%d, %d, %d)", r.start, r.stop, r.step)
}

// sized is a kind of object that has a length in Python.
type sized interface{ length() int }

// length implements len(v). It returns false if v doesn't have a length in Python.
func length(v val) (int, bool) {
	switch v.Kind() {
	case pyvalue.KindStr:
		return pytext.Len(v.Text()), true
	case pyvalue.KindList, pyvalue.KindTuple:
		return len(v.Items()), true
	case pyvalue.KindDict:
		return v.Dict().Len(), true
	}
	if o, ok := v.Object().(sized); ok {
		return o.length(), true
	}
	return 0, false
}

func isIterable(v val) bool {
	switch v.Object().(type) {
	case sized, *generator:
		return true
	}
	return isSequence(v)
}

// iterate returns an iterator over v, or false if v isn't iterable in Python.
func (st *state) iterate(v val) (iterator, bool) {
	switch v.Kind() {
	case pyvalue.KindStr:
		return st.runes(v), true
	case pyvalue.KindList, pyvalue.KindTuple:
		l := v.List()
		return slice(l.Items), true
	case pyvalue.KindDict:
		return slice(v.Dict().Keys()), true
	case pyvalue.KindObject:
		switch o := v.Object().(type) {
		case *undefined:
			return slice(nil), true
		case *dictView:
			if o.kind == "items" {
				st.spend(3 * valueSize * o.dict.Len())
			}
			return slice(o.items()), true
		case *rangeObject:
			i, n := -1, o.length()
			return iterator{draw: func() (val, bool) {
				if i++; i >= n {
					return missing, false
				}
				st.step()
				return o.at(i), true
			}}, true
		case *generator:
			return iterator{draw: o.next}, true
		case *loop:
			throwUnsupported("going through loop")
		}
	}
	return iterator{}, false
}

func (st *state) runes(v val) iterator {
	s, p, i := v.Text(), plainProv(provOf(v)), 0 // the characters of a Markup are plain strings
	whole := str(s, p)
	return iterator{draw: func() (val, bool) {
		if i >= len(s) {
			return missing, false
		}
		st.step()
		_, n := pytext.DecodeRune(s[i:])
		r := str(s[i:i+n], nil)
		if p != nil {
			r = st.cut(whole, i, i+n)
		}
		i += n
		return r, true
	}}
}

// mustIterate is like iterate, but raises Python's TypeError.
func (st *state) mustIterate(v val) iterator {
	it, ok := st.iterate(v)
	if !ok {
		throw("TypeError", "'%s' object is not iterable", v.TypeName())
	}
	return it
}

// list implements list(v).
func (st *state) list(v val) []val {
	if v.Kind() == pyvalue.KindList || v.Kind() == pyvalue.KindTuple {
		return v.Items()
	}
	var out []val
	it := st.mustIterate(v)
	for item := range it.all {
		st.step()
		st.spend(valueSize)
		out = append(out, item)
	}
	return out
}

// valueSize is the number of bytes that are counted against the limit for each list element.
const valueSize = 48

// index implements operator.index(v): it returns the value of an int or bool, clamped to the range of an int, and
// throws Python's error for anything else.
func index(v val) int {
	if v.Kind() != pyvalue.KindInt && v.Kind() != pyvalue.KindBool {
		throw("TypeError", "'%s' object cannot be interpreted as an integer", v.TypeName())
	}
	i, ok := v.Int64()
	if !ok {
		if v.Big().Sign() < 0 {
			return math.MinInt
		}
		return math.MaxInt
	}
	return int(i)
}
