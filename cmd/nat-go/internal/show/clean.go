package show

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// clean makes a text safe to print: line feeds stay, tabs become spaces, everything else that moves the cursor, changes the
// direction or is invisible becomes an escape.
func clean(s string) string {
	if !strings.ContainsFunc(s, hidden) && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			n = appendInvalid(&b, s[i:])
		case r == '\t':
			b.WriteString("    ")
		case !hidden(r):
			b.WriteString(s[i : i+n])
		case r == '\r':
			b.WriteString(`\r`)
		case r < 0x80:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
		i += n
	}
	return b.String()
}

// hidden says whether a character is anything but ink, a space or a line feed. Joiners within emoji and scripts are ink.
func hidden(r rune) bool {
	return r != '\n' && r != '\u200d' && r != '\u200c' && (unicode.Is(unicode.C, r) || r == '\u2028' || r == '\u2029')
}

// appendInvalid writes a lone surrogate (three bytes of WTF-8) or a stray byte, and returns how many bytes it took.
func appendInvalid(b *strings.Builder, s string) int {
	if len(s) >= 3 && s[0] == 0xed && s[1] >= 0xa0 && s[1] <= 0xbf && s[2]&0xc0 == 0x80 {
		fmt.Fprintf(b, `\u%04x`, 0xd000|rune(s[1]&0x3f)<<6|rune(s[2]&0x3f))
		return 3
	}
	fmt.Fprintf(b, `\x%02x`, s[0])
	return 1
}
