package template

import (
	"math"
	"math/big"
	"math/bits"
	"strconv"
	"strings"

	"github.com/nat-go/nat-go/ttc/internal/pytext"
	"github.com/nat-go/nat-go/ttc/pyvalue"
)

// numberAttribute is an attribute or method of an int, bool or float.
func (st *state) numberAttribute(v val, name string) (val, bool) {
	isFloat := v.Kind() == pyvalue.KindFloat
	switch {
	case name == "real":
		return plainNumber(v), true
	case name == "imag" && isFloat:
		return pyvalue.Float(0), true
	case name == "imag":
		return pyvalue.Int(0), true
	case name == "numerator" && !isFloat:
		return plainNumber(v), true
	case name == "denominator" && !isFloat:
		return pyvalue.Int(1), true
	}
	table := st.lib.ints
	if isFloat {
		table = st.lib.floats
	}
	if m := table[name]; m != nil {
		return boundMethod(v, name, m), true
	}
	return missing, false
}

// plainNumber converts a bool to an int.
func plainNumber(v val) val {
	if v.Kind() == pyvalue.KindBool {
		return pyvalue.BigInt(v.Big())
	}
	return v
}

var intMethods = map[string]method{
	"conjugate":  numberMethod("conjugate", plainNumber),
	"bit_length": numberMethod("bit_length", func(v val) val { return pyvalue.Int(int64(v.Big().BitLen())) }),
	"bit_count": numberMethod("bit_count", func(v val) val {
		n := 0
		for _, w := range v.Big().Bits() {
			n += bits.OnesCount(uint(w))
		}
		return pyvalue.Int(int64(n))
	}),
	"as_integer_ratio": numberMethod("as_integer_ratio", func(v val) val {
		return pyvalue.NewTuple(plainNumber(v), pyvalue.Int(1))
	}),
	"to_bytes":   bytesMethod,
	"from_bytes": bytesMethod,
}

var floatMethods = map[string]method{
	"conjugate": numberMethod("conjugate", plainNumber),
	"is_integer": numberMethod("is_integer", func(v val) val {
		f := v.Float64()
		return pyvalue.Bool(f == math.Trunc(f) && !math.IsInf(f, 0))
	}),
	"hex":              numberMethod("hex", floatHex),
	"as_integer_ratio": numberMethod("as_integer_ratio", floatRatio),
	"fromhex": func(_ *state, _ val, a *args) val {
		s := textArg(a.positional("fromhex", 1, 1)[0], "fromhex() argument").Text()
		f, ok := parseHexFloat(s)
		if !ok {
			throw("ValueError", "invalid hexadecimal floating-point string")
		}
		if math.IsInf(f, 0) && !strings.Contains(strings.ToLower(s), "inf") {
			throw("OverflowError", "hexadecimal value too large to represent as a float")
		}
		return pyvalue.Float(f)
	},
}

func numberMethod(name string, f func(v val) val) method {
	return func(_ *state, self val, a *args) val {
		a.positional(name, 0, 0)
		return f(self)
	}
}

func floatRatio(v val) val {
	f := v.Float64()
	switch {
	case math.IsNaN(f):
		throw("ValueError", "cannot convert NaN to integer ratio")
	case math.IsInf(f, 0):
		throw("OverflowError", "cannot convert Infinity to integer ratio")
	}
	r := new(big.Rat).SetFloat64(f)
	return pyvalue.NewTuple(pyvalue.BigInt(new(big.Int).Set(r.Num())), pyvalue.BigInt(new(big.Int).Set(r.Denom())))
}

// floatHex is float.hex(): thirteen hexadecimal digits, and as few as possible in the exponent.
func floatHex(v val) val {
	f := v.Float64()
	sign := ""
	if math.Signbit(f) {
		sign = "-"
	}
	switch {
	case math.IsNaN(f):
		return pyvalue.Str("nan")
	case math.IsInf(f, 0):
		return pyvalue.Str(sign + "inf")
	case f == 0:
		return pyvalue.Str(sign + "0x0.0p+0")
	}
	b := math.Float64bits(f)
	mantissa, exponent, lead := b&(1<<52-1), int(b>>52&0x7ff)-1023, "1"
	if exponent == -1023 {
		exponent, lead = -1022, "0"
	}
	digits := strconv.FormatUint(mantissa, 16)
	plus := "+"
	if exponent < 0 {
		plus = ""
	}
	digits = strings.Repeat("0", 13-len(digits)) + digits
	return pyvalue.Str(sign + "0x" + lead + "." + digits + "p" + plus + strconv.Itoa(exponent))
}

// parseHexFloat is float.fromhex(s).
func parseHexFloat(s string) (float64, bool) {
	s = strings.ToLower(strings.TrimFunc(s, pytext.IsSpace))
	body := strings.TrimLeft(s, "+-")
	if len(s)-len(body) > 1 || strings.Contains(s, "_") {
		return 0, false
	}
	switch body {
	case "inf", "infinity", "nan":
		return parseFloat(s)
	}
	body = strings.TrimPrefix(body, "0x")
	if !strings.Contains(body, "p") {
		body += "p0"
	}
	f, err := strconv.ParseFloat(s[:len(s)-len(strings.TrimLeft(s, "+-"))]+"0x"+body, 64)
	return f, err == nil || math.IsInf(f, 0)
}
