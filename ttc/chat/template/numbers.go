package template

import (
	"math"
	"math/big"
	"strconv"
	"strings"
	"sync"

	"github.com/nat-go/nat-go/ttc/internal/pytext"
	"github.com/nat-go/nat-go/ttc/pyvalue"
)

// powerBits is the precision realPower works with: enough to round a float64 once.
const powerBits = 192

var ln2 = sync.OnceValue(func() *big.Float {
	half := logNear1(new(big.Float).SetPrec(powerBits).SetFloat64(0.5))
	return half.Neg(half)
})

// realPower is x ** y for a positive x, rounded once, which matches libm's pow except for one case in thousands. Go's
// is less exact.
func realPower(x, y float64) float64 {
	mantissa, exponent := math.Frexp(x)
	if mantissa < math.Sqrt2/2 {
		mantissa, exponent = 2*mantissa, exponent-1
	}
	newFloat := func(f float64) *big.Float { return new(big.Float).SetPrec(powerBits).SetFloat64(f) }
	log := logNear1(newFloat(mantissa))
	log.Add(log, new(big.Float).Mul(ln2(), newFloat(float64(exponent))))
	log.Mul(log, newFloat(y))
	quotient, _ := new(big.Float).Quo(log, ln2()).Float64()
	twos := math.Round(quotient)
	log.Sub(log, new(big.Float).Mul(ln2(), newFloat(twos)))
	const halvings = 10
	log.SetMantExp(log, -halvings)
	sum, term := newFloat(1), newFloat(1)
	for i := 1; i <= 20; i++ {
		term.Mul(term, log)
		term.Quo(term, newFloat(float64(i)))
		sum.Add(sum, term)
	}
	for range halvings {
		sum.Mul(sum, sum)
	}
	r, _ := sum.SetMantExp(sum, int(twos)).Float64()
	return r
}

// logNear1 is ln(m), by a series that converges quickly for m near 1.
func logNear1(m *big.Float) *big.Float {
	one := new(big.Float).SetPrec(powerBits).SetInt64(1)
	z := new(big.Float).Quo(new(big.Float).Sub(m, one), new(big.Float).Add(m, one))
	square := new(big.Float).Mul(z, z)
	sum, power := new(big.Float).SetPrec(powerBits), new(big.Float).Set(z)
	for i := int64(1); i < 2*powerBits/3; i += 2 {
		sum.Add(sum, new(big.Float).Quo(power, new(big.Float).SetPrec(powerBits).SetInt64(i)))
		power.Mul(power, square)
	}
	return sum.Add(sum, sum)
}

// asciiNumber turns the decimal digits of other scripts into ASCII ones and trims white space, as int() and float() do.
func asciiNumber(s string) string {
	s = strings.TrimFunc(s, pytext.IsSpace)
	ascii := true
	for i := range len(s) {
		ascii = ascii && s[i] < 0x80
	}
	if ascii {
		return s
	}
	var b strings.Builder
	eachRune(s, func(_ int, r rune, _ int) {
		if r >= 0x80 && pytext.IsDecimal(r) {
			zero := r // digits of a script are consecutive, starting with zero
			for pytext.IsDecimal(zero-1) && r-zero < 9 {
				zero--
			}
			r = '0' + (r - zero)
		}
		b.WriteRune(r)
	})
	return b.String()
}

// plainDigits removes underscores between digits; it reports false if there is one anywhere else.
func plainDigits(s string) (string, bool) {
	if !strings.Contains(s, "_") {
		return s, true
	}
	for i := range len(s) {
		if s[i] != '_' {
			continue
		}
		if i == 0 || i+1 == len(s) || !isAlnumASCII(s[i-1]) || !isAlnumASCII(s[i+1]) {
			return "", false
		}
	}
	return strings.ReplaceAll(s, "_", ""), true
}

func isAlnumASCII(c byte) bool { return isDigit(c) || c|0x20 >= 'a' && c|0x20 <= 'z' }

