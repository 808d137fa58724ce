package pyvalue

import (
	"cmp"
	"math"
	"math/big"
	"strings"
)

// Equal implements a == b. It fails only on values that are nested too deeply. Objects are equal if they are the same
// object, or if they have a method `Equal(Object) bool` that returns true.
func Equal(a, b Value) (bool, error) { return equal(a, b, 0) }

func equal(a, b Value, depth int) (bool, error) {
	if depth > MaxDepth {
		return false, errTooDeep()
	}
	if a.IsNumber() && b.IsNumber() {
		c, ordered := compareNumbers(a, b)
		return ordered && c == 0, nil
	}
	if a.kind != b.kind {
		return false, nil
	}
	switch a.kind {
	case KindNone:
		return true, nil
	case KindStr:
		return a.text() == b.text(), nil
	case KindList, KindTuple:
		return equalItems(a.List(), b.List(), depth)
	case KindDict:
		return equalDicts(a.Dict(), b.Dict(), depth)
	}
	if e, ok := a.Object().(interface{ Equal(Object) bool }); ok {
		return e.Equal(b.Object()), nil
	}
	return a.Object() == b.Object(), nil
}

// Same implements `a is b or a == b`, which is how Python compares elements of containers. It differs from Equal only
// for NaN (all NaNs in a JSON document are the same object).
func Same(a, b Value) (bool, error) { return same(a, b, 0) }

func same(a, b Value, depth int) (bool, error) {
	if a.kind == KindFloat && b.kind == KindFloat && a.n == b.n {
		return true, nil
	}
	return equal(a, b, depth)
}

func equalItems(a, b *List, depth int) (bool, error) {
	if a == b {
		return true, nil
	}
	if len(a.Items) != len(b.Items) {
		return false, nil
	}
	for i := range a.Items {
		if ok, err := same(a.Items[i], b.Items[i], depth+1); !ok {
			return false, err
		}
	}
	return true, nil
}

func equalDicts(a, b *Dict, depth int) (bool, error) {
	if a == b {
		return true, nil
	}
	if a.Len() != b.Len() {
		return false, nil
	}
	for i, k := range a.keys {
		v, ok, _ := b.Get(k)
		if !ok {
			return false, nil
		}
		if ok, err := same(a.values[i], v, depth+1); !ok {
			return false, err
		}
	}
	return true, nil
}

// Ordered implements `a op b` for the operators < <= > >=. It fails with Python's TypeError if the two can't be
// ordered.
func Ordered(op string, a, b Value) (bool, error) { return ordered(op, a, b, 0) }

func ordered(op string, a, b Value, depth int) (bool, error) {
	if depth > MaxDepth {
		return false, errTooDeep()
	}
	switch {
	case a.IsNumber() && b.IsNumber():
		c, ok := compareNumbers(a, b)
		return ok && holds(op, c), nil
	case a.kind == KindStr && b.kind == KindStr:
		return holds(op, strings.Compare(a.text(), b.text())), nil
	case a.kind == b.kind && (a.kind == KindList || a.kind == KindTuple):
		return orderedItems(op, a.Items(), b.Items(), depth)
	}
	return false,
		Errorf("TypeError", "'%s' not supported between instances of '%s' and '%s'", op, a.TypeName(), b.TypeName())
}

func orderedItems(op string, a, b []Value, depth int) (bool, error) {
	for i := 0; i < len(a) && i < len(b); i++ {
		alike, err := same(a[i], b[i], depth+1)
		if err != nil {
			return false, err
		}
		if !alike {
			return ordered(op, a[i], b[i], depth+1)
		}
	}
	return holds(op, len(a)-len(b)), nil
}

func holds(op string, c int) bool {
	switch op {
	case "<":
		return c < 0
	case "<=":
		return c <= 0
	case ">":
		return c > 0
	}
	return c >= 0
}

// compareNumbers compares exactly, without rounding an int to a float. It reports false if either is NaN.
func compareNumbers(a, b Value) (int, bool) {
	if a.kind != KindFloat && b.kind != KindFloat {
		if !a.isBig() && !b.isBig() {
			return cmp.Compare(int64(a.n), int64(b.n)), true
		}
		return a.Big().Cmp(b.Big()), true
	}
	if a.kind == KindFloat && b.kind == KindFloat {
		x, y := a.Float64(), b.Float64()
		return cmp.Compare(x, y), x == x && y == y
	}
	if a.kind == KindFloat {
		c, ok := compareNumbers(b, a)
		return -c, ok
	}
	f := b.Float64()
	if math.IsNaN(f) {
		return 0, false
	}
	if math.IsInf(f, 0) {
		return -int(math.Copysign(1, f)), true
	}
	x := new(big.Float).SetInt(a.Big())
	return x.Cmp(big.NewFloat(f)), true
}
