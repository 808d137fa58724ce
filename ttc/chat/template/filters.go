package template

import (
	"math"
	"math/big"
	"sort"
	"strconv"
	"strings"

	"github.com/nat-go/nat-go/ttc/internal/pytext"
	"github.com/nat-go/nat-go/ttc/pyvalue"
)

var filters = map[string]filterFunc{
	"abs":            absFilter,
	"attr":           attrFilter,
	"batch":          batchFilter,
	"capitalize":     textFilter("capitalize", (*state).capitalize),
	"center":         centerFilter,
	"count":          lengthFilter,
	"d":              defaultFilter,
	"default":        defaultFilter,
	"dictsort":       dictsortFilter,
	"e":              escapeFilter,
	"escape":         escapeFilter,
	"filesizeformat": fileSizeFilter,
	"first":          firstFilter,
	"float":          floatFilter,
	"forceescape":    forceEscapeFilter,
	"format":         formatFilter,
	"groupby":        groupbyFilter,
	"indent":         indentFilter,
	"int":            intFilter,
	"items":          itemsFilter,
	"join":           joinFilter,
	"last":           lastFilter,
	"length":         lengthFilter,
	"list":           listFilter,
	"lower":          textFilter("lower", (*state).lower),
	"map":            mapFilter,
	"max":            extremeFilter("max", ">"),
	"min":            extremeFilter("min", "<"),
	"pprint":         pprintFilter,
	"reject":         selectFilter("reject", false, false),
	"rejectattr":     selectFilter("rejectattr", true, false),
	"replace":        replaceFilter,
	"reverse":        reverseFilter,
	"round":          roundFilter,
	"safe":           safeFilter,
	"select":         selectFilter("select", false, true),
	"selectattr":     selectFilter("selectattr", true, true),
	"slice":          sliceFilter,
	"sort":           sortFilter,
	"string":         func(st *state, v val, a *args) val { a.bind("string", 0); return st.softText(v) },
	"striptags":      stripTagsFilter,
	"sum":            sumFilter,
	"title":          titleFilter,
	"tojson":         tojsonFilter,
	"trim":           trimFilter,
	"truncate":       truncateFilter,
	"unique":         uniqueFilter,
	"upper":          textFilter("upper", (*state).upper),
	"urlencode":      urlencodeFilter,
	"urlize":         urlizeFilter,
	"wordcount":      wordcountFilter,
	"wordwrap":       wordwrapFilter,
	"xmlattr":        xmlattrFilter,
}

func textFilter(name string, f func(st *state, v val) val) filterFunc {
	return func(st *state, v val, a *args) val {
		a.bind(name, 0)
		return f(st, st.softText(v))
	}
}

func absFilter(_ *state, v val, a *args) val {
	a.bind("abs", 0)
	defined(v)
	switch {
	case !v.IsNumber():
		throw("TypeError", "bad operand type for abs(): '%s'", v.TypeName())
	case v.Kind() == pyvalue.KindFloat:
		return pyvalue.Float(math.Abs(v.Float64()))
	}
	return pyvalue.BigInt(new(big.Int).Abs(v.Big()))
}

// attrFilter is getattr without falling back to the item.
func attrFilter(st *state, v val, a *args) val {
	name := a.bind("attr", 1, "name")[0]
	if name.Kind() != pyvalue.KindStr {
		throw("TypeError", "attribute name must be string, not '%s'", name.TypeName())
	}
	if name.Text() != "" {
		if x, ok := st.attributeOf(v, name.Text()); ok {
			return st.safe(v, x, name.Text())
		}
	}
	return undefinedIn(v, name)
}

