package secret

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/nat-go/nat-go/internal/lazy"
	"github.com/nat-go/nat-go/internal/lists"
)

// secretWords are the endings of names whose values are secrets.
const secretWords = `token|secret|passw(?:or)?d|passphrase|passwd|pwd|api[_-]?key|access[_-]?key|secret[_-]?key|private[_-]?key|auth[_-]?key|credentials?`

const (
	words = `(?:` + secretWords + `|(?:\b|[_-]|pg)pass|(?-i:[a-z0-9]Pass))`
	// the last word of a flag whose value is a secret
	flagWords = `(?:` + secretWords + `|pass)`
)

// value matches one word of a command line or a file, quoted or not.
const value = `(\$\{[^}\s]*\}|"(?:[^"\\]|\\.)*"?|'[^']*'?|[^\s"',;}\])]+)`

// names lists the endings that secretWords matches, and "pass".
var names = append([]string{
	"token", "secret", "password", "passwd", "passphrase", "pass", "pwd", "credential", "credentials",
}, keyNames()...)

func keyNames() (out []string) {
	for _, of := range []string{"api", "access", "secret", "private", "auth"} {
		out = append(out, of+"key", of+"-key", of+"_key")
	}
	return out
}

// shape returns a finder for a pattern whose last group is a secret. If sure is set, the group is a secret unless
// ordinary returns true. Otherwise, the group must have at least minBytes bytes (0 means eight) and look random,
// because prose may mention the same keys. With a minBytes of -1, the group may be shorter than minValue. fits
// reports whether to search around a hint at [at, end); nil means always.
func shape(pattern string, sure bool, minBytes int, fits func(s string, at, end int) bool, hints ...string) finder {
	return finder{
		hints: hints, re: lazy.Regexp(pattern),
		window: func(s string, at, end int) (w [2]int, ok bool) {
			if fits != nil && !fits(s, at, end) {
				return w, false
			}
			return around(s, at, end), true
		},
		place: func(s string, m []int) (Place, bool) {
			from, to := m[len(m)-2], m[len(m)-1]
			if from < 0 {
				return Place{}, false
			}
			from, to = unquoted(s, from, to)
			return Place{from, to, Context}, secretIn(s[m[0]:from], s[from:to], sure, minBytes)
		},
	}
}

// secretIn reports whether a value is a secret; before is the part of the match that precedes it.
func secretIn(before, v string, sure bool, minBytes int) bool {
	switch {
	case v == "" || IsReference(v) || ofShell().MatchString(v) || strings.Trim(v, "*") == "",
		len(v) > 2 && strings.Trim(v, ".xX") == "",
		minBytes >= 0 && len(strings.Trim(v, "`.,:;!?()")) < minValue: // `HF_TOKEN=x`, as in prose
		return false
	case sure:
		return !ordinary(before, v)
	}
	return random(v, minBytes)
}

func shapes() []finder {
	cookie := shape(`(?i)\b(?:x-api-key|api-key|x-auth-token|private-token|x-goog-api-key|ocp-apim-subscription-key|(?:set-)?cookie)\s*:\s*([^\r\n"']+)`,
		false, 0, isAssigned, "key", "token", "cookie")
	cookie.window = wholeLine(cookie.window)
	return []finder{
		shape(`(?i)\b[a-z][a-z0-9+.-]*://[^/\s:@"'<>]*:([^/\s@"'<>]+)@`, true, -1, beforeAt, "://"),
		shape(`(?i)\bhttps?://([^/\s:@"'<>]+)@`, true, -1, beforeAt, "://"),
		shape(`(?i)\b(?:proxy-)?authorization["']?\s*[:=]\s*["']?(?:bearer|basic|token|digest|negotiate)\s+(\$\{[^}\s]*\}|[^\s"',;}]+)`,
			true, 0, isAssigned, "authorization"),
		shape(`(?i)\b(?:proxy-)?authorization["']?\s*[:=]\s*`+value, false, 0, isAssigned, "authorization"),
		shape(`(?i)\b(?:bearer|basic)\s+([A-Za-z0-9._~+/=-]{8,})`, false, 0, nil, "bearer", "basic"),
		cookie,
		shape(`[?&](?i:access_token|token|api_?key|key|sig|signature|secret|password|x-amz-signature|x-amz-security-token|x-goog-signature)=([^&\s"'#]+)`,
			false, 0, nil, "token=", "key=", "sig=", "signature=", "secret=", "password="),
		shape(`(?i)(?:^|[\s"'\[(=,])--?(?:[\w-]*[_-])?`+flagWords+`(?:=|["']?\s*,\s*["']|["']?[ \t]+)`+value, false, 6,
			ofFlag, names...),
		shape(`\b([A-Z][A-Z0-9]*_)*(?:TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|(?:PG)?PASS|PWD|KEY|PAT|CREDENTIALS?|APIKEY|ACCESS_KEY_ID)=`+
			value, true, 0, nil, "token=", "secret=", "password=", "passwd=", "passphrase=", "pass=", "pwd=", "key=",
			"pat=",
			"credential=", "credentials=", "access_key_id="),
		shape(`(?i)\b[\w-]*`+words+`["']?\s*[:=]\s*`+value, false, 0, isAssigned, names...),
		shape(`\b(eyJ[A-Za-z0-9_-]{6,}\.[A-Za-z0-9_-]{6,}\.[A-Za-z0-9_-]*)`, true, 0, nil, "eyj"),
	}
}

