package template

import (
	"math"
	"strings"

	"github.com/nat-go/nat-go/ttc/internal/pytext"
	"github.com/nat-go/nat-go/ttc/pyvalue"
)

// arithmetic computes `a op b`.
func (st *state) arithmetic(op string, a, b val) val {
	defined(a)
	if op == "%" && a.Kind() == pyvalue.KindStr {
		return st.percent(a, b)
	}
	defined(b)
	switch {
	case a.IsNumber() && b.IsNumber():
		return st.numeric(op, a, b)
	case op == "+":
		if v, ok := st.add(a, b); ok {
			return v
		}
	case op == "*":
		if v, ok := st.repeat(a, b); ok {
			return v
		}
		if v, ok := st.repeat(b, a); ok {
			return v
		}
	}
	throw("TypeError", "unsupported operand type(s) for %s: '%s' and '%s'", op, a.TypeName(), b.TypeName())
	return missing
}

func (st *state) add(a, b val) (val, bool) {
	kind := a.Kind()
	switch {
	case kind != pyvalue.KindStr && a.List() == nil:
		return missing, false
	case kind != b.Kind():
		throw("TypeError", "can only concatenate %s (not \"%s\") to %s", a.TypeName(), b.TypeName(), a.TypeName())
	case kind == pyvalue.KindStr:
		return st.join2(a, b), true
	case kind == pyvalue.KindList:
		return pyvalue.NewList(st.joinItems(a, b)), true
	}
	return pyvalue.NewTuple(st.joinItems(a, b)...), true
}

func (st *state) joinItems(a, b val) []val {
	x, y := a.Items(), b.Items()
	st.spend(valueSize * (len(x) + len(y)))
	return append(append(st.made.vals.take(len(x) + len(y))[:0], x...), y...)
}

// join2 computes a + b for two strings. If only one is Markup, the other is escaped and the result is Markup.
func (st *state) join2(a, b val) val {
	am, bm := isMarkup(a), isMarkup(b)
	if am != bm {
		if am {
			b = st.escape(b)
		} else {
			a = st.escape(a)
		}
	}
	x, y := a.Text(), b.Text()
	st.spend(len(x) + len(y))
	sum := st.borrow()
	sum.write(x, provOf(a))
	sum.write(y, provOf(b))
	return st.like(a, st.finish(sum))
}

// repeat computes seq * times for a text. It rejects lists and tuples, and returns false for other values.
func (st *state) repeat(seq, times val) (val, bool) {
	switch seq.Kind() {
	case pyvalue.KindList, pyvalue.KindTuple:
		throwUnsupported("repeating a " + seq.TypeName())
	case pyvalue.KindStr:
		if times.Kind() != pyvalue.KindInt && times.Kind() != pyvalue.KindBool {
			throw("TypeError", "can't multiply sequence by non-int of type '%s'", times.TypeName())
		}
		if _, ok := times.Int64(); !ok {
			throw("OverflowError", "cannot fit 'int' into an index-sized integer")
		}
		n, s := max(0, index(times)), seq.Text()
		if s != "" && n > math.MaxInt32/len(s) {
			st.checkRoom(math.MaxInt32)
		}
		st.spend(len(s) * n)
		b, p := st.borrow(), provOf(seq)
		if p == nil || len(p.spans) == 0 {
			s, p, n = strings.Repeat(s, n), nil, 1
		}
		for range n {
			st.step()
			b.write(s, p)
			st.checkRoom(b.size())
		}
		return st.like(seq, st.finish(b)), true
	}
	return missing, false
}

// like returns v. A string is returned as a Markup if the first argument is a Markup.
func (st *state) like(of, v val) val {
	if isMarkup(of) && v.Kind() == pyvalue.KindStr && !isMarkup(v) {
		return str(v.Text(), markupProv(rawProv(v)))
	}
	return v
}

// numeric computes `a op b` for two numbers.
func (st *state) numeric(op string, a, b val) val {
	if a.Kind() == pyvalue.KindFloat || b.Kind() == pyvalue.KindFloat {
		throwUnsupported("arithmetic on floats")
	}
	x, y := whole(a), whole(b)
	switch op {
	case "+":
		if r := x + y; (r > x) == (y > 0) {
			return pyvalue.Int(r)
		}
	case "-":
		if r := x - y; (r < x) == (y > 0) {
			return pyvalue.Int(r)
		}
	case "*":
		if r := x * y; x == 0 || r/x == y && !(x == -1 && y == math.MinInt64) {
			return pyvalue.Int(r)
		}
	case "%":
		if y == 0 {
			throw("ZeroDivisionError", "integer division or modulo by zero")
		}
		m := x % y
		if m != 0 && (m < 0) != (y < 0) {
			m += y
		}
		return pyvalue.Int(m)
	default:
		throwUnsupported("the operator " + op)
	}
	tooLarge()
	return missing
}

// whole returns an int as an int64. Templates can print larger ints, but cannot compute with them.
func whole(v val) int64 {
	i, ok := v.Int64()
	if !ok {
		tooLarge()
	}
	return i
}

func tooLarge() {
	throw("LimitError", "ints larger than 64 bits cannot be computed with in chat templates")
}

// signed implements +v and -v.
func signed(op string, v val) val {
	defined(v)
	switch {
	case !v.IsNumber():
		throw("TypeError", "bad operand type for unary %s: '%s'", op, v.TypeName())
	case v.Kind() == pyvalue.KindFloat && op == "-":
		return pyvalue.Float(-v.Float64())
	case v.Kind() == pyvalue.KindFloat:
		return pyvalue.Float(v.Float64())
	}
	i := whole(v)
	if op == "-" {
		if i == math.MinInt64 {
			tooLarge()
		}
		i = -i
	}
	return pyvalue.Int(i)
}