func batchFilter(st *state, v val, a *args) val {
	p := a.bind("batch", 1, "linecount", "fill_with")
	size, fill := p[0], or(p[1], pyvalue.None)
	var it iterator
	var row []val
	started, done := false, false
	return st.newGenerator("do_batch", func() (val, bool) {
		if !started {
			it = st.mustIterate(v)
		}
		started = true
		for !done {
			item, ok := it.next()
			if !ok {
				done = true
				break
			}
			full := st.equal(pyvalue.Int(int64(len(row))), size)
			out := row
			if full {
				row = nil
			}
			st.spend(valueSize)
			if row = append(row, item); full {
				return pyvalue.NewList(out), true
			}
		}
		if len(row) == 0 {
			return missing, false
		}
		out := row
		row = nil
		if !fill.IsNone() && st.holds("<", pyvalue.Int(int64(len(out))), size) {
			more, _ := st.repeat(pyvalue.NewList([]val{fill}), st.numeric("-", size, pyvalue.Int(int64(len(out)))))
			out = st.joinItems(pyvalue.NewList(out), more)
		}
		return pyvalue.NewList(out), true
	})
}

func centerFilter(st *state, v val, a *args) val {
	width := intArg(a.bind("center", 0, "width")[0], 80)
	return st.justify(st.softText(v), width, pyvalue.Str(" "), "center")
}

func lengthFilter(_ *state, v val, a *args) val {
	a.bind("length", 0)
	n, ok := length(v)
	if !ok {
		throw("TypeError", "object of type '%s' has no len()", v.TypeName())
	}
	return pyvalue.Int(int64(n))
}

func defaultFilter(_ *state, v val, a *args) val {
	p := a.bind("default", 0, "default_value", "boolean")
	if asUndefined(v) != nil || !isMissing(p[1]) && p[1].Truth() && !v.Truth() {
		return or(p[0], pyvalue.Str(""))
	}
	return v
}

// ignoreCase lower-cases texts for comparison.
func (st *state) ignoreCase(v val) val {
	if v.Kind() == pyvalue.KindStr {
		return st.lower(v)
	}
	return v
}

func dictsortFilter(st *state, v val, a *args) val {
	p := a.bind("dictsort", 0, "case_sensitive", "by", "reverse")
	by := or(p[1], pyvalue.Str("key")).Text()
	if by != "key" && by != "value" {
		throw("FilterArgumentError", "You can only sort by either \"key\" or \"value\"")
	}
	d := defined(v).Dict()
	if d == nil {
		throw("AttributeError", "'%s' object has no attribute 'items'", v.TypeName())
	}
	items := (&dictView{"items", d}).items()
	keys := make([]val, len(items))
	for i, item := range items {
		keys[i] = item.Items()[0]
		if by == "value" {
			keys[i] = item.Items()[1]
		}
		if !or(p[0], pyvalue.False).Truth() {
			keys[i] = st.ignoreCase(keys[i])
		}
	}
	return pyvalue.NewList(st.sorted(items, keys, isSet(p[2])))
}

// sorted sorts items by keys, stably, even when reversed.
func (st *state) sorted(items, keys []val, reversed bool) []val {
	order := make([]int, len(items))
	for i := range order {
		order[i] = i
	}
	st.spend(2 * valueSize * len(items))
	sort.SliceStable(order, func(i, j int) bool {
		x, y := keys[order[i]], keys[order[j]]
		if reversed {
			x, y = y, x
		}
		return st.holds("<", x, y)
	})
	out := make([]val, len(items))
	for i, k := range order {
		out[i] = items[k]
	}
	return out
}

func escapeFilter(st *state, v val, a *args) val {
	a.bind("escape", 0)
	return st.escape(v)
}

func forceEscapeFilter(st *state, v val, a *args) val {
	a.bind("forceescape", 0)
	v = st.softText(v)
	return st.escape(str(v.Text(), plainProv(provOf(v))))
}

func safeFilter(st *state, v val, a *args) val {
	a.bind("safe", 0)
	v = st.softText(v)
	return str(v.Text(), markupProv(rawProv(v)))
}

