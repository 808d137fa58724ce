package pyvalue

import (
	"fmt"
	"math"
	"math/big"
)

// Kind is the type of a value.
type Kind uint8

// The kinds of value. An Object is whatever else an interpreter built on this package needs (a function, a namespace).
const (
	KindNone Kind = iota
	KindBool
	KindInt
	KindFloat
	KindStr
	KindList
	KindTuple
	KindDict
	KindObject
)

// Value is a Python value. The zero Value is None. Values are immutable except that lists and dicts are shared by
// reference, as in Python.
type Value struct {
	kind Kind
	n    uint64 // bool, int64 or the bits of a float64
	s    string // text of a str
	ref  any    // *List, *Dict, Object; of a leaf: its tag (of a big int: bigInt)
}

// List is the content of a list or a tuple.
type List struct {
	Items []Value
	Tag   any // as a leaf's tag
}

// Object is a value of a kind that JSON doesn't have.
type Object interface {
	TypeName() string // Python's name of the type, for error messages
}

type bigInt struct {
	i   *big.Int
	tag any
}

// None is Python's None.
var None Value

// True and False are Python's booleans.
var (
	True  = Value{kind: KindBool, n: 1}
	False = Value{kind: KindBool}
)

// Bool makes a bool.
func Bool(b bool) Value {
	if b {
		return True
	}
	return False
}

// Int makes an int.
func Int(i int64) Value { return Value{kind: KindInt, n: uint64(i)} }

// BigInt makes an int of any size. The caller must not change i afterwards.
func BigInt(i *big.Int) Value {
	if i.IsInt64() {
		return Int(i.Int64())
	}
	return Value{kind: KindInt, ref: bigInt{i: i}}
}

// Float makes a float.
func Float(f float64) Value { return Value{kind: KindFloat, n: math.Float64bits(f)} }

// Str makes a str of WTF-8 text.
func Str(s string) Value { return Value{kind: KindStr, s: s} }

// TaggedStr makes a str that carries a tag.
func TaggedStr(s string, tag any) Value { return Value{kind: KindStr, s: s, ref: tag} }

// NewList makes a list that holds items.
func NewList(items []Value) Value { return Value{kind: KindList, ref: &List{Items: items}} }

// NewTuple makes a tuple that holds items.
func NewTuple(items ...Value) Value { return Value{kind: KindTuple, ref: &List{Items: items}} }

// OfDict makes a value of d.
func OfDict(d *Dict) Value { return Value{kind: KindDict, ref: d} }

// OfObject makes a value of o.
func OfObject(o Object) Value { return Value{kind: KindObject, ref: o} }

// Kind returns the kind of v.
func (v Value) Kind() Kind { return v.kind }

// IsNone reports whether v is None.
func (v Value) IsNone() bool { return v.kind == KindNone }

// IsTrue and IsFalse are identity tests, as `is True` and `is False`.
func (v Value) IsTrue() bool { return v.kind == KindBool && v.n == 1 }

// IsFalse reports whether v is False.
func (v Value) IsFalse() bool { return v.kind == KindBool && v.n == 0 }

// Text returns the text of a str, and "" for other kinds.
func (v Value) Text() string { return v.s }

// Int64 returns the value of an int or bool that fits, and whether it did.
func (v Value) Int64() (int64, bool) {
	if v.kind != KindInt && v.kind != KindBool || v.isBig() {
		return 0, false
	}
	return int64(v.n), true
}

// Big returns the value of an int or bool.
func (v Value) Big() *big.Int {
	if b, ok := v.ref.(bigInt); ok {
		return b.i
	}
	return big.NewInt(int64(v.n))
}

func (v Value) isBig() bool {
	if v.kind != KindInt || v.ref == nil {
		return false
	}
	_, ok := v.ref.(bigInt)
	return ok
}

// Float64 returns the value of a float, and 0 for other kinds.
func (v Value) Float64() float64 {
	if v.kind != KindFloat {
		return 0
	}
	return math.Float64frombits(v.n)
}

// IsNumber reports whether v is a bool, int or float.
func (v Value) IsNumber() bool { return v.kind == KindBool || v.kind == KindInt || v.kind == KindFloat }

// List returns the content of a list or tuple, and nil for other kinds.
func (v Value) List() *List {
	l, _ := v.ref.(*List)
	return l
}

// Items returns the elements of a list or tuple, and nil for other kinds. They must not be changed.
func (v Value) Items() []Value {
	if v.kind != KindList && v.kind != KindTuple {
		return nil
	}
	return v.ref.(*List).Items
}

// Dict returns the content of a dict, and nil for other kinds.
func (v Value) Dict() *Dict {
	d, _ := v.ref.(*Dict)
	return d
}

// Object returns the object of a KindObject value, and nil for other kinds.
func (v Value) Object() Object {
	if v.kind != KindObject {
		return nil
	}
	return v.ref.(Object)
}

// Tag returns what WithTag attached.
func (v Value) Tag() any {
	switch r := v.ref.(type) {
	case nil:
		return nil
	case *List:
		return r.Tag
	case *Dict:
		return r.Tag
	case bigInt:
		return r.tag
	}
	if v.kind == KindObject {
		return nil
	}
	return v.ref
}

// WithTag returns v carrying a tag in place of the one it had. Lists and dicts are not copied: set their Tag when they are
// made. Objects carry none.
func (v Value) WithTag(tag any) Value {
	switch v.kind {
	case KindList, KindTuple, KindDict, KindObject:
		return v
	}
	if v.isBig() {
		v.ref = bigInt{v.Big(), tag}
	} else {
		v.ref = tag
	}
	return v
}

// TypeName is Python's name of v's type.
func (v Value) TypeName() string {
	switch v.kind {
	case KindNone:
		return "NoneType"
	case KindBool:
		return "bool"
	case KindInt:
		return "int"
	case KindFloat:
		return "float"
	case KindStr:
		return "str"
	case KindList:
		return "list"
	case KindTuple:
		return "tuple"
	case KindDict:
		return "dict"
	}
	return v.Object().TypeName()
}

// Truth is bool(v). Objects are true unless they have a method `Truth() bool` that says otherwise.
func (v Value) Truth() bool {
	switch v.kind {
	case KindNone:
		return false
	case KindBool:
		return v.n != 0
	case KindInt:
		return v.n != 0 || v.isBig()
	case KindFloat:
		return v.Float64() != 0 // NaN is true
	case KindStr:
		return v.s != ""
	case KindList, KindTuple:
		return len(v.Items()) > 0
	case KindDict:
		return v.Dict().Len() > 0
	}
	if t, ok := v.ref.(interface{ Truth() bool }); ok {
		return t.Truth()
	}
	return true
}

// Error is a Python exception: what Python would have raised.
type Error struct {
	Class string // "TypeError", "ValueError", ...
	Text  string
}

func (e *Error) Error() string { return e.Class + ": " + e.Text }

// Errorf makes a Python exception.
func Errorf(class, format string, a ...any) *Error {
	return &Error{Class: class, Text: fmt.Sprintf(format, a...)}
}

// MaxDepth is how deep values may nest before printing, dumping or comparing them ends in Python's RecursionError.
const MaxDepth = 990

func errTooDeep() error {
	return Errorf("RecursionError", "maximum recursion depth exceeded")
}
