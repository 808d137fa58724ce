package secret

import (
	"slices"
	"strings"

	"github.com/nat-go/nat-go/internal/lazy"
)

var (
	keyBegin = lazy.Regexp(`-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----`)
	keyEnd   = lazy.Regexp(`-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----`)
	// keyStart matches the beginning of a private key in base64: RSA and EC keys, PKCS #8 with and without a password,
	// and OpenSSH's keys. Certificates and public keys begin differently.
	keyStart = lazy.Regexp(`\b(?:MII(?:[BCEJ][A-Za-z0-9+/]{2}(?:IBAAK|gIBAAK|AIBAAK)|[A-Za-z0-9+/]{2}[QgAw]IBADANBgkqhkiG9w0)|MIG[A-Za-z0-9+/]{1,2}AgEAM|MHcCAQEE|MC4CAQAwBQYDK2Vw|b3BlbnNzaC1rZXktdjE)`)
	// keyText matches base64 without gaps that is too long to be a word.
	keyText = lazy.Regexp(`[A-Za-z0-9+/]{16,}={0,2}`)
)

const (
	maxKeyBytes  = 16 << 10 // maximum size from the first line to the last, in bytes; a 16,384-bit key takes 13 KiB
	maxKeyHeader = 300      // maximum number of bytes between the first line and the base64 (Proc-Type, DEK-Info)
	// maximum number of bytes between two lines of base64 (a line break, or a program's quotes and plus sign)
	maxKeyGap   = 16
	minKeyLine  = 40 // minimum length of any line but the last, in bytes
	minLastLine = 4
)

// privateKeys returns the byte ranges [from, to) of private keys in PEM, in order and disjoint: complete ones, and
// keys cut off after the first line or before the last. It ignores a line that only mentions such a key.
func privateKeys(s string) [][2]int {
	var out [][2]int
	if strings.Contains(s, "PRIVATE KEY") {
		for _, m := range keyBegin().FindAllStringIndex(s, -1) {
			if to := keyEndAfter(s, m[1]); to > 0 {
				out = append(out, [2]int{m[0], to})
			}
		}
		for _, m := range keyEnd().FindAllStringIndex(s, -1) {
			if from := keyStartBefore(s, m[0]); from < m[0] {
				out = append(out, [2]int{from, m[1]})
			}
		}
	}
	if slices.ContainsFunc([]string{"MII", "MIG", "MHcCAQ", "MC4CAQ", "b3BlbnNz"}, func(start string) bool {
		return strings.Contains(s, start)
	}) {
		for _, m := range keyStart().FindAllStringIndex(s, -1) {
			if to := keyLines(s, m[0]); to-m[0] >= minKeyLine {
				out = append(out, [2]int{m[0], to})
			}
		}
	}
	return merge(out)
}

// keyEndAfter returns the end of the private key whose first line ends at from, or 0 if there is no key.
func keyEndAfter(s string, from int) int {
	rest := s[from:min(len(s), from+maxKeyBytes)]
	if m := keyEnd().FindStringIndex(rest); m != nil {
		if next := keyBegin().FindStringIndex(rest); (next == nil || next[0] > m[0]) && encoded(rest[:m[0]]) {
			return from + m[1]
		}
	}
	first := keyText().FindStringIndex(rest[:min(len(rest), maxKeyHeader)])
	if first == nil || !encoded(rest[first[0]:min(len(rest), first[0]+minKeyLine)]) {
		return 0
	}
	if to := keyLines(s, from+first[0]); to-from-first[0] >= minKeyLine || to == len(s) {
		return to
	}
	return 0
}

// encoded reports whether at least half of a text, apart from white space, is base64 without gaps.
func encoded(s string) bool {
	long := 0
	for _, m := range keyText().FindAllStringIndex(s, -1) {
		long += m[1] - m[0]
	}
	return long > 0 && 2*long >= len(strings.Join(strings.Fields(s), ""))
}

// keyLines returns the end of the lines of base64 that begin at from.
func keyLines(s string, from int) int {
	for at := from; ; {
		line := base64End(s, at)
		if line-at < minKeyLine {
			return line
		}
		next := line
		for next < len(s) && next-line < maxKeyGap && base64End(s, next)-next < minLastLine {
			if s[next] == '\\' && next+1 < len(s) && strings.IndexByte("nrt", s[next+1]) >= 0 {
				next++ // skip both characters of an escape
			}
			next++
		}
		next = min(next, len(s))
		to := base64End(s, next)
		if to == next || to-next < minKeyLine && !alone(s, line, next, to) {
			return line
		}
		at = next
	}
}

// alone reports whether a short piece of base64 is the last line of its text, with nothing else on its line.
func alone(s string, before, from, to int) bool {
	gap := s[before:from]
	return (strings.Contains(gap, "\n") || strings.Contains(gap, `\n`)) &&
		(to == len(s) || strings.IndexByte("\r\n\\\"'", s[to]) >= 0)
}

// keyStartBefore returns the start of the lines of base64 that precede the last line of a private key, or at if there
// are none.
func keyStartBefore(s string, at int) int {
	from, end := at, at
	for last := true; ; last = false {
		to := end
		for to > 0 && end-to < maxKeyGap && !isBase64(s[to-1]) {
			to--
		}
		if to > 0 && s[to-1] == 'n' && to > 1 && s[to-2] == '\\' {
			to -= 2
		}
		line := to
		for line > 0 && isBase64(s[line-1]) && at-line < maxKeyBytes && (s[line-1] != 'n' || line < 2 ||
			s[line-2] != '\\') {
			line--
		}
		if to-line < minKeyLine && !(last && to-line > 0) || at-line >= maxKeyBytes {
			break
		}
		if !last || to-line >= minKeyLine {
			from = line
		}
		end = line
	}
	return from
}

func base64End(s string, at int) int {
	for at < len(s) && isBase64(s[at]) {
		at++
	}
	return at
}

func isBase64(c byte) bool {
	return c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z' || c == '+' || c == '/' || c == '='
}
