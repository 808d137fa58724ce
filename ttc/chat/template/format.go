package template

import (
	"math"
	"math/big"
	"strconv"
	"strings"

	"github.com/nat-go/nat-go/ttc/internal/pytext"
	"github.com/nat-go/nat-go/ttc/pyvalue"
)

// spec says how to format one value: Python's format specification, to which % formatting is also converted.
type spec struct {
	fill      val // one character
	align     byte
	sign      byte
	alternate bool
	zero      bool
	width     int
	group     byte // ',' or '_'
	precision int  // -1: none
	kind      byte // 0: none
}

var space = pyvalue.Str(" ")

// formatFilter is `format % args`.
func formatFilter(st *state, v val, a *args) val {
	if len(a.plain) > 0 && len(a.names) > 0 {
		throw("FilterArgumentError", "can't handle positional and keyword arguments at the same time")
	}
	v = st.softText(v)
	if len(a.names) > 0 {
		d := &pyvalue.Dict{}
		for i, name := range a.names {
			d.SetStr(name, a.named[i])
		}
		return st.percent(v, pyvalue.OfDict(d))
	}
	return st.percent(v, pyvalue.NewTuple(a.plain...))
}

// percent is `format % with`.
func (st *state) percent(format, with val) val {
	p := &percentFormat{st: st, format: format, with: with}
	if with.Kind() == pyvalue.KindTuple {
		p.rest = with.Items()
	} else {
		p.rest = []val{with}
		p.lone = with.Kind() == pyvalue.KindDict || with.Kind() == pyvalue.KindList || asUndefined(with) != nil ||
			isRange(with)
	}
	p.run()
	if len(p.rest) > 0 && !p.lone {
		throw("TypeError", "not all arguments converted during string formatting")
	}
	st.spend(p.out.size())
	return st.like(format, p.out.value())
}

func isRange(v val) bool {
	if v.Kind() != pyvalue.KindObject {
		return false
	}
	_, ok := v.Object().(*rangeObject)
	return ok
}

type percentFormat struct {
	st           *state
	format, with val
	rest         []val
	lone         bool // a mapping (or sequence) need not be used up
	out          builder
	i            int
}

func (p *percentFormat) next() val {
	if len(p.rest) == 0 {
		throw("TypeError", "not enough arguments for format string")
	}
	v := p.rest[0]
	p.rest = p.rest[1:]
	return v
}

func (p *percentFormat) peek() byte {
	if p.i >= len(p.format.Text()) {
		throw("ValueError", "incomplete format")
	}
	return p.format.Text()[p.i]
}

func (p *percentFormat) run() {
	s, q := p.format.Text(), provOf(p.format)
	for {
		at := strings.IndexByte(s[p.i:], '%')
		if at < 0 {
			p.out.writeSlice(s, q, p.i, len(s))
			return
		}
		p.out.writeSlice(s, q, p.i, p.i+at)
		p.i += at + 1
		p.conversion()
		p.st.step()
		p.st.room(p.out.size())
	}
}

func (p *percentFormat) conversion() {
	var keyed val
	hasKey := false
	if p.peek() == '(' {
		keyed, hasKey = p.key(), true
	}
	sp := spec{fill: space, align: '>', precision: -1}
	for strings.IndexByte("#0- +", p.peek()) >= 0 {
		switch c := p.peek(); c {
		case '#':
			sp.alternate = true
		case '0':
			sp.zero = true
		case '-':
			sp.align = '<'
		case ' ':
			if sp.sign != '+' {
				sp.sign = ' '
			}
		case '+':
			sp.sign = '+'
		}
		p.i++
	}
	sp.width = p.numberOrStar()
	if sp.width < 0 {
		sp.align, sp.width = '<', -sp.width
	}
	if p.peek() == '.' {
		p.i++
		sp.precision = max(0, p.numberOrStar())
	}
	for strings.IndexByte("hlL", p.peek()) >= 0 {
		p.i++
	}
	sp.kind = p.peek()
	p.i++
	if sp.kind == '%' {
		p.out.write("%", nil)
		return
	}
	v := keyed
	if !hasKey {
		v = p.next()
	}
	p.emit(sp, v)
}

func (p *percentFormat) key() val {
	d := p.with.Dict()
	if d == nil {
		throw("TypeError", "format requires a mapping")
	}
	s := p.format.Text()
	depth, start := 0, p.i+1
	for ; ; p.i++ {
		if c := p.peek(); c == '(' {
			depth++
		} else if c == ')' {
			if depth--; depth == 0 {
				break
			}
		}
	}
	name := s[start:p.i]
	p.i++
	p.lone = true
	v, ok := d.GetStr(name)
	if !ok {
		throw("KeyError", "'%s'", name)
	}
	return v
}

