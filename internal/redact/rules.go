package redact

import (
	"encoding/base64"
	"encoding/json"
	"hash/crc32"
	"iter"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/nat-go/nat-go/internal/secret"
)

// rule recognises text to replace: the last submatch of its pattern.
type rule struct {
	class string
	hints []string // every matching text contains one of these
	re    *regexp.Regexp
	is    func(match, before string) bool // whether a match counts; if nil, it always counts
	near  func(s string, at int) bool     // whether to search around the hint at a position; if nil, always
	long  bool                            // a match may be longer than a window
}

// A window is the text searched around a hint. It is small because the time for a pattern is proportional to the
// bytes that it examines.
const (
	windowBefore = 128
	windowAfter  = 512
)

// windows returns the parts of a text that may contain a match, disjoint and in order.
func (r *rule) windows(s string) iter.Seq[[2]int] {
	return func(yield func([2]int) bool) {
		var places []int
		for _, h := range r.hints {
			for at := range occurrences(s, h) {
				if r.near == nil || r.near(s, at) {
					places = append(places, at)
					if r.long {
						break
					}
				}
			}
		}
		slices.Sort(places)
		if len(places) > 0 && r.long {
			yield([2]int{places[0] - min(places[0], windowBefore), len(s)})
			return
		}
		for i := 0; i < len(places); {
			w := [2]int{max(0, places[i]-windowBefore), min(len(s), places[i]+windowAfter)}
			for ; i < len(places) && places[i]-windowBefore <= w[1]; i++ {
				w[1] = min(len(s), places[i]+windowAfter)
			}
			if !yield(w) {
				return
			}
		}
	}
}

