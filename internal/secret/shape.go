package secret

import (
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"
)

// A shape is a way to write a secret; its submatch is what must be masked.
type shape struct {
	re *regexp.Regexp
	// sure says that whatever matches is a secret. Otherwise it also has to look random, because prose mentions such
	// keys.
	sure  bool
	least int      // minimum bytes of a value that isn't sure; 0: eight. -1: less than leastValue is enough
	hint  []string // every matching text contains one of these, in lower case; nil: always search
}

// words are the endings of names whose values are secrets.
const words = `(?:token|secret|passw(?:or)?d|passphrase|passwd|pwd|api[_-]?key|access[_-]?key|secret[_-]?key|private[_-]?key|auth[_-]?key|credentials?)`

// value matches one word of a command line or a file, quoted or not.
const value = `(\$\{[^}\s]*\}|"(?:[^"\\]|\\.)*"?|'[^']*'?|[^\s"',;}\])]+)`

// shapes are compiled when the first text is searched, because doing so would slow down every start of the program.
var shapes = sync.OnceValue(func() []shape {
	re := regexp.MustCompile
	names := settingHints
	return []shape{
		{re: re(`(?i)\b[a-z][a-z0-9+.-]*://[^/\s:@"'<>]*:([^/\s@"'<>]+)@`), sure: true, least: -1, hint: []string{"://"}},
		{re: re(`(?i)\bhttps?://([^/\s:@"'<>]+)@`), sure: true, least: -1, hint: []string{"://"}},
		{re: re(`(?i)\b(?:proxy-)?authorization["']?\s*[:=]\s*["']?(?:bearer|basic|token|digest|negotiate)\s+(\$\{[^}\s]*\}|[^\s"',;}]+)`), sure: true, hint: []string{"authorization"}},
		{re: re(`(?i)\b(?:proxy-)?authorization["']?\s*[:=]\s*` + value), hint: []string{"authorization"}},
		{re: re(`(?i)\b(?:bearer|basic)\s+([A-Za-z0-9._~+/=-]{8,})`), hint: []string{"bearer", "basic"}},
		{re: re(`(?i)\b(?:x-api-key|api-key|x-auth-token|private-token|x-goog-api-key|ocp-apim-subscription-key|(?:set-)?cookie)\s*:\s*([^\r\n"']+)`), hint: []string{"key", "token", "cookie"}},
		{re: re(`[?&](?i:access_token|token|api_?key|key|sig|signature|secret|password|x-amz-signature|x-amz-security-token|x-goog-signature)=([^&\s"'#]+)`), hint: []string{"token=", "key=", "sig=", "signature=", "secret=", "password="}},
		{re: re(`(?i)(?:^|[\s"'\[(=,])--?(?:[\w-]*[_-])?` + words + `(?:=|["']?\s*,\s*["']|["']?[ \t]+)` + value), least: 6, hint: names},
		{re: re(`\b([A-Z][A-Z0-9]*_)*(?:TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|PWD|KEY|PAT|CREDENTIALS?|APIKEY|ACCESS_KEY_ID)=` + value), sure: true, hint: names},
		{re: re(`(?i)\b[\w-]*` + words + `["']?\s*[:=]\s*` + value), hint: names},
		{re: re(`\b(AKIA[0-9A-Z]{16}|ASIA[0-9A-Z]{16}|AIza[0-9A-Za-z_-]{30,}|ya29\.[0-9A-Za-z_-]{16,})`), sure: true, hint: []string{"akia", "asia", "aiza", "ya29."}},
		{re: re(`\b(eyJ[A-Za-z0-9_-]{6,}\.[A-Za-z0-9_-]{6,}\.[A-Za-z0-9_-]*)`), sure: true, hint: []string{"eyj"}},
		{re: re(`\b((?:hf|gh[pousr]|github_pat|gsk|r8|npm|pypi|dop_v1|shpat|sk_live|sk_test|rk_live|pk_live|whsec|api_org|dapi)_[A-Za-z0-9_]{8,})`), hint: []string{"hf_", "gh", "gsk_", "r8_", "npm_", "pypi_", "dop_v1_", "shpat_", "k_live_", "k_test_", "whsec_", "api_org_", "dapi_"}},
		{re: re(`\b((?:sk|nvapi|glpat|xox[abeprs]|pypi|gsk|fw|pplx|xai|tvly|lsv2|dapi|sk-ant|sk-proj|key)-[A-Za-z0-9_-]{10,})`), hint: []string{"sk-", "nvapi-", "glpat-", "xox", "pypi-", "fw-", "pplx-", "xai-", "tvly-", "lsv2-", "dapi-", "key-"}},
	}
})