// isAssigned reports whether a hint is followed by a colon or an equals sign, possibly after a quote and white space.
func isAssigned(s string, _, end int) bool {
	rest := s[end:min(len(s), end+64)]
	rest = strings.TrimLeft(strings.TrimPrefix(strings.TrimPrefix(rest, `"`), "'"), " \t\r\n")
	return rest != "" && (rest[0] == ':' || rest[0] == '=')
}

// beforeAt reports whether an at sign follows the hint in the same word, as after the credentials in an address.
func beforeAt(s string, _, end int) bool {
	i := strings.IndexAny(s[end:min(len(s), end+windowAfter)], "@/ \t\r\n\"'<>")
	return i >= 0 && s[end+i] == '@'
}

// ofFlag reports whether the word that contains the hint begins with a dash.
func ofFlag(s string, at, _ int) bool {
	for at > 0 && (s[at-1] == '-' || s[at-1] == '_' || s[at-1]|0x20 >= 'a' && s[at-1]|0x20 <= 'z' || s[at-1] >= '0' &&
		s[at-1] <= '9') {
		at--
	}
	return s[at] == '-'
}

// wholeLine extends windows to the end of their last line, or to a quote if one comes first.
func wholeLine(window func(s string, at, end int) ([2]int, bool)) func(s string, at, end int) ([2]int, bool) {
	return func(s string, at, end int) ([2]int, bool) {
		w, ok := window(s, at, end)
		rest := s[w[1]:min(len(s), w[1]+maxRunBytes)]
		if i := strings.IndexAny(rest, "\r\n\"'"); i >= 0 {
			return [2]int{w[0], w[1] + i}, ok
		}
		return [2]int{w[0], w[1] + len(rest)}, ok
	}
}

// settingHints are lower-case words; every text that names a secret contains at least one of them.
var settingHints = []string{"token", "secret", "pass", "pwd", "key", "credential", "pat=", "bearer "}

func hinted(text string) bool {
	lower := strings.ToLower(text)
	return slices.ContainsFunc(settingHints, func(h string) bool { return strings.Contains(lower, h) })
}

// Shape masks text that looks like a secret under any name. It is meant for external text, such as messages, program
// output or lines of a file. It doesn't change prose that only mentions tokens and passwords.
func Shape(s string) string {
	spans := spansIn(s)
	if spans == nil {
		return s
	}
	var b strings.Builder
	at := 0
	for _, span := range spans {
		b.WriteString(s[at:span[0]])
		b.WriteString(Mask)
		at = span[1]
	}
	b.WriteString(s[at:])
	return b.String()
}

// spansIn returns the byte ranges [from, to) of possible secrets, in order and disjoint.
func spansIn(s string) [][2]int {
	return merge(lists.Map(Find(s), func(p Place) [2]int { return [2]int{p.From, p.To} }))
}

// merge sorts spans and joins touching ones.
func merge(out [][2]int) [][2]int {
	if len(out) < 2 {
		return out
	}
	slices.SortFunc(out, func(a, b [2]int) int { return a[0] - b[0] })
	merged := out[:1]
	for _, span := range out[1:] {
		if last := &merged[len(merged)-1]; span[0] <= last[1] {
			last[1] = max(last[1], span[1])
			continue
		}
		merged = append(merged, span)
	}
	return merged
}

func unquoted(s string, from, to int) (int, int) {
	if to-from > 0 && (s[from] == '"' || s[from] == '\'') {
		if q := s[from]; to-from > 1 && s[to-1] == q {
			to--
		}
		from++
	}
	return from, to
}

