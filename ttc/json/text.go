package json

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"
	"unsafe"

	"github.com/nat-go/nat-go/ttc/internal/pytext"
)

// Text returns the text of a string value as WTF-8, which is UTF-8 except that an escaped lone surrogate keeps its
// three-byte generalised encoding, as in Python. It always copies.
func (r Raw) Text() (string, bool) {
	if r.Kind() != String {
		return "", false
	}
	body := r[1 : len(r)-1]
	if bytes.IndexByte(body, '\\') < 0 {
		return string(body), true
	}
	b := appendUnescaped(make([]byte, 0, len(body)), body)
	return unsafe.String(unsafe.SliceData(b), len(b)), true
}

// Bytes returns the text of a string value, copying it only if it contains escapes. The result is valid for as long as
// r is. It is nil for any other kind.
func (r Raw) Bytes() []byte {
	if r.Kind() != String {
		return nil
	}
	body := r[1 : len(r)-1]
	if bytes.IndexByte(body, '\\') < 0 {
		return body
	}
	return appendUnescaped(nil, body)
}

// AppendText appends the text of a string value to dst. For any other kind, it appends nothing.
func (r Raw) AppendText(dst []byte) []byte {
	if r.Kind() != String {
		return dst
	}
	return appendUnescaped(dst, r[1:len(r)-1])
}

// Is reports whether r is a string value equal to text.
func (r Raw) Is(text string) bool {
	if r.Kind() != String {
		return false
	}
	body := r[1 : len(r)-1]
	if len(body) == len(text) && string(body) == text {
		return bytes.IndexByte(body, '\\') < 0
	}
	if len(body) <= len(text) || bytes.IndexByte(body, '\\') < 0 {
		return false
	}
	var small [128]byte
	return string(appendUnescaped(small[:0], body)) == text
}

func appendUnescaped(dst, body []byte) []byte {
	for {
		n := bytes.IndexByte(body, '\\')
		if n < 0 {
			return append(dst, body...)
		}
		dst = append(dst, body[:n]...)
		c := body[n+1]
		body = body[n+2:]
		if c != 'u' {
			dst = append(dst, unescaped[c])
			continue
		}
		r := hex4(body)
		body = body[4:]
		if utf16.IsSurrogate(r) && len(body) >= 6 && body[0] == '\\' && body[1] == 'u' {
			if pair := utf16.DecodeRune(r, hex4(body[2:])); pair != utf8.RuneError {
				r, body = pair, body[6:]
			}
		}
		dst = pytext.AppendRune(dst, r)
	}
}

// unescaped maps the letter of an escape to the character that it encodes.
var unescaped = [256]byte{
	'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t',
}

func hex4(p []byte) rune {
	return rune(hexValue[p[0]])<<12 | rune(hexValue[p[1]])<<8 | rune(hexValue[p[2]])<<4 | rune(hexValue[p[3]])
}

// hexValue maps hexadecimal digits to 0..15, and all other bytes to 255.
var hexValue = func() (t [256]byte) {
	for c := range t {
		switch {
		case c >= '0' && c <= '9':
			t[c] = byte(c - '0')
		case c >= 'a' && c <= 'f':
			t[c] = byte(c - 'a' + 10)
		case c >= 'A' && c <= 'F':
			t[c] = byte(c - 'A' + 10)
		default:
			t[c] = 255
		}
	}
	return t
}()

const hexDigits = "0123456789abcdef"

// AppendComma appends a comma to an array or object that is being written, unless it is still empty.
func AppendComma(dst []byte) []byte {
	if last := dst[len(dst)-1]; last == '[' || last == '{' {
		return dst
	}
	return append(dst, ',')
}

// AppendString appends text as a JSON string in UTF-8, escaping only what must be escaped: quotes, backslashes, control
// characters, and lone surrogates as \udXXX (UTF-8 can't represent them). Without lone surrogates, the
// result equals json.dumps(text, ensure_ascii=False). Bytes that are not WTF-8 become U+FFFD.
func AppendString(dst []byte, text string) []byte {
	dst, _ = appendQuoted(dst, text, false)
	return dst
}

// AppendASCII appends text as a JSON string in ASCII, byte for byte as Python's json.dumps(text) does: quotes,
// backslashes and everything outside ' '..'~', including lone surrogates, are escaped by AppendEscape.
func AppendASCII(dst []byte, text string) []byte {
	dst, _ = AppendChecked(dst, text)
	return dst
}

// AppendChecked is like AppendASCII, and also reports whether text is UTF-8. If it isn't, invalid bytes become
// \ufffd, and lone surrogates become a single \udXXX escape.
func AppendChecked(dst []byte, text string) (out []byte, isUTF8 bool) {
	return appendQuoted(dst, text, true)
}

func appendQuoted(dst []byte, s string, ascii bool) (out []byte, isUTF8 bool) {
	isUTF8 = true
	text := unsafe.Slice(unsafe.StringData(s), len(s))
	dst = append(dst, '"')
	start := 0
	for i := skipPlain(text, 0); i < len(text); i = skipPlain(text, i) {
		c := text[i]
		if c < utf8.RuneSelf {
			if c == 0x7F && !ascii {
				i++
				continue
			}
			dst = append(dst, text[start:i]...)
			dst = AppendEscape(dst, rune(c))
			i++
			start = i
			continue
		}
		r, size := pytext.DecodeRune(s[i:])
		if valid := r&^0x7FF != 0xD800 && (r != utf8.RuneError || size == 3); !valid {
			isUTF8 = false
		} else if !ascii {
			i += size
			continue
		}
		dst = append(dst, text[start:i]...)
		if !ascii && r == utf8.RuneError {
			dst = append(dst, "\uFFFD"...)
		} else {
			dst = AppendEscape(dst, r)
		}
		i += size
		start = i
	}
	dst = append(dst, text[start:]...)
	return append(dst, '"'), isUTF8
}

// skipPlain returns the position of the first byte at or after text[i] that is a quote, a backslash or not printable
// ASCII. It examines eight bytes at a time.
func skipPlain(text []byte, i int) int {
	for ; i+8 <= len(text); i += 8 {
		w := binary.LittleEndian.Uint64(text[i:])
		if m := special(w) | ((w^ones*0x7F)-ones)&highs; m != 0 {
			return i + bits.TrailingZeros64(m)>>3
		}
	}
	for i < len(text) && text[i] >= ' ' && text[i] < 0x7F && text[i] != '"' && text[i] != '\\' {
		i++
	}
	return i
}

// AppendEscape appends the escape of a character in a JSON string, as Python's json.dumps writes it: the short form if
// one exists, else \uXXXX in lower case, as a surrogate pair beyond the basic plane.
func AppendEscape(dst []byte, r rune) []byte {
	switch r {
	case '"', '\\':
		return append(dst, '\\', byte(r))
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	case '\f':
		return append(dst, '\\', 'f')
	case '\b':
		return append(dst, '\\', 'b')
	}
	if r >= 0x10000 {
		high, low := utf16.EncodeRune(r)
		return appendU(appendU(dst, high), low)
	}
	return appendU(dst, r)
}

func appendU(dst []byte, r rune) []byte {
	return append(dst, '\\', 'u', hexDigits[r>>12&15], hexDigits[r>>8&15], hexDigits[r>>4&15], hexDigits[r&15])
}
