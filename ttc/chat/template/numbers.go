package template

import (
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/nat-go/nat-go/ttc/internal/pytext"
	"github.com/nat-go/nat-go/ttc/pyvalue"
)

// parseInt implements Python's int(s). It returns false unless s is a 64-bit int in ASCII digits.
func parseInt(s string) (int64, bool) {
	i, err := strconv.ParseInt(strings.TrimFunc(s, pytext.IsSpace), 10, 64)
	return i, err == nil
}

// parseFloat implements Python's float(s). For a number with underscores or with digits from another script, which
// Python accepts, it raises an error.
func parseFloat(s string) (float64, bool) {
	s = strings.TrimFunc(s, pytext.IsSpace)
	if strings.ContainsAny(s, "xXpP") { // Python doesn't parse hexadecimal floats
		return 0, false
	}
	f, err := strconv.ParseFloat(s, 64)
	if err == nil || math.IsInf(f, 0) {
		return f, true
	}
	plain := strings.Map(func(r rune) rune {
		switch {
		case r == '_':
			return -1
		case r >= utf8.RuneSelf && pytext.IsDecimal(r):
			return '0'
		}
		return r
	}, s)
	if _, err := strconv.ParseFloat(plain, 64); err == nil {
		throwUnsupported("a number with underscores or digits from another script")
	}
	return 0, false
}

func intFilter(st *state, v val, a *args) val {
	p := a.bind("int", 0, "default", "base")
	if !isMissing(p[1]) {
		throwUnsupported("the base argument of the filter int")
	}
	st.countScan(v.Text())
	var f float64
	ok := false
	switch v.Kind() {
	case pyvalue.KindInt, pyvalue.KindBool:
		return pyvalue.BigInt(v.Big())
	case pyvalue.KindFloat:
		f, ok = v.Float64(), true
	case pyvalue.KindStr:
		if i, ok := parseInt(v.Text()); ok {
			return pyvalue.Int(i)
		}
		f, ok = parseFloat(v.Text())
	default:
		defined(v)
	}
	if !ok || math.IsNaN(f) || math.IsInf(f, 0) && v.Kind() == pyvalue.KindStr {
		return or(p[0], pyvalue.Int(0))
	}
	return wholeNumber(f)
}

// wholeNumber implements Python's int(f).
func wholeNumber(f float64) val {
	if f = math.Trunc(f); !(math.Abs(f) < 1<<63) {
		tooLarge()
	}
	return pyvalue.Int(int64(f))
}