func (p *percentFormat) numberOrStar() int {
	if p.peek() == '*' {
		p.i++
		v := p.next()
		if v.Kind() != pyvalue.KindInt && v.Kind() != pyvalue.KindBool {
			throw("TypeError", "* wants int")
		}
		return index(v, "")
	}
	n := 0
	for isDigit(p.peek()) {
		if n = n*10 + int(p.peek()-'0'); n > math.MaxInt32 {
			throw("ValueError", "width too big")
		}
		p.i++
	}
	return n
}

func (p *percentFormat) emit(sp spec, v val) {
	st := p.st
	switch sp.kind {
	case 's', 'r', 'a':
		sp.zero = false
		text := st.conversionOf(v, sp.kind)
		if isMarkup(p.format) {
			text = st.escape(text)
		}
		if sp.precision >= 0 {
			text = st.sliceText(text, pyvalue.None, pyvalue.Int(int64(sp.precision)), pyvalue.None)
		}
		sp.write(st, &p.out, text, 0)
	case 'c':
		sp.zero = false
		sp.write(st, &p.out, character(v), 0)
	case 'd', 'i', 'u', 'x', 'X', 'o':
		defined(v)
		if !v.IsNumber() || v.Kind() == pyvalue.KindFloat && sp.kind != 'd' && sp.kind != 'i' && sp.kind != 'u' {
			throw("TypeError", "%%%c format: a real number is required, not %s", sp.kind, v.TypeName())
		}
		i := v.Big()
		if v.Kind() == pyvalue.KindFloat {
			f := v.Float64()
			if math.IsNaN(f) || math.IsInf(f, 0) {
				throw("OverflowError", "cannot convert float to integer")
			}
			i, _ = big.NewFloat(f).Int(nil)
		}
		if sp.kind == 'i' || sp.kind == 'u' {
			sp.kind = 'd'
		}
		digits := sp.intDigits(i)
		if n := sp.precision - len(digits); n > 0 {
			st.room(n)
			digits = strings.Repeat("0", n) + digits
		}
		sp.number(st, &p.out, i.Sign() < 0, digits)
	case 'e', 'E', 'f', 'F', 'g', 'G':
		defined(v)
		if !v.IsNumber() {
			throw("TypeError", "must be real number, not %s", v.TypeName())
		}
		sp.float(st, &p.out, number(v))
	default:
		throw("ValueError", "unsupported format character '%c'", sp.kind)
	}
}

func character(v val) val {
	if v.Kind() == pyvalue.KindStr && pytext.Len(v.Text()) == 1 {
		return v
	}
	if v.Kind() != pyvalue.KindInt && v.Kind() != pyvalue.KindBool {
		throw("TypeError", "%%c requires int or char")
	}
	i, ok := v.Int64()
	if !ok || i < 0 || i > 0x10ffff {
		throw("OverflowError", "%%c arg not in range(0x110000)")
	}
	return pyvalue.Str(string(pytext.AppendRune(nil, rune(i))))
}

// conversionOf returns str(v), repr(v) or ascii(v).
func (st *state) conversionOf(v val, kind byte) val {
	if kind == 's' {
		s, p := st.text(v)
		return str(s, p)
	}
	var b builder
	st.append(&b, func(dst []byte, m pyvalue.Marker) ([]byte, error) { return pyvalue.AppendRepr(dst, v, m) })
	st.spend(b.size())
	out := b.value()
	if kind == 'a' {
		return st.mapRunes(out, func(dst []byte, _ int, r rune) []byte {
			if r < 0x80 {
				return append(dst, byte(r))
			}
			return append(append(dst, '\\'), escapeText(r)...)
		})
	}
	return out
}

// write pads a text; inner is how many of its bytes come before zero padding (a sign or prefix).
func (sp *spec) write(st *state, b *builder, text val, inner int) {
	n := sp.width - pytext.Len(text.Text())
	if n <= 0 {
		b.write(text.Text(), provOf(text))
		return
	}
	st.room(n)
	left, right := 0, 0
	switch {
	case sp.align == '=' || sp.zero && sp.align == '>':
		fill := sp.fill
		if sp.zero {
			fill = pyvalue.Str("0")
		}
		b.writeSlice(text.Text(), provOf(text), 0, inner)
		st.writeRepeated(b, fill, n)
		b.writeSlice(text.Text(), provOf(text), inner, len(text.Text()))
		return
	case sp.align == '<':
		right = n
	case sp.align == '^':
		left = n / 2
		right = n - left
	default:
		left = n
	}
	st.writeRepeated(b, sp.fill, left)
	b.write(text.Text(), provOf(text))
	st.writeRepeated(b, sp.fill, right)
}

// intDigits returns the digits of |i| in the base given by the kind, without prefix.
func (sp *spec) intDigits(i *big.Int) string {
	base := map[byte]int{'b': 2, 'o': 8, 'x': 16, 'X': 16}[sp.kind]
	if base == 0 {
		base = 10
	}
	s := new(big.Int).Abs(i).Text(base)
	if base == 10 && len(s) > 4300 {
		throw("ValueError", "Exceeds the limit (4300 digits) for integer string conversion")
	}
	if sp.kind == 'X' {
		s = strings.ToUpper(s)
	}
	return s
}

