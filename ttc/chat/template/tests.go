package template

import (
	"github.com/nat-go/nat-go/ttc/pyvalue"
)

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

var tests = map[string]testFunc{
	"odd": func(st *state, v val, a *args) bool {
		a.bind("odd", 0)
		return st.equal(st.arithmetic("%", v, pyvalue.Int(2)), pyvalue.Int(1))
	},
	"even": func(st *state, v val, a *args) bool {
		a.bind("even", 0)
		return st.equal(st.arithmetic("%", v, pyvalue.Int(2)), pyvalue.Int(0))
	},
	"defined":   isTest(plainTests["defined"]),
	"undefined": isTest(plainTests["undefined"]),
	"none":      isTest(plainTests["none"]),
	"boolean":   isTest(plainTests["boolean"]),
	"false":     isTest(plainTests["false"]),
	"true":      isTest(plainTests["true"]),
	"integer":   isTest(plainTests["integer"]),
	"float":     isTest(plainTests["float"]),
	"string":    isTest(plainTests["string"]),
	"mapping":   isTest(plainTests["mapping"]),
	"number":    isTest(plainTests["number"]),
	"sequence":  isTest(plainTests["sequence"]),
	"iterable":  isTest(plainTests["iterable"]),
	"in":        func(st *state, v val, a *args) bool { return st.in(v, a.bind("in", 1, "seq")[0]) },
	"==":        operatorTest("=="), "eq": operatorTest("=="), "equalto": operatorTest("=="),
	"!=": operatorTest("!="), "ne": operatorTest("!="),
	">": operatorTest(">"), "gt": operatorTest(">"), "greaterthan": operatorTest(">"),
	">=": operatorTest(">="), "ge": operatorTest(">="),
	"<": operatorTest("<"), "lt": operatorTest("<"), "lessthan": operatorTest("<"),
	"<=": operatorTest("<="), "le": operatorTest("<="),
}

func isTest(is func(val) bool) testFunc {
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
	case pyvalue.KindObject:
		switch v.Object().(type) {
		case *rangeObject:
			return true
		case *undefined:
			// Undefined has both a length and, by name, __getitem__.
			return true
		}
	}
	return false
}