// occurrences returns the positions of a substring in a text, in order and without overlaps.
func occurrences(s, part string) iter.Seq[int] {
	return func(yield func(int) bool) {
		for at := 0; ; at += len(part) {
			i := strings.Index(s[at:], part)
			if at += i; i < 0 || !yield(at) {
				return
			}
		}
	}
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// between reports whether there are digits on both sides of a position.
func between(s string, at int) bool {
	return at > 0 && at+1 < len(s) && isDigit(s[at-1]) && isDigit(s[at+1])
}

func beforeDigit(s string, at int) bool { return at+1 < len(s) && isDigit(s[at+1]) }

// hexBefore reports whether the text around a position may be part of an IPv6 address.
func hexBefore(s string, at int) bool {
	hex := func(c byte) bool { return isDigit(c) || c|0x20 >= 'a' && c|0x20 <= 'f' }
	return at > 0 && at+5 < len(s) && hex(s[at-1]) && hex(s[at+1]) && strings.IndexByte(s[at+1:at+6], ':') > 0
}

// afterWord reports whether a long word precedes a position.
func afterWord(s string, at int) bool {
	const minLen = 20
	if at < minLen {
		return false
	}
	for _, c := range []byte(s[at-minLen : at]) {
		if !isDigit(c) && (c|0x20 < 'a' || c|0x20 > 'z') && c != '_' && c != '-' {
			return false
		}
	}
	return true
}

// matching returns a rule.
func matching(class, pattern string, is func(match, before string) bool, hints ...string) rule {
	return rule{class: class, hints: hints, re: regexp.MustCompile(pattern), is: is}
}

// where restricts a rule to hints at certain positions.
func (r rule) where(near func(s string, at int) bool) rule {
	r.near = near
	return r
}

// ofAnyLength allows a rule to match more than a window.
func (r rule) ofAnyLength() rule {
	r.long = true
	return r
}

// key returns the rule for a service's keys. bits is the minimum entropy of a key, in bits per byte.
func key(class, pattern string, bits float64, hint string) rule {
	return matching(class, `(?:^|[^A-Za-z0-9_])(`+pattern+`)`, func(match, before string) bool {
		return secret.Entropy(match) >= bits && !secret.IsExample(match) && !strings.HasSuffix(before, "sha512-")
	}, hint)
}

var rules = sync.OnceValue(func() []rule {
	return append([]rule{
		matching("github_token", `(gh[pousr]_[A-Za-z0-9]{36})`, isIssued, "ghp_", "gho_", "ghu_", "ghs_", "ghr_"),
		matching("npm_token", `(npm_[A-Za-z0-9]{36})`, isIssued, "npm_"),
		matching("jwt", `\b(eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,})`, isJWT, "eyJ"),
		matching("url_password", `[a-zA-Z][a-zA-Z0-9+.-]*://[^/\s:@"'<>]*:([^/\s@"'<>$]{3,})@[A-Za-z0-9\[]`, nil,
			"://"),
		matching("bearer_token", `(?i)\bbearer\s+([A-Za-z0-9._~+/-]{16,}=*)`, func(m, _ string) bool {
			return secret.Entropy(m) > 3 && digits(m)
		}, "earer ", "EARER "),
		matching("email", `\b([A-Za-z0-9][A-Za-z0-9._%+-]{0,63}@[A-Za-z0-9][A-Za-z0-9-]*(?:\.[A-Za-z0-9-]+)*`+
			`\.[A-Za-z]{2,24})\b`, isEmail, "@"),
		matching("phone", `(?:^|[^\w.+/-])(\+[1-9]\d{0,2}(?:[ .-]?\(\d{1,4}\))?(?:[ .-]\d{2,5}){2,5}|`+
			`\(\d{3}\) \d{3}-\d{4}|\+[1-9]\d{9,13})\b`, isPhone, "+", "(").where(beforeDigit),
		matching("ip", `(?:^|[^\w.])((?:\d{1,3}\.){3}\d{1,3})\b`, isIPv4, ".").where(between),
		matching("ip", `(?:^|[^\w:.])((?:[0-9A-Fa-f]{1,4}:){5,7}[0-9A-Fa-f:]{1,9})`, isIPv6, ":").where(hexBefore),
		matching("home", `(?:/home|/Users)/([A-Za-z0-9][\w.-]{0,31})`, isPerson, "/home/", "/Users/"),
		matching("home", `[A-Za-z]:\\{1,4}Users\\{1,4}([A-Za-z0-9][\w.-]{0,31})`, isPerson, `Users\`),
	}, append(surrounded(), keys()...)...)
})

// surrounded returns the rules for secrets that can only be recognised by the text before them.
func surrounded() []rule {
	return []rule{
		matching("private_key", `Private-Lines: \d+\s+([A-Za-z0-9+/=\s]+?)\s*Private-MAC`, nil, "Private-Lines:").
			ofAnyLength(),
		matching("private_key", `key-data["']?\s*[:=]\s*["']?(LS0tLS[A-Za-z0-9+/]{20,}={0,2})`, nil, "key-data").
			ofAnyLength(),
		matching("secret", `\bmachine\s+\S+\s+login\s+\S+\s+password\s+([^\s"'\\]{4,})`, nil, "netrc", "machine "),
		matching("secret", `(?:-u ?|--user[ =])["']?[^\s:"']+:([^\s"'$]{4,})`, ofCurl,
			" -u ", " -u'", ` -u"`, "--user"),
		matching("secret", `\bmysql(?:dump|admin|import)?\b[^\n|;&]{0,200}? -p["']?([^\s"'$-][^\s"'$]{4,})`,
			func(m, _ string) bool { return digits(m) }, "mysql"),
		matching("secret", `\bsshpass\s+-p\s*["']?([^\s"'$]{4,})`, nil, "sshpass"),
		matching("secret", `\bauth["\s]*:["\s]*([A-Za-z0-9+/]{12,}={0,2})`, isLogin, "auth").where(beforeColon),
		matching("secret", `secret_key_base["'\s:=]+([0-9a-f]{32,})`, nil, "secret_key_base"),
		matching("webhook", `discord(?:app)?\.com/api/webhooks/\d+/([\w-]{40,})`, nil, "/api/webhooks/"),
		matching("webhook", `webhook\.office\.com/webhookb2/([\w@/-]{60,})`, nil, "webhook.office.com"),
		matching("home", `projects/-(?:home|Users)-([A-Za-z0-9][A-Za-z0-9_.]{0,31})`, isPerson, "projects/-"),
	}
}

// ofCurl reports whether the match follows curl or wget on its line, which means that it is a user name and a
// password. With other programs, it may be a user and a group.
func ofCurl(_, before string) bool {
	line := before[strings.LastIndexByte(before, '\n')+1:]
	return strings.Contains(line, "curl") || strings.Contains(line, "wget")
}

// beforeColon reports whether a colon follows within a few characters.
func beforeColon(s string, at int) bool { return strings.Contains(s[at:min(len(s), at+12)], ":") }

// isLogin reports whether match is a base64-encoded user name and password.
func isLogin(match, _ string) bool {
	b, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(match, "="))
	name, password, ok := strings.Cut(string(b), ":")
	return err == nil && ok && name != "" && password != ""
}

// keys returns the rules for keys that are recognisable without a word before them.
func keys() []rule {
	return []rule{
		key("azure_key", `[A-Za-z0-9+/]{86}==`, 4.5, "==").
			where(func(s string, at int) bool { return afterWord(s, at-1) }),
		key("discord_token", `[MNO][\w-]{23,25}\.[\w-]{6}\.[\w-]{27,38}`, 4, ".").where(afterWord),
	}
}

func digits(s string) bool { return strings.ContainsAny(s, "0123456789") }

// isIssued reports whether a token with a prefix of four bytes has a checksum or looks random.
func isIssued(match, _ string) bool { return checked(match[4:]) || secret.Entropy(match) > 4 }

// checked reports whether the last six characters are the checksum of the preceding ones, as in GitHub's and
// npm's tokens.
func checked(s string) bool {
	const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	if len(s) < 7 {
		return false
	}
	sum := crc32.ChecksumIEEE([]byte(s[:len(s)-6]))
	var want [6]byte
	for i := 5; i >= 0; i-- {
		want[i] = digits[sum%62]
		sum /= 62
	}
	return s[len(s)-6:] == string(want[:])
}

func isJWT(match, _ string) bool {
	head, _, _ := strings.Cut(match, ".")
	b, err := base64.RawURLEncoding.DecodeString(head)
	return err == nil && json.Valid(b) && strings.Contains(string(b), `"alg"`)
}

// isEmail excludes addresses of programs and addresses made up for documentation.
func isEmail(match, before string) bool {
	name, host, _ := strings.Cut(strings.ToLower(match), "@")
	switch {
	case name == "git" || name == "noreply" || name == "no-reply" || strings.HasSuffix(before, "://"):
		return false
	case host == "example.com" || host == "example.org" || host == "example.net" || strings.HasSuffix(host, ".example"):
		return false
	}
	last := host[strings.LastIndexByte(host, '.')+1:]
	return !notDomains[last]
}

// notDomains lists suffixes that may follow an @ and a dot but aren't domains: file extensions (logo@2x.png), the
// suffixes of systemd units, and reserved names.
var notDomains = map[string]bool{
	"png": true, "jpg": true, "jpeg": true, "gif": true, "svg": true,
	"webp": true, "js": true, "ts": true, "css": true, "json": true,
	"service": true, "target": true, "local": true, "test": true, "invalid": true, "localhost": true,
}

func isPhone(match, before string) bool {
	n := 0
	for _, r := range match {
		if r >= '0' && r <= '9' {
			n++
		}
	}
	if n < 9 || n > 15 {
		return false
	}
	// A plus with digits at the beginning of a line may be an added line in a diff.
	return match[0] != '+' || strings.ContainsAny(match[1:], " .-(") || before != "" && !strings.HasSuffix(before, "\n")
}

// isIPv4 excludes addresses that don't identify a host, and numbers that may be versions.
func isIPv4(match, before string) bool {
	ip, err := netip.ParseAddr(match)
	if err != nil || ip.IsLoopback() || ip.IsUnspecified() || ip.IsMulticast() {
		return false
	}
	b := ip.As4()
	switch {
	case b[0] == 255 || b[3] == 255 || b[0] == 0,
		b[0] == 192 && b[1] == 0 && b[2] == 2,
		b[0] == 198 && b[1] == 51,
		b[0] == 203 && b[1] == 0:
		return false
	case b == [4]byte{8, 8, 8, 8} || b == [4]byte{8, 8, 4, 4} || b == [4]byte{1, 1, 1, 1}:
		return false
	case b[0] < 32 && b[1] < 32 && b[2] < 32 && b[0] != 10: // looks like a version, such as 1.2.3.4
		return false
	}
	tail := strings.ToLower(before[max(0, len(before)-10):])
	return !strings.Contains(tail, "version") && !strings.HasSuffix(tail, "==") && !strings.HasSuffix(tail, "v")
}

func isIPv6(match, _ string) bool {
	ip, err := netip.ParseAddr(match)
	return err == nil && ip.IsGlobalUnicast()
}

// isPerson excludes home folders that have the same name on many machines.
func isPerson(match, _ string) bool { return !everyones[strings.ToLower(match)] }

var everyones = map[string]bool{
	"user": true, "root": true, "ubuntu": true, "runner": true,
	"app": true, "node": true, "vscode": true, "jovyan": true, "shared": true,
	"public": true, "default": true, "linuxbrew": true, "admin": true,
	"dev": true, "agent": true, "coder": true, "codespace": true,
	"git": true, "www": true, "username": true, "you": true, "me": true,
}