// parseInt is int(s, base).
func parseInt(s string, base int) (*big.Int, bool) {
	s = asciiNumber(s)
	sign := ""
	if s != "" && (s[0] == '+' || s[0] == '-') {
		sign, s = s[:1], s[1:]
	}
	prefixes := map[byte]int{'b': 2, 'o': 8, 'x': 16}
	prefixed := false
	if len(s) > 1 && s[0] == '0' {
		if b := prefixes[s[1]|0x20]; b != 0 && (base == 0 || base == b) {
			base, s, prefixed = b, strings.TrimPrefix(s[2:], "_"), true
		}
	}
	s, ok := plainDigits(s)
	if !ok || s == "" || len(s) > 4300 {
		return nil, false
	}
	if base == 0 {
		if !prefixed && s[0] == '0' && strings.Trim(s, "0") != "" {
			return nil, false
		}
		base = 10
	}
	for i := range len(s) {
		if !isAlnumASCII(s[i]) {
			return nil, false
		}
	}
	return new(big.Int).SetString(sign+strings.ToLower(s), base)
}

// parseFloat is float(s).
func parseFloat(s string) (float64, bool) {
	s = asciiNumber(s)
	body := strings.ToLower(strings.TrimLeft(s, "+-"))
	if len(s)-len(body) > 1 {
		return 0, false
	}
	switch body {
	case "inf", "infinity":
		if s[0] == '-' {
			return math.Inf(-1), true
		}
		return math.Inf(1), true
	case "nan":
		return math.NaN(), true
	}
	for i := range len(s) {
		if !isDigit(s[i]) && strings.IndexByte("+-._eE", s[i]) < 0 {
			return 0, false
		}
		if s[i] == '_' && (i == 0 || i+1 == len(s) || !isDigit(s[i-1]) || !isDigit(s[i+1])) {
			return 0, false
		}
	}
	f, err := strconv.ParseFloat(strings.ReplaceAll(s, "_", ""), 64)
	return f, err == nil || math.IsInf(f, 0)
}

// toFloat is float(v), or false if Python would raise TypeError or ValueError.
func toFloat(v val) (float64, bool) {
	switch {
	case v.IsNumber():
		return number(v), true
	case v.Kind() == pyvalue.KindStr:
		return parseFloat(v.Text())
	case asUndefined(v) != nil:
		defined(v)
	}
	return 0, false
}

func floatFilter(st *state, v val, a *args) val {
	p := a.bind("float", 0, "default")
	st.goesThrough(v.Text())
	if f, ok := toFloat(v); ok {
		return pyvalue.Float(f)
	}
	return or(p[0], pyvalue.Float(0))
}

func intFilter(st *state, v val, a *args) val {
	p := a.bind("int", 0, "default", "base")
	st.goesThrough(v.Text())
	switch {
	case v.Kind() == pyvalue.KindStr:
		base := 1
		if k := p[1].Kind(); isMissing(p[1]) || k == pyvalue.KindInt || k == pyvalue.KindBool {
			base = intArg(p[1], 10) // what is no number is an error that jinja2 catches
		}
		if base == 0 || base >= 2 && base <= 36 {
			if i, ok := parseInt(v.Text(), base); ok {
				return pyvalue.BigInt(i)
			}
		}
	case v.Kind() == pyvalue.KindInt || v.Kind() == pyvalue.KindBool:
		return pyvalue.BigInt(v.Big())
	}
	f, ok := toFloat(v)
	if !ok || math.IsNaN(f) {
		return or(p[0], pyvalue.Int(0))
	}
	if math.IsInf(f, 0) {
		if v.Kind() == pyvalue.KindFloat { // int(inf) itself raises, and that is not caught
			throw("OverflowError", "cannot convert float infinity to integer")
		}
		return or(p[0], pyvalue.Int(0))
	}
	i, _ := big.NewFloat(f).Int(nil)
	return pyvalue.BigInt(i)
}
