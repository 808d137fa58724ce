package redacttest

import (
	"embed"
	"encoding/base64"
	"hash/crc32"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

const alnum = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// alphabets maps the names in patterns to the characters from which secrets are drawn.
var alphabets = map[string]string{
	"alnum":  alnum,
	"hex":    "0123456789abcdef",
	"base32": "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567",
	"base36": "0123456789abcdefghijklmnopqrstuvwxyz",
	"bech32": "023456789ACDEFGHJKLMNPQRSTUVWXYZ",
	"upper":  "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
	"lower":  "abcdefghijklmnopqrstuvwxyz",
	"digit":  "123456789",
	"dial":   "23456789",
}

// Planter makes secrets.
type Planter struct{ rand *rand.Rand }

// New returns a planter. The same seed yields the same secrets.
func New(seed uint64) Planter { return Planter{rand.New(rand.NewPCG(seed, seed+1))} }

// innermost matches a drawn part of a pattern that contains no further drawn parts.
var innermost = regexp.MustCompile(`\{([a-z0-9]+) ([^{}]*)\}`)

// Plant returns a secret that matches a pattern, with the text before and after it. In a pattern, bars enclose the
// secret and braces enclose the drawn parts: {hex 32} is 32 characters of an alphabet, {octet 60} is a number of at
// least 60, {crc 36} is 36 characters whose last six are the CRC-32 of the others, as in GitHub's tokens, and {base64
// TEXT} is the base64 of TEXT, in which drawn parts are replaced first.
func (p Planter) Plant(pattern string) (before, secret, after string) {
	for innermost.MatchString(pattern) {
		pattern = innermost.ReplaceAllStringFunc(pattern, func(part string) string {
			m := innermost.FindStringSubmatch(part)
			return p.draw(m[1], m[2])
		})
	}
	before, rest, _ := strings.Cut(pattern, "|")
	secret, after, _ = strings.Cut(rest, "|")
	return before, secret, after
}

func (p Planter) draw(name, argument string) string {
	if name == "base64" {
		return base64.StdEncoding.EncodeToString([]byte(argument))
	}
	n, err := strconv.Atoi(argument)
	if err != nil {
		panic(err) // a bug in one of the patterns
	}
	switch name {
	case "octet":
		return strconv.Itoa(n + p.rand.IntN(90))
	case "crc":
		return withSum(p.characters(alnum, n-6))
	}
	return p.characters(alphabets[name], n)
}

// characters returns n characters of an alphabet.
func (p Planter) characters(alphabet string, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = alphabet[p.rand.IntN(len(alphabet))]
	}
	return string(b)
}

// withSum appends a string's CRC-32 as six base-62 digits.
func withSum(body string) string {
	sum := crc32.ChecksumIEEE([]byte(body))
	var end [6]byte
	for i := 5; i >= 0; i-- {
		end[i] = alnum[sum%62]
		sum /= 62
	}
	return body + string(end[:])
}

//go:embed kinds.yaml further.yaml
var files embed.FS

// Kinds holds patterns for secrets in context, by name.
var Kinds = patterns("kinds.yaml")

// Further holds patterns of kinds that are rarer, or recognisable only by their surroundings.
var Further = patterns("further.yaml")

func patterns(name string) (all map[string]string) {
	b, err := files.ReadFile(name)
	if err == nil {
		err = yaml.Unmarshal(b, &all)
	}
	if err != nil {
		panic(err) // a bug in one of the files
	}
	return all
}
