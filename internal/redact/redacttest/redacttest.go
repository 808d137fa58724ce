package redacttest

import (
	"encoding/base64"
	"hash/crc32"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
)

const alnum = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// alphabets that secrets are drawn from, by the name in a pattern.
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

// New returns a planter that makes the same secrets whenever it is given the same seed.
func New(seed uint64) Planter { return Planter{rand.New(rand.NewPCG(seed, seed+1))} }

// innermost is a part of a pattern that is drawn and has no such part within.
var innermost = regexp.MustCompile(`\{([a-z0-9]+) ([^{}]*)\}`)

// Plant returns a secret that fits a pattern, with the text before and after it. In a pattern the secret stands between
// bars, and what is drawn between braces: {hex 32} is 32 characters of an alphabet, {octet 60} a number from 60 on,
// {crc 36} 36 characters whose last six are the CRC-32 of the others, as in GitHub's tokens, and {base64 TEXT} is the
// text encoded, once what is drawn in it is.
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
		panic(err) // the patterns are our own
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

// withSum appends the CRC-32 of a text in six digits to the base of 62.
func withSum(body string) string {
	sum := crc32.ChecksumIEEE([]byte(body))
	var end [6]byte
	for i := 5; i >= 0; i-- {
		end[i] = alnum[sum%62]
		sum /= 62
	}
	return body + string(end[:])
}

// Kinds are patterns of secrets in context, by name.
var Kinds = map[string]string{
	"private key":  "|-----BEGIN RSA PRIVATE KEY-----\n{alnum 64}\n-----END RSA PRIVATE KEY-----|",
	"aws id":       "|AKIA{base32 16}|",
	"aws secret":   "AWS_SECRET_ACCESS_KEY=|{alnum 40}|",
	"github":       "|ghp_{crc 36}|",
	"github app":   "|ghs_{crc 36}|",
	"github fine":  "|github_pat_{alnum 22}_{alnum 59}|",
	"gitlab":       "|glpat-{alnum 20}|",
	"slack":        "|xoxb-{digit 12}-{alnum 24}|",
	"slack hook":   "https://hooks.slack.com/services/|T{base32 8}/B{base32 8}/{alnum 24}|",
	"stripe":       "|sk_live_{alnum 24}|",
	"openai":       "|sk-proj-{alnum 48}|",
	"anthropic":    "|sk-ant-api03-{alnum 80}|",
	"google":       "|AIza{alnum 35}|",
	"hugging face": "|hf_{alnum 34}|",
	"npm":          "|npm_{crc 36}|",
	"pypi":         "|pypi-AgEIcHlwaS5vcmc{alnum 60}|",
	"sendgrid":     "|SG.{alnum 22}.{alnum 43}|",
	"twilio":       "|SK{hex 32}|",
	"telegram":     "|{digit 9}:AA{alnum 33}|",
	"digitalocean": "|dop_v1_{hex 64}|",
	"databricks":   "|dapi{hex 32}|",
	"shopify":      "|shpat_{hex 32}|",
	"azure":        "AccountKey=|{alnum 86}==|",
	"age":          "|AGE-SECRET-KEY-1{bech32 58}|",
	"nvidia":       "|nvapi-{alnum 64}|",
	"replicate":    "|r8_{alnum 37}|",
	"groq":         "|gsk_{alnum 52}|",
	"atlassian":    "|ATATT3{alnum 180}|",
	"docker":       "|dckr_pat_{alnum 27}|",
	"vault":        "|hvs.{alnum 90}|",
	"grafana":      "|glsa_{alnum 32}_{hex 8}|",
	"postman":      "|PMAK-{hex 24}-{hex 34}|",
	"jwt":          "|eyJhbGciOiJIUzI1NiJ9.{alnum 40}.{alnum 43}|",
	"bearer":       "Authorization: Bearer |{alnum 40}|",
	"url":          "postgres://app:|{alnum 16}|@db.internal:5432/x",
	"env line":     "DB_PASSWORD=|{alnum 20}|",
	"e-mail":       "|{upper 6}.{upper 8}@posteo.de|",
	"phone":        "call |+49 30 {digit 4} {digit 4}|",
	"ip":           "from |{octet 60}.{octet 40}.{octet 1}.{octet 1}|",
	"home":         "/home/|{lower 9}|/src",
}
