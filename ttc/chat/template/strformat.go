package template

import (
	"math"
	"strings"

	"github.com/nat-go/nat-go/ttc/internal/pytext"
	"github.com/nat-go/nat-go/ttc/pyvalue"
)

// formatMethod is str.format under the sandbox: attributes and items are looked up the template's way.
func formatMethod(st *state, self val, a *args) val {
	return st.formatFields(self, &fieldFormat{st: st, args: a, mapping: missing})
}

func (st *state) formatFields(format val, f *fieldFormat) val {
	f.escape = isMarkup(format)
	var b builder
	f.run(&b, format, 2)
	st.spend(b.size())
	return st.like(format, b.value())
}

func formatMapMethod(st *state, self val, a *args) val {
	if len(a.names) > 0 {
		throw("TypeError", "format_map() takes no keyword arguments")
	}
	if len(a.plain) != 1 {
		throw("TypeError", "format_map() takes exactly one argument (%d given)", len(a.plain))
	}
	return st.formatFields(self, &fieldFormat{st: st, args: &st.none, mapping: a.plain[0]})
}

type fieldFormat struct {
	st      *state
	args    *args
	mapping val // of format_map, else missing
	auto    int // next automatic number; -1 once fields have been numbered explicitly
	escape  bool
}

// run formats a text with replacement fields; depth is how deeply fields may nest.
func (f *fieldFormat) run(b *builder, format val, depth int) {
	if depth == 0 {
		throw("ValueError", "Max string recursion exceeded")
	}
	s, p := format.Text(), provOf(format)
	for i := 0; i < len(s); {
		at := strings.IndexAny(s[i:], "{}")
		if at < 0 {
			b.writeSlice(s, p, i, len(s))
			return
		}
		b.writeSlice(s, p, i, i+at)
		i += at
		if i+1 < len(s) && s[i+1] == s[i] {
			b.writeSlice(s, p, i, i+1)
			i += 2
			continue
		}
		if s[i] == '}' {
			throw("ValueError", "Single '}' encountered in format string")
		}
		end := fieldEnd(s, i)
		f.field(b, cut(format, i+1, end), depth)
		i = end + 1
		f.st.step()
		f.st.room(b.size())
	}
}

// fieldEnd finds the brace that closes the field opened at i.
func fieldEnd(s string, i int) int {
	if i+1 == len(s) {
		throw("ValueError", "Single '{' encountered in format string")
	}
	depth := 0
	for k := i; k < len(s); k++ {
		switch s[k] {
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				return k
			}
		case '[':
			if e := strings.IndexByte(s[k:], ']'); e >= 0 && depth == 1 && !strings.ContainsAny(s[i+1:k], ":!") {
				k += e
			}
		}
	}
	throw("ValueError", "expected '}' before end of string")
	return 0
}

func (f *fieldFormat) field(b *builder, field val, depth int) {
	s := field.Text()
	end := fieldNameEnd(s)
	name, rest := s[:end], s[end:]
	v := f.lookup(name)
	if strings.HasPrefix(rest, "!") {
		if len(rest) < 2 || len(rest) > 2 && rest[2] != ':' {
			throw("ValueError", "expected ':' after conversion specifier")
		}
		switch rest[1] {
		case 's', 'r', 'a':
			v = f.st.conversionOf(v, rest[1])
		default:
			throw("ValueError", "Unknown conversion specifier %c", rest[1])
		}
		rest = rest[2:]
	}
	var how builder
	if rest != "" {
		f.run(&how, cut(field, len(s)-len(rest)+1, len(s)), depth-1)
	}
	f.st.formatValue(b, v, how.value(), f.escape)
}

func fieldNameEnd(s string) int {
	for k := 0; k < len(s); k++ {
		switch s[k] {
		case '!', ':':
			return k
		case '[':
			if e := strings.IndexByte(s[k:], ']'); e >= 0 {
				k += e
			}
		case '{', '}':
			throw("ValueError", "unexpected '%c' in field name", s[k])
		}
	}
	return len(s)
}

func (f *fieldFormat) lookup(name string) val {
	end := strings.IndexAny(name, ".[")
	if end < 0 {
		end = len(name)
	}
	first, rest := name[:end], name[end:]
	v := f.first(first)
	for rest != "" {
		if rest[0] == '.' {
			end := strings.IndexAny(rest[1:], ".[")
			if end < 0 {
				end = len(rest) - 1
			}
			if end == 0 {
				throw("ValueError", "Empty attribute in format string")
			}
			v = f.st.getattr(v, pyvalue.Str(rest[1:1+end]))
			rest = rest[1+end:]
			continue
		}
		end := strings.IndexByte(rest, ']')
		if rest[0] != '[' || end < 0 {
			throw("ValueError", "Only '.' or '[' may follow ']' in format field specifier")
		}
		if end == 1 {
			throw("ValueError", "Empty attribute in format string")
		}
		key := pyvalue.Str(rest[1:end])
		if isDigits(rest[1:end]) {
			if i, ok := parseInt(rest[1:end], 10); ok {
				key = pyvalue.BigInt(i)
			}
		}
		v = f.st.getitem(v, key)
		rest = rest[end+1:]
	}
	return v
}