// random reports whether v looks random enough to be a secret: it mixes letters with digits, or mixes characters in
// other ways that words don't.
func random(v string, minBytes int) bool {
	minBytes = cmp.Or(minBytes, 8)
	if len(v) < minBytes || strings.ContainsAny(v, " \t\n") && len(v) < 16 {
		return false
	}
	var digits, upper, lower, others int
	for i, r := range v {
		switch {
		case unicode.IsDigit(r):
			digits++
		case unicode.IsUpper(r):
			if i > 0 {
				upper++
			}
		case unicode.IsLower(r):
			lower++
		case strings.ContainsRune("<>|(){}[]", r) || r == '$' && i == 0: // code, such as <|eot|>, f(x), ${...} or $x
			return false
		default:
			others++
		}
	}
	letters := upper + lower
	switch {
	case digits > 0 && letters > 0 && (strings.Count(v, "/") < 2 || len(v) > 24) && !version(v):
		return digits > 1 || len(v) >= 8
	case digits > 0 || letters == 0:
		return len(v) >= 16 && digits >= 12 // a long number
	default:
		return upper > 1 && lower > 1 && len(v) >= 12 && others == 0
	}
}

// version reports whether v is a name with a number, such as the name of a model or file: llama-3.2-1b, gpt-4o,
// step_100.
func version(v string) bool {
	parts := strings.FieldsFunc(v, func(r rune) bool { return strings.ContainsRune("-_.:/@", r) })
	if len(parts) < 2 {
		return false
	}
	return !slices.ContainsFunc(parts, func(p string) bool { return len(p) > 12 || changes(p) > 2 })
}

// changes counts the transitions between letters and digits.
func changes(s string) (n int) {
	for i := 1; i < len(s); i++ {
		if (s[i] >= '0' && s[i] <= '9') != (s[i-1] >= '0' && s[i-1] <= '9') {
			n++
		}
	}
	return n
}

// Plain reports whether a value is a word or number that can't be a secret: "true", "none", "512".
func Plain(v string) bool {
	switch strings.ToLower(v) {
	case "true", "false", "none", "null", "nil", "yes", "no", "on", "off", "~":
		return true
	}
	return len(v) < 8 && strings.Trim(v, "0123456789.") == ""
}

// plainTokens matches variables whose values are language tokens or counts of them, or keys of tables and caches.
var plainTokens = lazy.Regexp(`(?i)(?:max|min|num|eos|bos|pad|unk|sep|cls|mask|stop|image|special|new|per|first|last|end|start|prompt)[_-]?tokens?=?$|(?:cache|primary|sort|partition|foreign|index|hash|row|id|dict|lookup|group)[_-]key=?$`)

// ordinary reports whether a value can't be a secret, although the name in the text before it suggests one.
func ordinary(before, v string) bool {
	before = strings.TrimRight(before, `"'`)
	switch strings.ToLower(v) {
	case "password", "token", "secret", "name", "value": // as in examples: password=password
		return true
	}
	if strings.HasPrefix(v, "<") && strings.HasSuffix(v, ">") || strings.HasSuffix(before, "PWD=") && v[0] == '/' ||
		strings.HasPrefix(v, "+") {
		return true // as in <NAME>, PWD=/src, "key=" + variable
	}
	return Plain(v) || plainTokens().MatchString(before) || strings.HasPrefix(v, "<|")
}

// IsReference reports whether a configuration value merely names a variable: ${NAME}.
func IsReference(v string) bool {
	return strings.HasPrefix(v, "${") && strings.HasSuffix(v, "}") && !strings.Contains(v, ":-") &&
		strings.Count(v, "${") == 1
}

// ofShell matches a variable in shell notation: $NAME.
var ofShell = lazy.Regexp(`^\$[A-Z_][A-Z0-9_]*$`)

var (
	name = lazy.Regexp(`(?i)` + words + `$|(?:access[_-]?key[_-]?id|_pat|bearer|authorization|cookie)$`)
	// variable matches only upper case, as in environment variables, because a configuration key ending in _key may
	// name a field.
	variable  = lazy.Regexp(`^[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*_(?:KEY|PASS|AUTH|SIG|DSN)$`)
	namedKeys = lazy.Regexp(`(?i)(?:openai|anthropic|wandb|hf|huggingface|aws|azure|gcp|google|nvidia|ngc|signing|encryption|ssh|deploy|master)[_-]?key$`)
)

// Named reports whether a name indicates that its value is a secret: `hf_token`, `OPENAI_KEY`, `password`.
func Named(key string) bool {
	return (name().MatchString(key) || variable().MatchString(key) || namedKeys().MatchString(key)) &&
		!plainTokens().MatchString(key)
}

// flag matches a program's flag whose value is a secret.
var flag = lazy.Regexp(`(?i)^--?(?:[\w-]*[_-])?` + flagWords + `$`)

// Flag reports whether a word on a command line indicates that the next word is a secret: `--token`.
func Flag(word string) bool { return flag().MatchString(word) && !plainTokens().MatchString(word) }