func fileSizeFilter(_ *state, v val, a *args) val {
	base, prefixes := 1000.0, []string{"kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"}
	if or(a.bind("filesizeformat", 0, "binary")[0], pyvalue.False).Truth() {
		base, prefixes = 1024, []string{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB"}
	}
	n, ok := toFloat(v)
	switch {
	case !ok:
		throw("ValueError", "could not convert to float: %s", reprOf(v))
	case n == 1:
		return pyvalue.Str("1 Byte")
	case n < base:
		return pyvalue.Str(strconv.FormatFloat(math.Trunc(n), 'f', 0, 64) + " Bytes")
	}
	unit := base
	for i, prefix := range prefixes {
		unit *= base
		if n < unit || i == len(prefixes)-1 {
			return pyvalue.Str(strconv.FormatFloat(base*n/unit, 'f', 1, 64) + " " + prefix)
		}
	}
	return missing
}

func firstFilter(st *state, v val, a *args) val {
	a.bind("first", 0)
	it := st.mustIterate(v)
	if item, ok := it.next(); ok {
		return item
	}
	return undefinedHint("No first item, sequence was empty.")
}

// backwards is list(reversed(v)), or false if Python can't reverse v.
func (st *state) backwards(v val) ([]val, bool) {
	switch v.Kind() {
	case pyvalue.KindStr, pyvalue.KindList, pyvalue.KindTuple, pyvalue.KindDict:
	case pyvalue.KindObject:
		switch v.Object().(type) {
		case *dictView, *rangeObject, *undefined:
		default:
			return nil, false
		}
	default:
		return nil, false
	}
	items := st.list(v)
	st.spend(valueSize * len(items))
	items = append([]val(nil), items...)
	reverse(items)
	return items, true
}

func lastFilter(st *state, v val, a *args) val {
	a.bind("last", 0)
	if k := v.Kind(); k == pyvalue.KindList || k == pyvalue.KindTuple {
		if items := v.Items(); len(items) > 0 {
			return items[len(items)-1]
		}
	}
	items, ok := st.backwards(v)
	if !ok {
		throw("TypeError", "'%s' object is not reversible", v.TypeName())
	}
	if len(items) > 0 {
		return items[0]
	}
	return undefinedHint("No last item, sequence was empty.")
}

func reverseFilter(st *state, v val, a *args) val {
	a.bind("reverse", 0)
	if v.Kind() == pyvalue.KindStr {
		return st.sliceText(v, pyvalue.None, pyvalue.None, pyvalue.Int(-1))
	}
	if items, ok := st.backwards(v); ok {
		it := slice(items)
		return pyvalue.OfObject(&generator{"list_reverseiterator", "", it.next})
	}
	if _, ok := st.iterate(v); !ok {
		throw("FilterArgumentError", "argument must be iterable")
	}
	items := append([]val(nil), st.list(v)...)
	reverse(items)
	return pyvalue.NewList(items)
}

func groupbyFilter(st *state, v val, a *args) val {
	p := a.bind("groupby", 1, "attribute", "default", "case_sensitive")
	plain := st.attrGetter(p[0], or(p[1], pyvalue.None))
	get := plain
	sensitive := or(p[2], pyvalue.False).Truth()
	if !sensitive {
		get = func(v val) val { return st.ignoreCase(plain(v)) }
	}
	items := st.list(v)
	keys := make([]val, len(items))
	for i, item := range items {
		keys[i] = get(item)
	}
	var out []val
	items = st.sorted(items, keys, false)
	for i := 0; i < len(items); {
		key, j := get(items[i]), i+1
		for j < len(items) && st.equal(key, get(items[j])) {
			j++
		}
		if !sensitive {
			key = plain(items[i])
		}
		group := pyvalue.NewTuple(key, pyvalue.NewList(items[i:j:j]))
		group.List().Tag = groupTuple{}
		out = append(out, group)
		st.spend(3 * valueSize)
		i = j
	}
	return pyvalue.NewList(out)
}

// groupTuple marks the tuples that groupby makes, whose parts are named grouper and list.
type groupTuple struct{}

func indentFilter(st *state, v val, a *args) val {
	p := a.bind("indent", 0, "width", "first", "blank")
	defined(v)
	if v.Kind() != pyvalue.KindStr {
		throw("TypeError", "unsupported operand type(s) for +=: '%s' and 'str'", v.TypeName())
	}
	width := or(p[0], pyvalue.Int(4))
	if width.Kind() != pyvalue.KindStr {
		n := max(0, index(width, ""))
		st.room(min(n, math.MaxInt32))
		width = pyvalue.Str(strings.Repeat(" ", n))
	}
	first, blank := or(p[1], pyvalue.False).Truth(), or(p[2], pyvalue.False).Truth()
	var b builder
	if first {
		b.write(width.Text(), provOf(width))
	}
	text := v.Text()
	lines := st.splitLines(v, true)
	if text == "" || isLineBreak(lastRune(text)) {
		lines = append(lines, pyvalue.Str("")) // jinja2 adds a line break before it splits
	}
	at := 0 // position of the line in the text
	for i, line := range lines {
		s := line.Text()
		body := strings.TrimRightFunc(s, isLineBreak)
		if i > 0 && (blank || body != "") {
			b.write(width.Text(), provOf(width))
		}
		b.writeSlice(s, provOf(line), 0, len(body))
		if i < len(lines)-1 {
			b.writeFrom([]byte{'\n'}, provOf(v), at+len(body))
		}
		at += len(s)
		st.room(b.size())
	}
	st.spend(b.size())
	return st.like(v, b.value())
}

func lastRune(s string) rune {
	k := len(s) - 1
	for k > 0 && s[k]&0xc0 == 0x80 {
		k--
	}
	r, _ := pytext.DecodeRune(s[k:])
	return r
}

func itemsFilter(st *state, v val, a *args) val {
	a.bind("items", 0)
	d, i := v.Dict(), -1
	empty := asUndefined(v) != nil
	return pyvalue.OfObject(&generator{"generator", "do_items", func() (val, bool) {
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

func joinFilter(st *state, v val, a *args) val {
	p := a.bind("join", 0, "d", "attribute")
	it := st.mustIterate(v)
	get := func(v val) val { return v }
	if !isMissing(p[1]) && !p[1].IsNone() {
		get = st.attrGetter(p[1], pyvalue.None)
	}
	sep := or(p[0], pyvalue.Str(""))
	if st.escaping {
		return st.joinEscaping(it, get, sep)
	}
	b := st.borrow()
	st.writeJoined(b, it, get, sep)
	st.spend(b.size())
	return st.finish(b)
}

// joinEscaping is join inside an autoescape block: the separator is escaped if there is Markup among the items, and the
// items if the separator is Markup.
func (st *state) joinEscaping(it iterator, get func(val) val, sep val) val {
	var items []val
	markup := false
	for {
		item, ok := it.next()
		if !ok {
			break
		}
		st.step()
		st.spend(valueSize)
		items = append(items, st.softText(get(item)))
		markup = markup || isMarkup(items[len(items)-1])
	}
	if sep = st.softText(sep); markup {
		sep = st.escape(sep)
	}
	return st.joinedAs(sep, items)
}

func (st *state) writeJoined(b *builder, it iterator, get func(val) val, sep val) {
	for first := true; ; first = false {
		item, ok := it.next()
		if !ok {
			return
		}
		st.step()
		if !first {
			st.appendText(b, sep)
		}
		st.appendText(b, get(item))
		st.room(b.size())
	}
}

func listFilter(st *state, v val, a *args) val {
	a.bind("list", 0)
	items := st.list(v)
	st.spend(valueSize * len(items))
	return pyvalue.NewList(append([]val(nil), items...))
}

func mapFilter(st *state, v val, a *args) val {
	return st.lazily("sync_do_map", v, func() func(val) (val, bool) {
		f := st.mapped(a)
		return func(item val) (val, bool) { return f(item), true }
	})
}

// lazily makes a generator over v that prepares its function on first use, as the generator functions of jinja2's
// filters do. The function says what to yield, and whether to.
func (st *state) lazily(name string, v val, prepare func() func(val) (val, bool)) val {
	var it iterator
	var f func(val) (val, bool)
	started := false
	return st.newGenerator(name, func() (val, bool) {
		if !started && v.Truth() {
			f = prepare()
			it = st.mustIterate(v)
		}
		started = true
		for {
			item, ok := it.next()
			if !ok {
				return missing, false
			}
			st.step()
			if out, keep := f(item); keep {
				return out, true
			}
		}
	})
}

func (st *state) mapped(a *args) func(val) val {
	if len(a.plain) == 0 {
		if attribute, ok := a.get("attribute"); ok {
			for _, n := range a.names {
				if n != "attribute" && n != "default" {
					throw("FilterArgumentError", "Unexpected keyword argument '%s'", n)
				}
			}
			d, _ := a.get("default")
			return st.attrGetter(attribute, or(d, pyvalue.None))
		}
		throw("FilterArgumentError", "map requires a filter argument")
	}
	name := a.plain[0]
	f := st.lib.filters[name.Text()]
	rest := st.newArgs(a.plain[1:], a.names, a.named)
	return func(item val) val {
		if f == nil {
			throw("TemplateRuntimeError", "No filter named %s.", reprOf(name))
		}
		st.step()
		st.reads(item)
		st.reads(rest.plain...)
		return f(st, item, rest)
	}
}

func selectFilter(name string, byAttribute, keep bool) filterFunc {
	return func(st *state, v val, a *args) val {
		return st.lazily("select_or_reject", v, func() func(val) (val, bool) {
			plain := a.plain
			get := func(v val) val { return v }
			if byAttribute {
				if len(plain) == 0 {
					throw("FilterArgumentError", "Missing parameter for attribute name")
				}
				get = st.attrGetter(plain[0], pyvalue.None)
				plain = plain[1:]
			}
			if len(plain) == 0 {
				return func(item val) (val, bool) { return item, get(item).Truth() == keep }
			}
			test := st.lib.tests[plain[0].Text()]
			rest := st.newArgs(plain[1:], a.names, a.named)
			return func(item val) (val, bool) {
				if test == nil {
					throw("TemplateRuntimeError", "No test named %s.", reprOf(plain[0]))
				}
				of := get(item)
				st.step()
				st.reads(of)
				st.reads(rest.plain...)
				return item, test(st, of, rest) == keep
			}
		})
	}
}

// attrGetter looks up a dotted path; parts consisting of digits are indices.
func (st *state) attrGetter(attribute, otherwise val) func(val) val {
	parts := attributeParts(attribute)
	return func(v val) val {
		for _, p := range parts {
			v = st.getitem(v, p)
			if !otherwise.IsNone() && asUndefined(v) != nil {
				v = otherwise
			}
		}
		return v
	}
}

func attributeParts(attribute val) []val {
	if attribute.IsNone() || isMissing(attribute) {
		return nil
	}
	if attribute.Kind() != pyvalue.KindStr {
		return []val{attribute}
	}
	var parts []val
	for _, p := range strings.Split(attribute.Text(), ".") {
		v := pyvalue.Str(p)
		if isDigits(p) {
			if i, ok := parseInt(p, 10); ok {
				v = pyvalue.BigInt(i)
			}
		}
		parts = append(parts, v)
	}
	return parts
}

func isDigits(s string) bool {
	ok := s != ""
	eachRune(s, func(_ int, r rune, _ int) { ok = ok && pytext.IsDigit(r) })
	return ok
}

func extremeFilter(name, op string) filterFunc {
	return func(st *state, v val, a *args) val {
		p := a.bind(name, 0, "case_sensitive", "attribute")
		get := st.attrGetter(or(p[1], pyvalue.None), pyvalue.None)
		key := func(v val) val {
			if or(p[0], pyvalue.False).Truth() {
				return get(v)
			}
			return st.ignoreCase(get(v))
		}
		it := st.mustIterate(v)
		best, ok := it.next()
		if !ok {
			return undefinedHint("No aggregated item, sequence was empty.")
		}
		bestKey := key(best)
		for {
			item, ok := it.next()
			if !ok {
				return best
			}
			if k := key(item); st.holds(op, k, bestKey) {
				best, bestKey = item, k
			}
		}
	}
}

func replaceFilter(st *state, v val, a *args) val {
	p := a.bind("replace", 2, "old", "new", "count")
	limit := -1
	if !isMissing(p[2]) && !p[2].IsNone() {
		limit = index(p[2], "")
	}
	if st.escaping {
		if isMarkup(v) || isMarkup(p[0]) || isMarkup(p[1]) {
			v = st.escape(v)
		}
		v, with := st.softText(v), st.softText(p[1])
		if isMarkup(v) {
			with = st.escape(with)
		}
		return st.replace(v, st.softText(p[0]), with, limit)
	}
	// str() of a Markup is plain text, so this filter never escapes.
	text := func(v val) val {
		s, q := st.text(v)
		return str(s, plainProv(q))
	}
	return st.replace(text(v), text(p[0]), text(p[1]), limit)
}

func roundFilter(st *state, v val, a *args) val {
	p := a.bind("round", 0, "precision", "method")
	method := or(p[1], pyvalue.Str("common")).Text()
	digits := or(p[0], pyvalue.Int(0))
	if method != "common" && method != "ceil" && method != "floor" {
		throw("FilterArgumentError", "method must be common, ceil or floor")
	}
	defined(v)
	if !v.IsNumber() {
		throw("TypeError", "type %s doesn't define __round__ method", v.TypeName())
	}
	if digits.IsNone() && method == "common" { // then the result is an integer, not a float
		if v.Kind() != pyvalue.KindFloat {
			return st.roundInt(v, 0)
		}
		return wholeNumber(math.RoundToEven(v.Float64()))
	}
	n := index(digits, "")
	if method != "common" {
		return st.roundTowards(v, n, method)
	}
	if v.Kind() != pyvalue.KindFloat {
		return st.roundInt(v, n)
	}
	f := v.Float64()
	if math.IsNaN(f) || math.IsInf(f, 0) || n > 400 {
		return v
	}
	if n < -400 {
		return pyvalue.Float(math.Copysign(0, f))
	}
	return pyvalue.Float(st.roundFloat(f, n))
}

// wholeNumber is int(f).
func wholeNumber(f float64) val {
	switch {
	case math.IsNaN(f):
		throw("ValueError", "cannot convert float NaN to integer")
	case math.IsInf(f, 0):
		throw("OverflowError", "cannot convert float infinity to integer")
	}
	i, _ := big.NewFloat(f).Int(nil)
	return pyvalue.BigInt(i)
}

// roundFloat rounds the exact value of f half to even at n decimal digits, as CPython does.
func (st *state) roundFloat(f float64, n int) float64 {
	st.left -= 50
	if n >= 0 {
		r, _ := strconv.ParseFloat(strconv.FormatFloat(f, 'f', n, 64), 64)
		return r
	}
	exact, _ := new(big.Float).SetFloat64(math.Trunc(f)).Int(nil)
	// Truncating first can't change which side of a half the value is on, except at the half itself.
	unit := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(-n)), nil)
	twice := new(big.Rat).SetFloat64(f)
	twice.Quo(twice, new(big.Rat).SetInt(unit))
	q := new(big.Int).Quo(exact, unit)
	rest := new(big.Rat).Sub(twice, new(big.Rat).SetInt(q))
	half := big.NewRat(1, 2)
	up := rest.Cmp(half) > 0 || rest.Cmp(half) == 0 && q.Bit(0) == 1
	minus := new(big.Rat).Neg(half)
	down := rest.Cmp(minus) < 0 || rest.Cmp(minus) == 0 && q.Bit(0) == 1
	if up {
		q.Add(q, big.NewInt(1))
	} else if down {
		q.Sub(q, big.NewInt(1))
	}
	r, _ := new(big.Float).SetInt(q.Mul(q, unit)).Float64()
	return math.Copysign(r, f)
}

func (st *state) roundInt(v val, n int) val {
	if n >= 0 {
		return pyvalue.BigInt(v.Big())
	}
	if -n > maxIntBits/3 {
		return pyvalue.Int(0)
	}
	st.multiplies(-4*n, -4*n)
	unit := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(-n)), nil)
	q, m := new(big.Int).DivMod(v.Big(), unit, new(big.Int)) // m >= 0
	switch c := new(big.Int).Lsh(m, 1).Cmp(unit); {
	case c > 0, c == 0 && q.Bit(0) == 1:
		q.Add(q, big.NewInt(1))
	}
	return pyvalue.BigInt(q.Mul(q, unit))
}

func (st *state) roundTowards(v val, n int, method string) val {
	scale := st.numeric("**", pyvalue.Int(10), pyvalue.Int(int64(n)))
	scaled := st.numeric("*", v, scale)
	var whole val
	if scaled.Kind() == pyvalue.KindFloat {
		f := math.Floor(scaled.Float64())
		if method == "ceil" {
			f = math.Ceil(scaled.Float64())
		}
		if math.IsNaN(f) || math.IsInf(f, 0) {
			throw("ValueError", "cannot convert float to integer")
		}
		i, _ := big.NewFloat(f).Int(nil)
		whole = pyvalue.BigInt(i)
	} else {
		whole = scaled
	}
	return st.numeric("/", whole, scale)
}

func sliceFilter(st *state, v val, a *args) val {
	p := a.bind("slice", 1, "slices", "fill_with")
	fill := or(p[1], pyvalue.None)
	var it iterator
	started := false
	return st.newGenerator("sync_do_slice", func() (val, bool) {
		if !started {
			it = slice(st.slices(st.list(v), index(p[0], ""), fill))
		}
		started = true
		return it.next()
	})
}

func (st *state) slices(items []val, n int, fill val) []val {
	if n == 0 {
		throw("ZeroDivisionError", "integer division or modulo by zero")
	}
	st.spend(valueSize * max(0, min(n, math.MaxInt32)))
	var out []val
	if n < 0 {
		return nil
	}
	per, extra, at := len(items)/n, len(items)%n, 0
	for i := range n {
		size := per
		if i < extra {
			size++
		}
		row := append([]val(nil), items[at:at+size]...)
		at += size
		if !fill.IsNone() && i >= extra {
			row = append(row, fill)
		}
		out = append(out, pyvalue.NewList(row))
	}
	return out
}

func sortFilter(st *state, v val, a *args) val {
	p := a.bind("sort", 0, "reverse", "case_sensitive", "attribute")
	sensitive := or(p[1], pyvalue.False).Truth()
	var gets []func(val) val
	if attr := or(p[2], pyvalue.None); attr.Kind() == pyvalue.KindStr {
		for _, part := range strings.Split(attr.Text(), ",") {
			gets = append(gets, st.attrGetter(pyvalue.Str(part), pyvalue.None))
		}
	} else {
		gets = append(gets, st.attrGetter(attr, pyvalue.None))
	}
	items := st.list(v)
	keys := make([]val, len(items))
	for i, item := range items {
		parts := make([]val, len(gets))
		for k, get := range gets {
			if parts[k] = get(item); !sensitive {
				parts[k] = st.ignoreCase(parts[k])
			}
		}
		keys[i] = pyvalue.NewList(parts)
	}
	return pyvalue.NewList(st.sorted(items, keys, isSet(p[0])))
}

func sumFilter(st *state, v val, a *args) val {
	p := a.bind("sum", 0, "attribute", "start")
	get := st.attrGetter(or(p[0], pyvalue.None), pyvalue.None)
	total := or(p[1], pyvalue.Int(0))
	if total.Kind() == pyvalue.KindStr {
		throw("TypeError", "sum() can't sum strings [use ''.join(seq) instead]")
	}
	it := st.mustIterate(v)
	for {
		item, ok := it.next()
		if !ok {
			return total
		}
		st.step()
		total = st.arithmetic("+", total, get(item))
	}
}

// tojsonFilter is transformers': json.dumps with ensure_ascii off and no escaping of HTML.
func tojsonFilter(st *state, v val, a *args) val {
	b := st.borrow()
	st.dump(b, v, dumpOptions(st, v, a))
	st.spend(b.size())
	return st.finish(b)
}

// dumpOptions are the arguments of tojson. If the value is a text, Python unpacks the separators and ignores the
// indent.
func dumpOptions(st *state, of val, a *args) pyvalue.Dump {
	if a.none() {
		return pyvalue.Dump{}
	}
	p := a.bind("tojson", 0, "ensure_ascii", "indent", "separators", "sort_keys")
	o := pyvalue.Dump{ASCII: or(p[0], pyvalue.False).Truth(), SortKeys: or(p[3], pyvalue.False).Truth()}
	text := of.Kind() == pyvalue.KindStr
	if indent := or(p[1], pyvalue.None); !indent.IsNone() && !text {
		o.Indented = true
		if indent.Kind() == pyvalue.KindStr {
			o.Indent = indent.Text()
		} else {
			n := max(0, index(indent, ""))
			st.room(min(n, math.MaxInt32))
			o.Indent = strings.Repeat(" ", n)
		}
	}
	if seps := or(p[2], pyvalue.None); !seps.IsNone() {
		pair := st.unpack(seps, 2)
		if text {
			return o
		}
		o.Item, o.Key, o.Custom = textArg(pair[0], "separator").Text(), textArg(pair[1], "separator").Text(), true
	}
	return o
}

func trimFilter(st *state, v val, a *args) val {
	chars := missing
	if !a.none() {
		chars = a.bind("trim", 0, "chars")[0]
	}
	return st.strip(st.softText(v), chars, true, true)
}

func truncateFilter(st *state, v val, a *args) val {
	p := a.bind("truncate", 0, "length", "killwords", "end", "leeway")
	size, leeway := intArg(p[0], 255), 5
	end := or(p[2], pyvalue.Str("..."))
	if !isMissing(p[3]) && !p[3].IsNone() {
		leeway = index(p[3], "")
	}
	endSize, _ := length(end)
	if size < endSize || leeway < 0 {
		throw("AssertionError", "expected length >= %d, got %d", endSize, size)
	}
	n, ok := length(v)
	if !ok {
		throw("TypeError", "object of type '%s' has no len()", v.TypeName())
	}
	if n <= size+leeway {
		return v
	}
	head := st.slice(v, pyvalue.None, pyvalue.Int(int64(size-endSize)), pyvalue.None)
	if !or(p[1], pyvalue.False).Truth() {
		if head.Kind() != pyvalue.KindStr {
			throw("AttributeError", "'%s' object has no attribute 'rsplit'", head.TypeName())
		}
		head = st.split(head, pyvalue.Str(" "), 1, true).Items()[0]
	}
	return st.arithmetic("+", head, end)
}

func uniqueFilter(st *state, v val, a *args) val {
	p := a.bind("unique", 0, "case_sensitive", "attribute")
	get := st.attrGetter(or(p[1], pyvalue.None), pyvalue.None)
	sensitive := or(p[0], pyvalue.False).Truth()
	seen := &pyvalue.Dict{}
	var it iterator
	started := false
	return st.newGenerator("sync_do_unique", func() (val, bool) {
		if !started {
			it = st.mustIterate(v)
		}
		started = true
		for {
			item, ok := it.next()
			if !ok {
				return missing, false
			}
			st.step()
			key := get(item)
			if !sensitive {
				key = st.ignoreCase(key)
			}
			st.hashes(key)
			known, err := seen.Contains(key)
			check(err)
			if !known {
				st.spend(4 * valueSize)
				check(seen.Set(key, pyvalue.True))
				return item, true
			}
		}
	})
}

// titleFilter is jinja2's title: words begin after white space and - ( { [ <.
func titleFilter(st *state, v val, a *args) val {
	a.bind("title", 0)
	v = st.softText(v)
	s := v.Text()
	first, last := 0, -1 // where the word begins, and the preceding character
	return st.mapRunes(str(s, plainProv(provOf(v))), func(dst []byte, at int, r rune) []byte {
		if at <= last || isWordBreak(r) { // mapRunes passes over the text twice if lengths change
			first = at
		}
		last = at
		switch {
		case isWordBreak(r):
			_, n := pytext.DecodeRune(s[at:])
			first = at + n
			return pytext.AppendRune(dst, r)
		case first == at:
			return pytext.AppendUpper(dst, r)
		}
		_, n := pytext.DecodeRune(s[first:])
		return appendLower(dst, s[first+n:], at-first-n, r) // jinja2 lower-cases the rest of the word separately
	})
}

func isWordBreak(r rune) bool {
	return pytext.IsSpace(r) || r == '-' || r == '(' || r == '{' || r == '[' || r == '<'
}
