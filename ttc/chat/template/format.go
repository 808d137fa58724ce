package template

import (
	"strings"

	"github.com/nat-go/nat-go/ttc/pyvalue"
)

// percent is `format % with` for the conversions that chat templates use: %s, %d and %%.
func (st *state) percent(format, with val) val {
	rest := []val{with}
	lone := isLone(with)
	if with.Kind() == pyvalue.KindTuple {
		rest = with.Items()
	}
	var b builder
	s, p := format.Text(), provOf(format)
	for at := 0; ; {
		i := strings.IndexByte(s[at:], '%')
		if i < 0 {
			b.writeSlice(s, p, at, len(s))
			break
		}
		b.writeSlice(s, p, at, at+i)
		at += i + 2
		switch kind := s[at-1 : min(at, len(s))]; {
		case kind == "":
			throw("ValueError", "incomplete format")
		case kind == "%":
			b.write("%", nil)
		case kind != "s" && kind != "d":
			throwUnsupported("the conversion %" + kind)
		case len(rest) == 0:
			throw("TypeError", "not enough arguments for format string")
		default:
			st.writeConverted(&b, format, rest[0], kind == "d")
			rest = rest[1:]
		}
		st.step()
		st.room(b.size())
	}
	if len(rest) > 0 && !lone {
		throw("TypeError", "not all arguments converted during string formatting")
	}
	st.spend(b.size())
	return st.like(format, b.value())
}

// isLone reports whether a format need not use the value, because Python treats it as a mapping.
func isLone(with val) bool {
	switch with.Kind() {
	case pyvalue.KindDict, pyvalue.KindList:
		return true
	case pyvalue.KindObject:
		switch with.Object().(type) {
		case *undefined, *rangeObject:
			return true
		}
	}
	return false
}

// writeConverted writes the result of a conversion: a value's text, or the digits of a number.
func (st *state) writeConverted(b *builder, format, v val, digits bool) {
	if digits {
		if defined(v); !v.IsNumber() {
			throw("TypeError", "%%d format: a real number is required, not %s", v.TypeName())
		}
		if v.Kind() == pyvalue.KindFloat {
			v = wholeNumber(v.Float64())
		}
		v = pyvalue.BigInt(v.Big())
	}
	text := st.softText(v)
	if isMarkup(format) {
		text = st.escape(text)
	}
	b.write(text.Text(), provOf(text))
}