// given matches a flag and its secret value in one word (--api-key=value) or in a shell command line (`train --token
// value`).
var given = lazy.Regexp(`(?i)(?:^|[\s"'])--?(?:[\w-]*[_-])?` + flagWords + `(?:=|[ \t]+)` + value)

// assigned matches a variable set for a program: `HF_TOKEN=value train`.
var assigned = lazy.Regexp(`\b(?:[A-Z][A-Z0-9]*_)*(?:TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|(?:PG)?PASS|PWD|KEY|PAT|CREDENTIALS?)=` + value)

// bearerToken matches a token, of any characters, after the word that names its scheme.
var bearerToken = lazy.Regexp(`\b(?:Bearer|bearer|BEARER)[ \t]+` + value)

// minBearerToken is the minimum length in bytes at which a word after "Bearer" counts as a token.
const minBearerToken = 6

// plainly returns the range, without quotes, of the value in the match m, and whether the value may be a secret. The
// matched expression must end with the constant value.
func plainly(text string, m []int) (from, to int, ok bool) {
	from, to = unquoted(text, m[2], m[3])
	v := text[from:to]
	return from, to, v != "" && !IsReference(v) && !ofShell().MatchString(v) && !strings.HasPrefix(v, "-") &&
		!ordinary(strings.TrimRight(text[m[0]:from], " \t"), v)
}

// keyed matches a setting with a secret value, such as `token: value`, anywhere in a configuration line.
var keyed = lazy.Regexp(`(?i)\b[\w-]*(?:` + words + `|(?:access[_-]?key[_-]?id|_key))["']?\s*[:= ]\s*("[^"]*"?|'[^']*'?|\{[^}]*\}?|\[[^\]]*\]?|[^\s,}\]#]+)`)

// SpansOfSetting returns the byte ranges [from, to) of possible secrets in a configuration line, in order and
// disjoint. Because the line is meant for display, where it is better to hide too much than too little, the value of
// any key named like a secret is included.
func SpansOfSetting(line string) [][2]int {
	out := spansIn(line)
	out = append(out, plain(line, given(), listed(), assigned())...)
	for _, m := range keyed().FindAllStringSubmatchIndex(line, -1) {
		if v := strings.Trim(line[m[2]:m[3]], `"'`); !IsReference(v) && Named(keyName().FindString(line[m[0]:m[2]])) {
			out = append(out, [2]int{m[2], m[3]})
		}
	}
	return merge(out)
}

var keyName = lazy.Regexp(`[\w-]+`)

// listed matches a flag and its value in a list of words: ["--token", "value"].
var listed = lazy.Regexp(`(?i)["'\s\[,]--?(?:[\w-]*[_-])?` + flagWords + `["']?\s*,\s*` + value)

// Setting reports whether the value of a setting, in a hand-written file, contains a secret. Unlike Find, it counts
// the value of a flag named like a secret even if the value doesn't look random.
func Setting(text string) bool {
	return Find(text) != nil || hinted(text) && plain(text, given(), assigned()) != nil
}

// plain returns the ranges of secrets, which may be plain words, in the text of a setting.
func plain(text string, expressions ...*regexp.Regexp) (out [][2]int) {
	for _, re := range expressions {
		for _, m := range re.FindAllStringSubmatchIndex(text, -1) {
			if from, to, ok := plainly(text, m); ok {
				out = append(out, [2]int{from, to})
			}
		}
	}
	for _, m := range bearerToken().FindAllStringSubmatchIndex(text, -1) {
		from, to, ok := plainly(text, m)
		if v := strings.ToLower(text[from:to]); ok && len(v) >= minBearerToken && !strings.HasPrefix(v, "auth") &&
			!strings.HasPrefix(v, "token") {
			out = append(out, [2]int{from, to})
		}
	}
	return out
}

// minGranted is the minimum length at which a granted variable's value counts as a secret regardless of the
// variable's name.
const minGranted = 6

// Granted returns the value of a variable granted to a program if it may be a secret. This is so if the variable is
// named like one, or if the value is long enough and is neither a number nor a file path, which could be part of
// other words.
func Granted(name, value string) []string {
	if Named(name) || len(value) >= minGranted && value[0] != '/' && strings.Trim(value, "0123456789.,:- ") != "" {
		return []string{value}
	}
	return nil
}

// OfSetting lists the secrets in the value of a setting: the whole value if its name indicates a secret, otherwise the
// parts that look like secrets.
func OfSetting(key, value string) []string {
	if Named(key) {
		return []string{value}
	}
	list := OfAddress(value)
	list = append(list, lists.Map(Find(value), func(p Place) string { return value[p.From:p.To] })...)
	if !hinted(value) {
		return list
	}
	found := plain(value, given(), assigned())
	return append(list, lists.Map(found, func(span [2]int) string { return value[span[0]:span[1]] })...)
}