// settingHints: every text that names a secret contains one of these, in lower case.
var settingHints = []string{"token", "secret", "passw", "passphrase", "pwd", "key", "credential", "pat="}

func hinted(lower string, hints []string) bool {
	return slices.ContainsFunc(hints, func(h string) bool { return strings.Contains(lower, h) })
}

// Shape masks what looks like a secret, whatever it is called. It is for texts from elsewhere: messages, output of
// programs, lines of a file. Prose that merely mentions tokens and passwords stays.
func Shape(s string) string {
	spans := Spans(s)
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

// Looks reports whether a text contains something that looks like a secret.
func Looks(s string) bool { return Spans(s) != nil }

// Spans returns the byte ranges [from, to) of what looks like a secret, in order and disjoint.
func Spans(s string) [][2]int { return merge(found(s)) }

// found returns the ranges of what looks like a secret, which may overlap.
func found(s string) [][2]int {
	out := PrivateKeys(s)
	var lower string
	for _, sh := range shapes() {
		if sh.hint != nil {
			if lower == "" {
				lower = strings.ToLower(s)
			}
			if !hinted(lower, sh.hint) {
				continue
			}
		}
		for _, m := range sh.re.FindAllStringSubmatchIndex(s, -1) {
			from, to := m[len(m)-2], m[len(m)-1]
			if from < 0 {
				continue
			}
			from, to = unquoted(s, from, to)
			v := s[from:to]
			if v == "" || IsReference(v) || ofShell().MatchString(v) || strings.Trim(v, "*") == "" ||
				len(v) > 2 && strings.Trim(v, ".xX") == "" {
				continue
			}
			if sh.least >= 0 && len(strings.Trim(v, "`.,:;!?()")) < leastValue { // `HF_TOKEN=x`, as in prose
				continue
			}
			if !sh.sure && !random(v, sh.least) || sh.sure && ordinary(s[m[0]:from], v) {
				continue
			}
			out = append(out, [2]int{from, to})
		}
	}
	return out
}

// merge sorts spans and joins those that touch.
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

// random reports whether a text may be a secret: letters mixed with digits, or otherwise in ways that words aren't.
func random(v string, least int) bool {
	if least == 0 {
		least = 8
	}
	if len(v) < least || strings.ContainsAny(v, " \t\n") && len(v) < 16 {
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
		case strings.ContainsRune("<>|(){}[]$", r): // <|eot|>, f(x), ${...}: code
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

// version reports whether a text is a name with a number, as models and files have: llama-3.2-1b, gpt-4o, utf8,
// step_100.
func version(v string) bool {
	parts := strings.FieldsFunc(v, func(r rune) bool { return strings.ContainsRune("-_.:/@", r) })
	if len(parts) < 2 {
		return false
	}
	for _, p := range parts {
		if len(p) > 12 || changes(p) > 2 {
			return false
		}
	}
	return true
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

// compiled compiles an expression when it is first used, like shapes.
func compiled(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}

// plainTokens matches variables whose values are language tokens, or counts of them.
var plainTokens = compiled(`(?i)(?:max|min|num|eos|bos|pad|unk|sep|cls|mask|stop|image|special|new|per|first|last|end|start|prompt)[_-]?tokens?=?$|(?:cache|primary|sort|partition|foreign|index|hash|row|id|dict|lookup|group)[_-]key=?$`)

// ordinary reports whether the value of a name that sounds secret can't be a secret.
func ordinary(before, v string) bool {
	before = strings.TrimRight(before, `"'`)
	switch strings.ToLower(v) {
	case "password", "token", "secret", "name", "value": // as in examples: password=password
		return true
	}
	return Plain(v) || plainTokens().MatchString(before) || strings.HasPrefix(v, "<|")
}

// IsReference reports whether a configuration value merely names a variable: ${NAME}.
func IsReference(v string) bool {
	return strings.HasPrefix(v, "${") && strings.HasSuffix(v, "}") && !strings.Contains(v, ":-") &&
		strings.Count(v, "${") == 1
}

// ofShell matches a variable in shell notation: $NAME.
var ofShell = compiled(`^\$[A-Z_][A-Z0-9_]*$`)

var (
	name = compiled(`(?i)` + words + `$|(?:access[_-]?key[_-]?id|_pat|bearer|authorization|cookie)$`)
	// An environment variable with a secret key ends in _KEY; a config key with that ending may be the name of a field.
	variable  = compiled(`^[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*_(?:KEY|PASS|AUTH|SIG|DSN)$`)
	namedKeys = compiled(`(?i)(?:openai|anthropic|wandb|hf|huggingface|aws|azure|gcp|google|nvidia|ngc|signing|encryption|ssh|deploy|master)[_-]?key$`)
)

// Named reports whether a name says that its value is a secret: `hf_token`, `OPENAI_KEY`, `password`.
func Named(key string) bool {
	return (name().MatchString(key) || variable().MatchString(key) || namedKeys().MatchString(key)) &&
		!plainTokens().MatchString(key)
}

// flag matches a program's flag whose value is a secret.
var flag = compiled(`(?i)^--?(?:[\w-]*[_-])?` + words + `$`)

// Flag reports whether a word of a command line says that the next word is a secret: `--token`.
func Flag(word string) bool { return flag().MatchString(word) && !plainTokens().MatchString(word) }

// given matches a secret passed to a program within one word or a shell command line: --api-key=value, `train --token
// value`.
var given = compiled(`(?i)(?:^|[\s"'])--?(?:[\w-]*[_-])?` + words + `(?:=|[ \t]+)` + value)

// assigned matches a variable set for a program: `HF_TOKEN=value train`.
var assigned = compiled(`\b(?:[A-Z][A-Z0-9]*_)*(?:TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|PWD|KEY|PAT|CREDENTIALS?)=` + value)

// plainly returns the range of the secret in a match of given or assigned.
func plainly(text string, m []int) (from, to int, ok bool) {
	from, to = unquoted(text, m[2], m[3])
	v := text[from:to]
	return from, to, v != "" && !IsReference(v) && !ofShell().MatchString(v) && !strings.HasPrefix(v, "-") &&
		!ordinary(strings.TrimRight(text[m[0]:from], " \t"), v)
}

// keyed matches a configuration line: `token: value`, or the same on one line with others.
var keyed = compiled(`(?i)\b[\w-]*(?:` + words + `|(?:access[_-]?key[_-]?id|_key))["']?\s*[:= ]\s*("[^"]*"?|'[^']*'?|\{[^}]*\}?|\[[^\]]*\]?|[^\s,}\]#]+)`)

// SpansOfSetting returns the byte ranges [from, to) of what may be a secret in a configuration line, in order and
// disjoint. For a line that is shown to a person, hiding too much is better than too little: any value of a key named
// like a secret is included.
func SpansOfSetting(line string) [][2]int {
	out := Spans(line)
	for _, re := range []*regexp.Regexp{given(), listed(), assigned()} {
		for _, m := range re.FindAllStringSubmatchIndex(line, -1) {
			if from, to, ok := plainly(line, m); ok {
				out = append(out, [2]int{from, to})
			}
		}
	}
	for _, m := range keyed().FindAllStringSubmatchIndex(line, -1) {
		if v := strings.Trim(line[m[2]:m[3]], `"'`); !IsReference(v) && Named(keyName().FindString(line[m[0]:m[2]])) {
			out = append(out, [2]int{m[2], m[3]})
		}
	}
	return merge(out)
}

var keyName = compiled(`[\w-]+`)

// listed matches a flag and its value in a list of words: ["--token", "value"].
var listed = compiled(`(?i)["'\s\[,]--?(?:[\w-]*[_-])?` + words + `["']?\s*,\s*` + value)

// Setting reports whether the value of a setting, in a file written by a person, contains a secret. It goes further
// than Looks: in such a place the value of a flag named like a secret is one, however plain it looks.
func Setting(text string) bool {
	if Looks(text) {
		return true
	}
	if !hinted(strings.ToLower(text), settingHints) {
		return false
	}
	for _, re := range []*regexp.Regexp{given(), assigned()} {
		for _, m := range re.FindAllStringSubmatchIndex(text, -1) {
			if _, _, ok := plainly(text, m); ok {
				return true
			}
		}
	}
	return false
}

// leastGranted is the length from which a granted variable's value is a secret whatever the variable is called.
const leastGranted = 6

// Granted returns the secret that a variable granted to a program may hold: one named like a secret, or one whose value
// is neither a number nor a file path, which could be part of other words.
func Granted(name, value string) []string {
	if Named(name) || len(value) >= leastGranted && value[0] != '/' && strings.Trim(value, "0123456789.,:- ") != "" {
		return []string{value}
	}
	return nil
}

// OfSetting lists the secrets in the value of a setting: all of it if the name says so, otherwise the parts that look
// like one.
func OfSetting(key, value string) []string {
	if Named(key) {
		return []string{value}
	}
	list := OfAddress(value)
	for _, span := range found(value) {
		list = append(list, value[span[0]:span[1]])
	}
	if !hinted(strings.ToLower(value), settingHints) {
		return list
	}
	for _, re := range []*regexp.Regexp{given(), assigned()} {
		for _, m := range re.FindAllStringSubmatchIndex(value, -1) {
			if from, to, ok := plainly(value, m); ok {
				list = append(list, value[from:to])
			}
		}
	}
	return list
}
