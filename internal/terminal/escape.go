package terminal

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Text makes s safe to print. It keeps line feeds and tabs.
func Text(s string) string {
	if plain(s) == len(s) {
		return s
	}
	return string(appendSafe(nil, s))
}

// Line makes s safe to print on one line.
func Line(s string) string {
	if plain(s) == len(s) && !strings.ContainsAny(s, "\n\t") {
		return s
	}
	return strings.NewReplacer("\n", `\n`, "\t", " ").Replace(Text(s))
}

var styles = regexp.MustCompile("\x1b\\[[0-9;:]*m")

// Output converts a program's output for a terminal to plain lines: it removes colours, and keeps only the last state
// of an overwritten line, such as a progress bar.
func Output(printed []byte) string {
	var b strings.Builder
	for line := range strings.Lines(styles.ReplaceAllString(string(printed), "")) {
		text, ended := strings.CutSuffix(line, "\n")
		text = strings.TrimRight(text, "\r")
		ended = ended || len(text) < len(line)
		b.WriteString(Text(text[strings.LastIndexByte(text, '\r')+1:]))
		if ended {
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// plain returns the length of the prefix of s that consists of printable ASCII, spaces, tabs and line feeds.
func plain[T string | []byte](s T) int {
	for i := 0; i < len(s); i++ {
		if c := s[i]; c >= 0x7f || c < ' ' && c != '\n' && c != '\t' {
			return i
		}
	}
	return len(s)
}

func appendSafe[T string | []byte](dst []byte, s T) []byte {
	for i := 0; i < len(s); {
		if n := plain(s[i:]); n > 0 {
			dst = append(dst, s[i:i+n]...)
			i += n
			continue
		}
		r, n := rune(s[i]), 1
		if r >= utf8.RuneSelf {
			r, n = utf8.DecodeRuneInString(string(s[i:min(i+utf8.UTFMax, len(s))]))
		}
		switch {
		case r == utf8.RuneError && n == 1:
			dst, n = appendInvalid(dst, s[i:])
		case !hidden(r):
			dst = append(dst, s[i:i+n]...)
		case r < 0x10000:
			dst = appendUnit(dst, r)
		default:
			high, low := utf16.EncodeRune(r)
			dst = appendUnit(appendUnit(dst, high), low)
		}
		i += n
	}
	return dst
}

// Safe reports whether Line prints a character unchanged.
func Safe(r rune) bool { return !hidden(r) }

// hidden reports whether a character is neither visible nor a space. Joiners within emoji and scripts count as visible.
func hidden(r rune) bool {
	return r != '\u200d' && r != '\u200c' && (unicode.Is(unicode.C, r) || r == '\u2028' || r == '\u2029')
}

func appendUnit(dst []byte, r rune) []byte { return fmt.Appendf(dst, `\u%04x`, r) }

// appendInvalid appends an escaped lone surrogate (three bytes of WTF-8) or stray byte, and returns the number of bytes
// consumed.
func appendInvalid[T string | []byte](dst []byte, s T) ([]byte, int) {
	if len(s) >= 3 && s[0] == 0xed && s[1] >= 0xa0 && s[1] <= 0xbf && s[2]&0xc0 == 0x80 {
		return appendUnit(dst, 0xd000|rune(s[1]&0x3f)<<6|rune(s[2]&0x3f)), 3
	}
	return fmt.Appendf(dst, `\x%02x`, s[0]), 1
}