// number writes sign, prefix and digits.
func (sp *spec) number(st *state, b *builder, negative bool, digits string) {
	head := ""
	switch {
	case negative:
		head = "-"
	case sp.sign == '+' || sp.sign == ' ':
		head = string(sp.sign)
	}
	if sp.alternate && strings.IndexByte("boxX", sp.kind) >= 0 && sp.kind != 0 {
		head += "0" + string(sp.kind)
	}
	if sp.group != 0 {
		st.room(sp.width)
		digits = sp.grouped(digits, sp.width-len(head))
	}
	sp.write(st, b, pyvalue.Str(head+digits), len(head))
}

// grouped inserts separators into the digits before the point; zero padding is grouped too.
func (sp *spec) grouped(digits string, width int) string {
	every := 3
	if strings.IndexByte("boxX", sp.kind) >= 0 && sp.kind != 0 {
		every = 4
	}
	end := 0
	for end < len(digits) && isAlnumASCII(digits[end]) && digits[end] != 'e' && digits[end] != 'E' ||
		end < len(digits) && every == 4 {
		end++
	}
	whole, rest := digits[:end], digits[end:]
	insert := func(s string) string {
		var out []byte
		for i := range len(s) {
			if i > 0 && (len(s)-i)%every == 0 {
				out = append(out, sp.group)
			}
			out = append(out, s[i])
		}
		return string(out)
	}
	if sp.zero || sp.align == '=' && sp.fill.Text() == "0" {
		n := len(whole)
		for n+(n-1)/every+len(rest) < width {
			n++
		}
		whole = strings.Repeat("0", n-len(whole)) + whole
	}
	return insert(whole) + rest
}

// float writes a float as e, f, g, % or, without a kind, much as repr does.
func (sp *spec) float(st *state, b *builder, f float64) {
	negative := math.Signbit(f) && !math.IsNaN(f)
	abs := math.Abs(f)
	if math.IsNaN(f) || math.IsInf(f, 0) {
		text := "inf"
		if math.IsNaN(f) {
			text = "nan"
		}
		if sp.kind == 'E' || sp.kind == 'F' || sp.kind == 'G' {
			text = strings.ToUpper(text)
		}
		if sp.kind == '%' {
			text += "%"
		}
		plain := *sp
		plain.group = 0
		plain.number(st, b, negative, text)
		return
	}
	precision := sp.precision
	if precision < 0 {
		precision = 6
	}
	st.room(precision)
	var s string
	switch sp.kind {
	case 'e', 'E':
		s = strconv.FormatFloat(abs, sp.kind, precision, 64)
		s = sp.withPoint(s)
	case 'f', 'F':
		s = sp.withPoint(strconv.FormatFloat(abs, 'f', precision, 64))
	case '%':
		s = sp.withPoint(strconv.FormatFloat(abs*100, 'f', precision, 64)) + "%"
	case 0:
		if sp.precision < 0 {
			s = string(pyvalue.AppendFloat(nil, abs))
		} else {
			s = general(abs, sp.precision, false, true)
		}
	default:
		s = general(abs, precision, sp.alternate, false)
		if sp.kind == 'G' {
			s = strings.ToUpper(s)
		}
	}
	sp.number(st, b, negative, s)
}

func (sp *spec) withPoint(s string) string {
	if !sp.alternate || strings.IndexByte(s, '.') >= 0 {
		return s
	}
	if e := strings.IndexAny(s, "eE"); e >= 0 {
		return s[:e] + "." + s[e:]
	}
	return s + "."
}

// general is %g: precision significant digits, an exponent where the value calls for one. asFloat keeps ".0" and goes
// to an exponent one digit earlier, as format(f, ".3") does.
func general(f float64, precision int, keepZeros, asFloat bool) string {
	if precision == 0 {
		precision = 1
	}
	e := strconv.FormatFloat(f, 'e', precision-1, 64)
	x, _ := strconv.Atoi(e[strings.IndexByte(e, 'e')+1:])
	limit := precision
	if asFloat {
		limit--
	}
	if x < -4 || x >= limit && !(asFloat && f == 0) {
		at := strings.IndexByte(e, 'e')
		mantissa, exponent := e[:at], e[at:]
		if !keepZeros && strings.IndexByte(mantissa, '.') >= 0 {
			mantissa = strings.TrimRight(strings.TrimRight(mantissa, "0"), ".")
		}
		if keepZeros && strings.IndexByte(mantissa, '.') < 0 {
			mantissa += "."
		}
		return mantissa + exponent
	}
	s := strconv.FormatFloat(f, 'f', max(0, precision-1-x), 64)
	if keepZeros {
		if strings.IndexByte(s, '.') < 0 {
			s += "."
		}
		return s
	}
	if strings.IndexByte(s, '.') >= 0 {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	if asFloat && strings.IndexByte(s, '.') < 0 {
		s += ".0"
	}
	return s
}
