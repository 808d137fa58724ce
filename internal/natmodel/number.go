package natmodel

import (
	"strconv"
	"strings"
	"unicode"

	"github.com/nat-go/nat-go/ttc/json"
)

// ParseFloat reads a value as pydantic's lax float: a number (not an integer beyond a float's range), a boolean, or a
// string containing a number.
func ParseFloat(raw json.Raw) (float64, bool) {
	switch raw.Kind() {
	case json.Number:
		return raw.Float64()
	case json.Bool:
		if b, _ := raw.Bool(); b {
			return 1, true
		}
		return 0, true
	case json.String:
		return floatText(string(raw.Bytes()))
	}
	return 0, false
}

// floatText parses as Rust's f64 does, after trimming. If there are underscores between other characters, it retries
// without the underscores, and without trimming.
func floatText(s string) (float64, bool) {
	if f, ok := rustFloat(strings.TrimFunc(s, unicode.IsSpace)); ok {
		return f, true
	}
	if !strings.Contains(s, "_") || strings.HasPrefix(s, "_") || strings.HasSuffix(s, "_") ||
		strings.Contains(s, "__") {
		return 0, false
	}
	return rustFloat(strings.ReplaceAll(s, "_", ""))
}

// rustFloat parses [+-]? (inf | infinity | nan | digits with an optional point and exponent). strconv accepts more than
// that: hexadecimal and underscores.
func rustFloat(s string) (float64, bool) {
	body := strings.TrimLeft(s, "+-")
	if len(s)-len(body) > 1 || body == "" {
		return 0, false
	}
	switch strings.ToLower(body) {
	case "nan":
		s = "nan"
	case "inf", "infinity":
	default:
		if strings.Trim(body, "0123456789.eE+-") != "" {
			return 0, false
		}
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil && err.(*strconv.NumError).Err != strconv.ErrRange {
		return 0, false
	}
	return f, true
}

// Int is an integer of any size.
type Int struct {
	Text  string // decimal digits, as Python prints them
	Value int64  // the integer, if Fits is set
	Fits  bool   // the value fits in 64 bits
}

// ParseInt reads a value as pydantic's lax int: an integer of any size, a float without a fraction within 64 bits, a
// boolean, or a string containing an integer.
func ParseInt(raw json.Raw) (Int, bool) {
	switch raw.Kind() {
	case json.Bool:
		b, _ := raw.Bool()
		if b {
			return Int{"1", 1, true}, true
		}
		return Int{"0", 0, true}, true
	case json.Number:
		if raw.IsInt() {
			return newInt(string(raw)), true
		}
		f, _ := raw.Float64()
		if f != f || f < -0x1p63 || f >= 0x1p63 || f != float64(int64(f)) {
			return Int{}, false
		}
		return Int{strconv.FormatInt(int64(f), 10), int64(f), true}, true
	case json.String:
		return intText(string(raw.Bytes()))
	}
	return Int{}, false
}

// intText parses a sign, digits with single underscores between them, and a trailing ".0". Like pydantic, it strips
// leading zeros together with underscores, and accepts a minus after them.
func intText(s string) (Int, bool) {
	s = strings.TrimFunc(s, unicode.IsSpace)
	if rest, plus := strings.CutPrefix(s, "+"); plus {
		if s = rest; strings.HasPrefix(s, "-") {
			return Int{}, false
		}
	}
	if s != "" && s[0] == '0' {
		rest := strings.TrimLeft(s, "0_")
		before := s[len(s)-len(rest)-1]
		switch {
		case (rest == "" || rest[0] == '.') && before == '_', strings.HasPrefix(rest, "-0") && len(rest) > 2:
			return Int{}, false
		case rest == "" || rest[0] == '.':
			rest = "0" + rest
		}
		s = rest
	}
	if whole, zeros, ok := strings.Cut(s, "."); ok {
		if zeros == "" || strings.Trim(zeros, "0") != "" {
			return Int{}, false
		}
		s = whole
	}
	digits := strings.TrimPrefix(s, "-")
	if digits == "" || digits[0] == '_' || s[len(s)-1] == '_' || strings.Contains(s, "__") ||
		strings.Trim(digits, "0123456789_") != "" {
		return Int{}, false
	}
	if s = strings.ReplaceAll(s, "_", ""); len(s) > 4300 {
		return Int{}, false
	}
	return newInt(s), true
}

// newInt normalises a sign and digits.
func newInt(s string) Int {
	digits := strings.TrimLeft(strings.TrimPrefix(s, "-"), "0")
	switch {
	case digits == "":
		digits = "0"
	case s[0] == '-':
		digits = "-" + digits
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	return Int{digits, n, err == nil}
}
