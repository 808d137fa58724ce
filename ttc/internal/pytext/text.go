package pytext

import "unicode/utf8"

// DecodeRune decodes the first code point of WTF-8 text, and returns the code point and its size in bytes. A surrogate
// is returned as itself, with size 3. For an invalid byte, DecodeRune returns U+FFFD with size 1.
func DecodeRune(s string) (rune, int) {
	r, size := utf8.DecodeRuneInString(s)
	if size == 1 && r == utf8.RuneError && len(s) >= 3 && s[0] == 0xed && s[1]&0xe0 == 0xa0 && s[2]&0xc0 == 0x80 {
		return rune(s[0]&0x0f)<<12 | rune(s[1]&0x3f)<<6 | rune(s[2]&0x3f), 3
	}
	return r, size
}

// AppendRune appends the WTF-8 encoding of r, which may be a surrogate.
func AppendRune(dst []byte, r rune) []byte {
	if r >= 0xd800 && r <= 0xdfff {
		return append(dst, 0xed, byte(0x80|r>>6&0x3f), byte(0x80|r&0x3f))
	}
	return utf8.AppendRune(dst, r)
}

// Len implements Python's len(s), which counts code points.
func Len(s string) int {
	n := 0
	for i := 0; i < len(s); i++ {
		if s[i]&0xc0 != 0x80 {
			n++
		}
	}
	return n
}

// ByteIndex returns the byte offset of code point i in s, or len(s) if i is at or past the end.
func ByteIndex(s string, i int) int {
	if i <= 0 {
		return 0
	}
	for b := range len(s) {
		if s[b]&0xc0 != 0x80 {
			if i == 0 {
				return b
			}
			i--
		}
	}
	return len(s)
}
