package pyvalue

import (
	"fmt"
	"math"
	"math/big"
	"unsafe"
)

// Kind is the type of a value.
type Kind uint8

// The kinds of value. An Object is anything else that an interpreter built on this package needs (a function, a
// namespace).
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

// Value is a Python value. The zero Value means None. Values are immutable except that lists and dicts are shared by
// reference, as in Python.
//
// Numbers and strings don't need an additional allocation. A leaf has a tag, in which the template engine records where
// a string came from. This package reads a tag only to find the name of a subclass of str for repr (see subclass).
//
// A Value has four words, because the compiler keeps values up to that size in registers, and an interpreter
// constantly passes values.
type Value struct {
	kind Kind
	n    uint64         // a bool, an int64, a float64's bits, or a text's length
	p    unsafe.Pointer // *byte (the first of a text), *List, *Dict, *Object, or *big.Int for an int beyond int64
	tag  *Tag           // a leaf's tag; see Tag
}

// Tag is data that an interpreter attaches to a leaf. It is meant to be embedded in the struct that Of points to.
type Tag struct{ Of any }

// List is the content of a list or a tuple.
type List struct {
	Items []Value
	Tag   any // see Tag
}

// Object is a kind of value that JSON doesn't have.
type Object interface {
	TypeName() string // Python's name of the type, for error messages
}

// None is Python's None.
var None Value

// True and False are Python's booleans.
var (
	True  = Value{kind: KindBool, n: 1}
	False = Value{kind: KindBool}
)

// Bool returns a bool.
func Bool(b bool) Value {
	if b {
		return True
	}
	return False
}

// Int returns a Python int equal to i.
func Int(i int64) Value { return Value{kind: KindInt, n: uint64(i)} }

// BigInt returns an int of any size. The caller must not change i afterwards.
func BigInt(i *big.Int) Value {
	if i.IsInt64() {
		return Int(i.Int64())
	}
	return Value{kind: KindInt, p: unsafe.Pointer(i)}
}

// Float returns a float.
func Float(f float64) Value { return Value{kind: KindFloat, n: math.Float64bits(f)} }

// Str returns a Python str whose text is s, in WTF-8.
func Str(s string) Value {
	return Value{kind: KindStr, n: uint64(len(s)), p: unsafe.Pointer(unsafe.StringData(s))}
}

// TaggedStr is like Str, and sets the tag of the value.
func TaggedStr(s string, tag *Tag) Value {
	v := Str(s)
	v.tag = tag
	return v
}

// NewList returns a list that holds items.
func NewList(items []Value) Value {
	return OfList(&List{Items: items})
}

// NewTuple returns a tuple that holds items.
func NewTuple(items ...Value) Value {
	return OfTuple(&List{Items: items})
}

// OfList returns l as a list value.
func OfList(l *List) Value { return Value{kind: KindList, p: unsafe.Pointer(l)} }

// OfTuple returns l as a tuple value.
func OfTuple(l *List) Value { return Value{kind: KindTuple, p: unsafe.Pointer(l)} }

// OfDict returns d as a value.
func OfDict(d *Dict) Value { return Value{kind: KindDict, p: unsafe.Pointer(d)} }

// OfObject returns o as a value.
func OfObject(o Object) Value { return Value{kind: KindObject, p: unsafe.Pointer(&o)} }

// OfSentinel returns a value that an interpreter uses to mark a missing value; IsSentinel distinguishes it from all
// others.
func OfSentinel(o Object) Value { return Value{kind: KindObject, n: 1, p: unsafe.Pointer(&o)} }

// IsSentinel reports whether v was created by OfSentinel.
func (v Value) IsSentinel() bool { return v.kind == KindObject && v.n != 0 }

// Kind returns the kind of v.
func (v Value) Kind() Kind { return v.kind }

// IsNone reports whether v equals None.
func (v Value) IsNone() bool { return v.kind == KindNone }

// IsTrue and IsFalse are identity tests, like `is True` and `is False`.
func (v Value) IsTrue() bool { return v.kind == KindBool && v.n == 1 }

// IsFalse reports whether v is False.
func (v Value) IsFalse() bool { return v.kind == KindBool && v.n == 0 }

