package template

import (
	"strings"

	"github.com/nat-go/nat-go/ttc/pyvalue"
)

// percent implements `format % with` for the conversions that chat templates use: %s, %d and %%.
func (st *state) percent(format, with val) val {
	rest := []val{with}
	if with.Kind() == pyvalue.KindTuple {
		rest = with.Items()
	}
	v := st.fill(format, "%", func(b *builder, mark string) {
		switch {
		case mark == "%":
			throw("ValueError", "incomplete format")
		case mark != "%s" && mark != "%d":
			throwUnsupported("the conversion " + mark)
		case len(rest) == 0:
			throw("TypeError", "not enough arguments for format string")
		}
		st.writeConverted(b, format, rest[0], mark == "%d")
		rest = rest[1:]
	})
	if len(rest) > 0 && !isLone(with) {
		throw("TypeError", "not all arguments converted during string formatting")
	}
	return v
}

// formatFilter is like percent, with the arguments in a tuple.
func formatFilter(st *state, v val, a *args) val {
	if len(a.names) > 0 {
		throwUnsupported("a keyword argument to format")
	}
	return st.percent(st.softText(v), pyvalue.NewTuple(a.plain...))
}

// formatMethod implements str.format for the replacement field {}.
func formatMethod(st *state, self val, a *args) val {
	rest := a.plain
	return st.fill(self, "{}", func(b *builder, mark string) {
		switch {
		case mark[0] == '}' || mark == "{":
			throw("ValueError", "a single '%c' in a format string", mark[0])
		case mark != "{}":
			throwUnsupported("a replacement field other than {}")
		case len(rest) == 0:
			throw("IndexError", "not enough arguments for format string")
		}
		st.writeConverted(b, self, rest[0], false)
		rest = rest[1:]
	})
}

// fill copies a format. A doubled mark becomes a literal mark; for any other mark, fill calls convert with the mark and
// the byte after it.
func (st *state) fill(format val, marks string, convert func(b *builder, mark string)) val {
	b := st.borrow()
	s, p, at := format.Text(), provOf(format), 0
	for {
		i := strings.IndexAny(s[at:], marks)
		if i < 0 {
			break
		}
		b.writeSlice(s, p, at, at+i)
		at += i + 2
		if mark := s[at-2 : min(at, len(s))]; len(mark) == 2 && mark[0] == mark[1] {
			b.write(mark[:1], nil)
		} else {
			convert(b, mark)
		}
		st.step()
		st.checkRoom(b.size())
	}
	b.writeSlice(s, p, at, len(s))
	st.spend(b.size())
	return st.like(format, st.finish(b))
}

// isLone reports whether Python treats the value as a mapping, which a format need not use.
func isLone(with val) bool {
	switch with.Object().(type) {
	case *undefined, *rangeObject:
		return true
	}
	return with.Kind() == pyvalue.KindDict || with.Kind() == pyvalue.KindList
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