// holds evaluates the comparison `a op b`.
func (st *state) holds(op string, a, b val) bool {
	st.step()
	switch op {
	case "==", "!=":
		return st.equal(a, b) == (op == "==")
	case "in", "not in":
		return st.in(a, b) == (op == "in")
	}
	defined(a)
	defined(b)
	st.costOf(a)
	refuseSets(a, b)
	less, err := pyvalue.Ordered(op, a, b)
	check(err)
	return less
}

func (st *state) equal(a, b val) bool {
	st.costOf(a)
	refuseSets(a, b)
	eq, err := pyvalue.Equal(a, b)
	check(err)
	return eq
}

// hashes counts the work of looking up a key.
func (st *state) hashes(key val) {
	switch key.Kind() {
	case pyvalue.KindStr:
		st.left -= int64(len(key.Text())) >> 6
	case pyvalue.KindTuple:
		st.costOf(key)
	}
}

// costOf counts the work of comparing or printing a container and the containers nested in it.
func (st *state) costOf(v val) { st.costAt(v, 0) }

func (st *state) costAt(v val, depth int) {
	if depth > pyvalue.MaxDepth {
		throw("RecursionError", "maximum recursion depth exceeded in comparison")
	}
	if v.Kind() == pyvalue.KindStr {
		st.left -= 1 + int64(len(v.Text()))>>6
		return
	}
	st.step()
	items := v.Items()
	if d := v.Dict(); d != nil {
		items = d.Values()
	}
	for _, e := range items {
		st.costAt(e, depth+1)
	}
}

// in implements Python's `a in b`.
func (st *state) in(a, b val) bool {
	switch b.Kind() {
	case pyvalue.KindStr:
		if a.Kind() != pyvalue.KindStr {
			throw("TypeError", "'in <string>' requires string as left operand, not %s", a.TypeName())
		}
		st.left -= int64(len(b.Text())) >> 6
		return strings.Contains(b.Text(), a.Text())
	case pyvalue.KindDict:
		st.hashes(a)
		ok, err := b.Dict().Contains(a)
		check(err)
		return ok
	case pyvalue.KindObject:
		if o, ok := b.Object().(*dictView); ok && o.kind == "keys" {
			return st.in(a, pyvalue.OfDict(o.dict))
		}
	}
	it, ok := st.iterate(b)
	if !ok {
		throw("TypeError", "argument of type '%s' is not iterable", b.TypeName())
	}
	for item := range it.all {
		st.costOf(item)
		same, err := pyvalue.Same(item, a)
		check(err)
		if same {
			return true
		}
	}
	return false
}

// slice implements v[i:j:k].
func (st *state) slice(v, i, j, k val) val {
	defined(v)
	_, isRange := v.Object().(*rangeObject)
	switch {
	case v.Dict() != nil:
		throw("TypeError", "unhashable type: 'slice'")
	case v.Kind() != pyvalue.KindStr && v.List() == nil && !isRange:
		throw("TypeError", "'%s' object is not subscriptable", v.TypeName())
	}
	for _, x := range []val{i, j, k} {
		if !x.IsNone() && x.Kind() != pyvalue.KindInt && x.Kind() != pyvalue.KindBool {
			throw("TypeError", "slice indices must be integers or None or have an __index__ method")
		}
	}
	if isRange {
		throwUnsupported("a slice of a range")
	}
	if v.Kind() == pyvalue.KindStr {
		return st.sliceText(v, i, j, k)
	}
	start, stop, step := bounds(len(v.Items()), i, j, k)
	out := st.pick(v.Items(), start, stop, step)
	if v.Kind() == pyvalue.KindTuple {
		return st.newTuple(out)
	}
	list := st.newList(out)
	if st.heads != nil && step == 1 {
		st.heads.slices(v, list, start)
	}
	return list
}

// bounds implements slice(i, j, k).indices(n).
func bounds(n int, i, j, k val) (start, stop, step int) {
	step = 1
	if !k.IsNone() {
		step = index(k)
	}
	if step == 0 {
		throw("ValueError", "slice step cannot be zero")
	}
	low, high := 0, n
	if step < 0 {
		low, high = -1, n-1
	}
	clip := func(v val, absent int) int {
		if v.IsNone() {
			return absent
		}
		x := index(v)
		if x < 0 {
			x = max(x, -n-1) + n
		}
		return min(max(x, low), high)
	}
	if step < 0 {
		return clip(i, high), clip(j, low), step
	}
	return clip(i, low), clip(j, high), step
}

func count(start, stop, step int) int {
	switch {
	case step > 0 && start < stop:
		return (stop-start-1)/step + 1
	case step < 0 && start > stop:
		return (start-stop-1)/-step + 1
	}
	return 0
}

func (st *state) pick(items []val, start, stop, step int) []val {
	n := count(start, stop, step)
	if step == 1 { // the items can be shared, because these values are immutable
		return items[start : start+n : start+n]
	}
	st.spend(valueSize * n)
	out := st.made.vals.take(n)
	for i := range out {
		out[i] = items[start+i*step]
	}
	return out
}

func (st *state) sliceText(v, i, j, k val) val {
	st.reads(v)
	v = markEscapes(v)
	s := v.Text()
	n := pytext.Len(s)
	start, stop, step := bounds(n, i, j, k)
	m := count(start, stop, step)
	st.spend(m)
	if m == 0 {
		return st.cut(v, 0, 0)
	}
	if step == 1 {
		a, b := start, start+m
		if n != len(s) {
			a, b = pytext.ByteIndex(s, start), pytext.ByteIndex(s, start+m)
		}
		return st.cut(v, a, b)
	}
	throwUnsupported("a step in the slice of a string")
	return missing
}
