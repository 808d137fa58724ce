package redact

import (
	"encoding/base64"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/nat-go/nat-go/internal/lazy"
)

// invisible lists characters that aren't displayed: zero-width spaces and joiners, and the soft hyphen.
const invisible = "\u200b\u200c\u200d\u2060\ufeff\u00ad"

// visible returns s without its invisible characters, and the position in s of each returned byte. The positions are
// nil if s doesn't contain such characters.
func visible(s string) (shown string, at []int) {
	if !strings.ContainsAny(s, invisible) {
		return s, nil
	}
	b := make([]byte, 0, len(s))
	at = make([]int, 0, len(s))
	for i, r := range s {
		if strings.ContainsRune(invisible, r) {
			continue
		}
		_, n := utf8.DecodeRuneInString(s[i:])
		for j := i; j < i+n; j++ {
			b = append(b, s[j])
			at = append(at, j)
		}
	}
	return string(b), at
}

// percent matches a percent-encoded printable character or line break.
var percent = lazy.Regexp(`%(?:0[AD]|[2-6][0-9A-Fa-f]|7[0-9A-Ea-e])`)

// unescapedAddress returns s without its percent-encoding, and the position in s of each returned byte. The positions
// are nil if s isn't percent-encoded. A + counts as a space, as in forms, unless spaces are written as %20.
func unescapedAddress(s string) (plain string, at []int) {
	if strings.IndexByte(s, '%') < 0 {
		return s, nil
	}
	found := percent().FindAllStringIndex(s, -1)
	if found == nil {
		return s, nil
	}
	form := !strings.Contains(s, "%20")
	b := make([]byte, 0, len(s))
	at = make([]int, 0, len(s)+1)
	for i := 0; i < len(s); i++ {
		c := s[i]
		at = append(at, i)
		switch {
		case len(found) > 0 && i == found[0][0]:
			n, _ := strconv.ParseUint(s[i+1:i+3], 16, 8) // cannot fail: the pattern matches only hex digits
			c, i, found = byte(n), i+2, found[1:]
		case c == '+' && form:
			c = ' '
		}
		b = append(b, c)
	}
	return string(b), append(at, len(s))
}

const (
	minEncoded = 24      // minimum length in bytes of base64 to decode; shorter data can't hold a recognisable secret
	maxEncoded = 1 << 20 // maximum length in bytes of base64 to decode; longer data is probably a file
	minWrapped = 60      // minimum length in bytes of a base64 line that may continue on the next line
)

// encoded finds base64-encoded text that contains something to redact. It ignores images, and text encoded twice,
// because it decodes only one level.
func (r *Redactor) encoded(s string) (out []found) {
	if r.decoding {
		return nil
	}
	r.decoding = true
	defer func() { r.decoding = false }()
	for from := 0; from < len(s); from++ {
		if !encodes[s[from]] {
			continue
		}
		to := encodedEnd(s, from)
		if n := to - from; n >= minEncoded && n <= maxEncoded {
			if text, ok := decoded(s[from:to]); ok && len(r.find(text)) > 0 {
				out = append(out, found{from, to, "data"})
			}
		}
		from = to
	}
	return out
}

// encodes marks the characters of both base64 alphabets, without the padding.
var encodes = func() (table [256]bool) {
	for _, c := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_") {
		table[c] = true
	}
	return table
}()

// encodedEnd returns the end of the base64 that begins at s[from]. Only a line of minWrapped bytes or more continues.
func encodedEnd(s string, from int) int {
	line, at := from, from
	for {
		for at < len(s) && encodes[s[at]] {
			at++
		}
		next := at
		if next < len(s) && s[next] == '\r' {
			next++
		}
		if at-line < minWrapped || next+1 >= len(s) || s[next] != '\n' || !encodes[s[next+1]] {
			break
		}
		line, at = next+1, next+1
	}
	for at < len(s) && s[at] == '=' {
		at++
	}
	return at
}

// decoded returns the text that s encodes in base64, or false if the decoded bytes aren't text.
func decoded(s string) (string, bool) {
	s = strings.TrimRight(s, "=")
	encoding := base64.RawStdEncoding
	if strings.ContainsAny(s, "-_") {
		encoding = base64.RawURLEncoding
	}
	const head = 24 // most binary data is recognisable from this many characters of base64
	if b, err := encoding.DecodeString(s[:min(len(s), head)&^3]); err != nil || !printable(b, true) {
		return "", false
	}
	b, err := encoding.DecodeString(s) // the decoder skips line breaks
	return string(b), err == nil && printable(b, false)
}

// printable reports whether bytes are text. If cut is set, the last character may be incomplete.
func printable(b []byte, cut bool) bool {
	for len(b) > 0 {
		c, n := utf8.DecodeRune(b)
		if c == utf8.RuneError && n == 1 {
			return cut && !utf8.FullRune(b)
		}
		if c < ' ' && c != '\n' && c != '\r' && c != '\t' && c != 0x1b {
			return false
		}
		b = b[n:]
	}
	return true
}
