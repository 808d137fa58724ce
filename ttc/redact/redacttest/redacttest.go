package redacttest

import (
	"encoding/base64"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"strings"
)

// The characters that secrets are drawn from.
const (
	Alnum = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	Hexes = "0123456789abcdef"
	Upper = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
)

// Planter makes secrets.
type Planter struct{ rand *rand.Rand }

// New returns a planter that makes the same secrets whenever it is given the same seed.
func New(seed uint64) Planter { return Planter{rand.New(rand.NewPCG(seed, seed+1))} }

// Of returns n characters of an alphabet.
func (p Planter) Of(alphabet string, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = alphabet[p.rand.IntN(len(alphabet))]
	}
	return string(b)
}

func (p Planter) crc(prefix string) string {
	body := p.Of(Alnum, 30)
	sum := crc32.ChecksumIEEE([]byte(body))
	var end [6]byte
	for i := 5; i >= 0; i-- {
		end[i] = Alnum[sum%62]
		sum /= 62
	}
	return prefix + body + string(end[:])
}

// Kinds make secrets in context: the secret is between the bars.
var Kinds = map[string]func(p Planter) string{
	"private key": func(p Planter) string {
		return "|-----BEGIN RSA PRIVATE KEY-----\n" + p.Of(Alnum, 64) + "\n-----END RSA PRIVATE KEY-----|"
	},
	"aws id":      func(p Planter) string { return "|AKIA" + p.Of(Upper, 16) + "|" },
	"aws secret":  func(p Planter) string { return "AWS_SECRET_ACCESS_KEY=|" + p.Of(Alnum, 40) + "|" },
	"github":      func(p Planter) string { return "|" + p.crc("ghp_") + "|" },
	"github app":  func(p Planter) string { return "|" + p.crc("ghs_") + "|" },
	"github fine": func(p Planter) string { return "|github_pat_" + p.Of(Alnum, 22) + "_" + p.Of(Alnum, 59) + "|" },
	"gitlab":      func(p Planter) string { return "|glpat-" + p.Of(Alnum, 20) + "|" },
	"slack":       func(p Planter) string { return "|xoxb-" + p.Of("0123456789", 12) + "-" + p.Of(Alnum, 24) + "|" },
	"slack hook": func(p Planter) string {
		return "https://hooks.slack.com/services/|T" + p.Of(
			Upper,
			8,
		) + "/B" + p.Of(
			Upper,
			8,
		) + "/" + p.Of(
			Alnum,
			24,
		) + "|"
	},
	"stripe":       func(p Planter) string { return "|sk_live_" + p.Of(Alnum, 24) + "|" },
	"openai":       func(p Planter) string { return "|sk-proj-" + p.Of(Alnum, 48) + "|" },
	"anthropic":    func(p Planter) string { return "|sk-ant-api03-" + p.Of(Alnum, 80) + "|" },
	"google":       func(p Planter) string { return "|AIza" + p.Of(Alnum, 35) + "|" },
	"hugging face": func(p Planter) string { return "|hf_" + p.Of(Alnum, 34) + "|" },
	"npm":          func(p Planter) string { return "|" + p.crc("npm_") + "|" },
	"pypi":         func(p Planter) string { return "|pypi-AgEIcHlwaS5vcmc" + p.Of(Alnum, 60) + "|" },
	"sendgrid":     func(p Planter) string { return "|SG." + p.Of(Alnum, 22) + "." + p.Of(Alnum, 43) + "|" },
	"twilio":       func(p Planter) string { return "|SK" + p.Of(Hexes, 32) + "|" },
	"telegram":     func(p Planter) string { return "|" + p.Of("123456789", 9) + ":AA" + p.Of(Alnum, 33) + "|" },
	"digitalocean": func(p Planter) string { return "|dop_v1_" + p.Of(Hexes, 64) + "|" },
	"databricks":   func(p Planter) string { return "|dapi" + p.Of(Hexes, 32) + "|" },
	"shopify":      func(p Planter) string { return "|shpat_" + p.Of(Hexes, 32) + "|" },
	"azure":        func(p Planter) string { return "AccountKey=|" + p.Of(Alnum, 86) + "==|" },
	"age": func(p Planter) string {
		return "|AGE-SECRET-KEY-1" + p.Of("023456789ACDEFGHJKLMNPQRSTUVWXYZ", 58) + "|"
	},
	"nvidia":    func(p Planter) string { return "|nvapi-" + p.Of(Alnum, 64) + "|" },
	"replicate": func(p Planter) string { return "|r8_" + p.Of(Alnum, 37) + "|" },
	"groq":      func(p Planter) string { return "|gsk_" + p.Of(Alnum, 52) + "|" },
	"atlassian": func(p Planter) string { return "|ATATT3" + p.Of(Alnum, 180) + "|" },
	"docker":    func(p Planter) string { return "|dckr_pat_" + p.Of(Alnum, 27) + "|" },
	"vault":     func(p Planter) string { return "|hvs." + p.Of(Alnum, 90) + "|" },
	"grafana":   func(p Planter) string { return "|glsa_" + p.Of(Alnum, 32) + "_" + p.Of(Hexes, 8) + "|" },
	"postman":   func(p Planter) string { return "|PMAK-" + p.Of(Hexes, 24) + "-" + p.Of(Hexes, 34) + "|" },
	"jwt": func(p Planter) string {
		return "|" + base64.RawURLEncoding.EncodeToString(
			[]byte(`{"alg":"HS256"}`),
		) + "." + p.Of(
			Alnum,
			40,
		) + "." + p.Of(
			Alnum,
			43,
		) + "|"
	},
	"bearer":   func(p Planter) string { return "Authorization: Bearer |" + p.Of(Alnum, 40) + "|" },
	"url":      func(p Planter) string { return "postgres://app:|" + p.Of(Alnum, 16) + "|@db.internal:5432/x" },
	"env line": func(p Planter) string { return "DB_PASSWORD=|" + p.Of(Alnum, 20) + "|" },
	"e-mail":   func(p Planter) string { return "|" + p.Of(Upper[:26], 6) + "." + p.Of(Upper[:26], 8) + "@posteo.de|" },
	"phone": func(p Planter) string {
		return "call |+49 30 " + p.Of("123456789", 4) + " " + p.Of("123456789", 4) + "|"
	},
	"ip": func(p Planter) string {
		return fmt.Sprintf("from |%d.%d.%d.%d|", 60+p.rand.IntN(100), 40+p.rand.IntN(100), p.rand.IntN(250),
			1+p.rand.IntN(250))
	},
	"home": func(p Planter) string { return "/home/|" + strings.ToLower(p.Of(Upper[:26], 9)) + "|/src" },
}