func (f *fieldFormat) first(name string) val {
	var number int
	switch {
	case name == "":
		if f.auto < 0 {
			throw("ValueError", "cannot switch from manual field specification to automatic field numbering")
		}
		number = f.auto
		f.auto++
	case isDigits(name):
		if f.auto > 0 {
			throw("ValueError", "cannot switch from automatic field numbering to manual field specification")
		}
		f.auto = -1
		i, ok := parseInt(name, 10)
		if !ok || !i.IsInt64() || i.Int64() > math.MaxInt32 {
			throw("ValueError", "Too many decimal digits in format string")
		}
		number = int(i.Int64())
	case !isMissing(f.mapping):
		d := defined(f.mapping).Dict()
		if d == nil {
			throw("TypeError", "'%s' object is not subscriptable by a name", f.mapping.TypeName())
		}
		v, ok := d.GetStr(name)
		if !ok {
			throw("KeyError", "'%s'", name)
		}
		return v
	default:
		v, ok := f.args.get(name)
		if !ok {
			throw("KeyError", "'%s'", name)
		}
		return v
	}
	if number >= len(f.args.plain) {
		throw("IndexError", "Replacement index %d out of range for positional args tuple", number)
	}
	return f.args.plain[number]
}

// formatValue is format(v, how).
func (st *state) formatValue(b *builder, v, how val, escape bool) {
	if how.Text() == "" || v.Kind() != pyvalue.KindStr && !v.IsNumber() {
		if how.Text() != "" {
			throw("TypeError", "unsupported format string passed to %s.__format__", v.TypeName())
		}
		s, p := st.text(v)
		text := str(s, p)
		if escape {
			text = st.escape(text)
		}
		b.write(text.Text(), provOf(text))
		return
	}
	sp := parseSpec(how)
	if v.Kind() == pyvalue.KindBool && sp.kind == 0 && how.Text() != "" {
		v = pyvalue.BigInt(v.Big())
	}
	switch {
	case v.Kind() == pyvalue.KindStr:
		sp.text(st, b, v, escape)
	case v.Kind() == pyvalue.KindFloat || sp.kind != 0 && strings.IndexByte("eEfFgG%", sp.kind) >= 0:
		if sp.kind != 0 && strings.IndexByte("eEfFgGn%", sp.kind) < 0 {
			throw("ValueError", "Unknown format code '%c' for object of type 'float'", sp.kind)
		}
		if sp.kind == 'n' {
			sp.kind = 'g'
		}
		sp.align = sp.alignOr('>')
		sp.float(st, b, number(v))
	default:
		sp.int(st, b, v)
	}
}

func (sp *spec) alignOr(a byte) byte {
	if sp.align == 0 {
		return a
	}
	return sp.align
}

func (sp *spec) text(st *state, b *builder, v val, escape bool) {
	if sp.kind != 0 && sp.kind != 's' {
		throw("ValueError", "Unknown format code '%c' for object of type 'str'", sp.kind)
	}
	if sp.sign != 0 || sp.alternate || sp.group != 0 || sp.align == '=' {
		throw("ValueError", "Sign, alternate form, ',' and '=' are not allowed in a string format specifier")
	}
	if sp.zero && sp.align == 0 {
		sp.fill = pyvalue.Str("0")
	}
	sp.zero = false
	sp.align = sp.alignOr('<')
	if sp.precision >= 0 {
		v = st.sliceText(v, pyvalue.None, pyvalue.Int(int64(sp.precision)), pyvalue.None)
	}
	if !escape {
		sp.write(st, b, v, 0)
		return
	}
	var inner builder
	sp.write(st, &inner, v, 0)
	out := st.escape(inner.value())
	b.write(out.Text(), provOf(out))
}

func (sp *spec) int(st *state, b *builder, v val) {
	sp.align = sp.alignOr('>')
	switch sp.kind {
	case 0, 'd', 'n', 'b', 'o', 'x', 'X':
	case 'c':
		if sp.sign != 0 {
			throw("ValueError", "Sign not allowed with integer format specifier 'c'")
		}
		sp.write(st, b, character(v), 0)
		return
	default:
		throw("ValueError", "Unknown format code '%c' for object of type 'int'", sp.kind)
	}
	if sp.precision >= 0 {
		throw("ValueError", "Precision not allowed in integer format specifier")
	}
	if sp.kind == 'n' {
		sp.kind = 'd'
	}
	i := v.Big()
	sp.number(st, b, i.Sign() < 0, sp.intDigits(i))
}

// parseSpec reads [[fill]align][sign][z][#][0][width][grouping][.precision][type].
func parseSpec(how val) spec {
	s := how.Text()
	sp := spec{fill: space, precision: -1}
	isAlign := func(c byte) bool { return strings.IndexByte("<>=^", c) >= 0 }
	if _, n := pytext.DecodeRune(s); n < len(s) && isAlign(s[n]) {
		sp.fill, sp.align = cut(how, 0, n), s[n]
		s = s[n+1:]
	} else if s != "" && isAlign(s[0]) {
		sp.align = s[0]
		s = s[1:]
	}
	take := func(set string) byte {
		if s != "" && strings.IndexByte(set, s[0]) >= 0 {
			c := s[0]
			s = s[1:]
			return c
		}
		return 0
	}
	sp.sign = take("+- ")
	if sp.sign == '-' {
		sp.sign = 0
	}
	take("z")
	sp.alternate = take("#") != 0
	if take("0") != 0 && sp.align == 0 {
		sp.zero = true
	}
	number := func() int {
		n := 0
		for s != "" && isDigit(s[0]) {
			if n = n*10 + int(s[0]-'0'); n > math.MaxInt32 {
				throw("ValueError", "Too many decimal digits in format string")
			}
			s = s[1:]
		}
		return n
	}
	sp.width = number()
	sp.group = take(",_")
	if take(".") != 0 {
		if s == "" || !isDigit(s[0]) {
			throw("ValueError", "Format specifier missing precision")
		}
		sp.precision = number()
	}
	if len(s) > 1 {
		throw("ValueError", "Invalid format specifier")
	}
	if s != "" {
		sp.kind = s[0]
	}
	return sp
}
