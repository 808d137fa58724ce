package pytext

import (
	"sort"
	"unicode"
)

// IsPrintable implements chr(r).isprintable().
func IsPrintable(r rune) bool {
	if r < 0x7f {
		return r >= ' '
	}
	// printable holds the first code point of every run. Printable and non-printable runs alternate; a run that starts
	// at an even index is printable.
	return inRanges(printable, r)
}

// IsSpace implements chr(r).isspace(), which also defines white space for strip() and split().
func IsSpace(r rune) bool {
	switch {
	case r <= 0x20:
		return r == 0x20 || r >= 0x09 && r <= 0x0d || r >= 0x1c
	case r < 0x1680:
		return r == 0x85 || r == 0xa0
	}
	return r == 0x1680 || r >= 0x2000 && r <= 0x200a || r == 0x2028 || r == 0x2029 || r == 0x202f || r == 0x205f ||
		r == 0x3000
}

// isAlpha implements chr(r).isalpha().
func isAlpha(r rune) bool { return unicode.IsLetter(r) && IsPrintable(r) }

// IsDecimal implements chr(r).isdecimal().
func IsDecimal(r rune) bool { return unicode.Is(unicode.Nd, r) && IsPrintable(r) }

// IsDigit implements chr(r).isdigit().
func IsDigit(r rune) bool { return IsDecimal(r) || inRanges(digits, r) }

// isNumeric implements chr(r).isnumeric().
func isNumeric(r rune) bool {
	return (unicode.IsNumber(r) && IsPrintable(r)) || inRanges(numerics, r)
}

// IsAlnum implements chr(r).isalnum().
func IsAlnum(r rune) bool { return isAlpha(r) || isNumeric(r) }

// isUpper implements chr(r).isupper().
func isUpper(r rune) bool {
	return (unicode.IsUpper(r) || unicode.Is(unicode.Other_Uppercase, r)) && IsPrintable(r)
}

// isLower implements chr(r).islower().
func isLower(r rune) bool {
	return (unicode.IsLower(r) || unicode.Is(unicode.Other_Lowercase, r)) && IsPrintable(r) && !inRanges(notLower, r)
}

// isTitle reports whether r is a title-case letter (category Lt).
func isTitle(r rune) bool { return unicode.Is(unicode.Lt, r) }

func inRanges(t []rune, r rune) bool {
	n := sort.Search(len(t), func(i int) bool { return t[i] > r })
	return n%2 == 1
}

// AppendUpper appends chr(r).upper(), AppendLower appends chr(r).lower() (without the final-sigma rule), and
// AppendTitle appends chr(r).title(). The result is one or more code points.
func AppendUpper(dst []byte, r rune) []byte { return appendCase(dst, r, upperSpecial, unicode.ToUpper) }

// AppendLower appends chr(r).lower(); see AppendUpper.
func AppendLower(dst []byte, r rune) []byte { return appendCase(dst, r, lowerSpecial, unicode.ToLower) }

// AppendTitle appends chr(r).title(); see AppendUpper.
func AppendTitle(dst []byte, r rune) []byte { return appendCase(dst, r, titleSpecial, unicode.ToTitle) }

func appendCase(dst []byte, r rune, special map[rune]string, simple func(rune) rune) []byte {
	if r >= 0x80 {
		if s, ok := special[r]; ok {
			return append(dst, s...)
		}
	}
	return AppendRune(dst, simple(r))
}

// IsCased and IsCaseIgnorable are the properties used by the final-sigma rule of lower().
func IsCased(r rune) bool { return isUpper(r) || isLower(r) || isTitle(r) }

// IsCaseIgnorable reports whether the final-sigma rule ignores r; see IsCased.
func IsCaseIgnorable(r rune) bool {
	if unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf, unicode.Lm, unicode.Sk) {
		return true
	}
	switch r {
	case '\'', '.', ':', 0xb7, 0x387, 0x55f, 0x5f4, 0x2018, 0x2019, 0x2024, 0x2027, 0xfe13, 0xfe52, 0xfe55, 0xff07,
		0xff0e, 0xff1a:
		return true
	}
	return false
}