// Text returns the text of a str, and "" for other kinds.
func (v Value) Text() string {
	if v.kind != KindStr {
		return ""
	}
	return v.text()
}

// IsText reports whether v is the str s. It is fastest if both come from Intern.
func (v *Value) IsText(s string) bool {
	return v.kind == KindStr && v.n == uint64(len(s)) && (v.p == unsafe.Pointer(unsafe.StringData(s)) || v.text() == s)
}

func (v *Value) text() string { return unsafe.String((*byte)(v.p), v.n) }

// Int64 returns the value of an int or bool, and whether it fits.
func (v Value) Int64() (int64, bool) {
	if v.kind != KindInt && v.kind != KindBool || v.isBig() {
		return 0, false
	}
	return int64(v.n), true
}

// Big returns the value of an int or bool.
func (v Value) Big() *big.Int {
	if v.isBig() {
		return (*big.Int)(v.p)
	}
	return big.NewInt(int64(v.n))
}

func (v Value) isBig() bool { return v.kind == KindInt && v.p != nil }

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
	if v.kind != KindList && v.kind != KindTuple {
		return nil
	}
	return (*List)(v.p)
}

// Items returns the elements of a list or tuple, and nil for other kinds. They must not be changed.
func (v Value) Items() []Value {
	if v.kind != KindList && v.kind != KindTuple {
		return nil
	}
	return (*List)(v.p).Items
}

// Dict returns the content of a dict, and nil for other kinds.
func (v Value) Dict() *Dict {
	if v.kind != KindDict {
		return nil
	}
	return (*Dict)(v.p)
}

// Object returns the object of a KindObject value, and nil for other kinds.
func (v Value) Object() Object {
	if v.kind != KindObject {
		return nil
	}
	return *(*Object)(v.p)
}

// Tag returns the content of a leaf's tag, or the field Tag of a list or dict.
func (v Value) Tag() any {
	switch {
	case v.tag != nil:
		return v.tag.Of
	case v.kind == KindList || v.kind == KindTuple:
		return v.List().Tag
	case v.kind == KindDict:
		return v.Dict().Tag
	}
	return nil
}

// LeafTag returns a leaf's tag, and nil for other values.
func (v Value) LeafTag() *Tag { return v.tag }

// WithTag returns v with its tag replaced. Lists and dicts are not copied: set their Tag when they are created. Objects
// don't carry tags.
func (v Value) WithTag(tag *Tag) Value {
	switch v.kind {
	case KindList, KindTuple, KindDict, KindObject:
		return v
	}
	v.tag = tag
	return v
}

// typeNames are Python's names for the types, by Kind; an Object has a TypeName of its own.
var typeNames = [...]string{"NoneType", "bool", "int", "float", "str", "list", "tuple", "dict"}

// TypeName returns Python's name for v's type.
func (v Value) TypeName() string {
	if v.kind == KindObject {
		return v.Object().TypeName()
	}
	return typeNames[v.kind]
}

// Truth implements bool(v). Objects are true unless they have a method `Truth() bool` that returns false.
func (v Value) Truth() bool {
	switch v.kind {
	case KindNone, KindBool, KindInt, KindStr:
		return v.n != 0 || v.isBig()
	case KindFloat:
		return v.Float64() != 0 // NaN is true
	case KindList, KindTuple:
		return len(v.Items()) > 0
	case KindDict:
		return v.Dict().Len() > 0
	}
	if t, ok := v.Object().(interface{ Truth() bool }); ok {
		return t.Truth()
	}
	return true
}

// Error is the exception that Python would raise.
type Error struct {
	Class string // "TypeError", "ValueError", ...
	Text  string
}

func (e *Error) Error() string { return e.Class + ": " + e.Text }

// Errorf returns a Python exception.
func Errorf(class, format string, a ...any) *Error {
	return &Error{Class: class, Text: fmt.Sprintf(format, a...)}
}

// MaxDepth is the maximum nesting depth of values: operations on deeper values fail with Python's RecursionError.
const MaxDepth = 990

func errTooDeep() error {
	return Errorf("RecursionError", "maximum recursion depth exceeded")
}
