package template

import (
	"github.com/nat-go/nat-go/ttc/pyvalue"
)

type testFunc func(st *state, v val, a *args) bool

// plainTests are tests that depend only on the value.
var plainTests = map[string]func(val) bool{
	"defined":   func(v val) bool { return asUndefined(v) == nil },
	"undefined": func(v val) bool { return asUndefined(v) != nil },
	"none":      val.IsNone,
	"boolean":   func(v val) bool { return v.Kind() == pyvalue.KindBool },
	"false":     val.IsFalse,
	"true":      val.IsTrue,
	"integer":   func(v val) bool { return v.Kind() == pyvalue.KindInt },
	"float":     func(v val) bool { return v.Kind() == pyvalue.KindFloat },
	"string":    func(v val) bool { return v.Kind() == pyvalue.KindStr },
	"mapping":   func(v val) bool { return v.Kind() == pyvalue.KindDict },
	"number":    val.IsNumber,
	"sequence":  isSequence,
	"iterable":  isIterable,
}

// tests are the tests that take an argument.
var tests = map[string]testFunc{
	"in": func(st *state, v val, a *args) bool { return st.in(v, a.bind("in", 1, "seq")[0]) },
	"==": operatorTest("=="), "eq": operatorTest("=="), "equalto": operatorTest("=="),
	"!=": operatorTest("!="), "ne": operatorTest("!="),
	">": operatorTest(">"), "gt": operatorTest(">"), "greaterthan": operatorTest(">"),
	">=": operatorTest(">="), "ge": operatorTest(">="),
	"<": operatorTest("<"), "lt": operatorTest("<"), "lessthan": operatorTest("<"),
	"<=": operatorTest("<="), "le": operatorTest("<="),
}

// testNamed returns the test with the given name, or nil if it doesn't exist.
func testNamed(name string) testFunc {
	is := plainTests[name]
	if is == nil {
		return tests[name]
	}
	return func(_ *state, v val, a *args) bool {
		a.bind("test", 0)
		return is(v)
	}
}

func operatorTest(op string) testFunc {
	return func(st *state, v val, a *args) bool { return st.holds(op, v, a.positional(op, 1, 1)[0]) }
}

func isSequence(v val) bool {
	switch v.Kind() {
	case pyvalue.KindStr, pyvalue.KindList, pyvalue.KindTuple, pyvalue.KindDict:
		return true
	}
	switch v.Object().(type) {
	case *rangeObject, *undefined: // Undefined supports len() and defines __getitem__.
		return true
	}
	return false
}
