// Command _generate writes the table of token shapes of package secret: gitleaks' rules, which it reads as lines of JSON,
// and ours.
package main

import (
	"bufio"
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"go/format"
	"os"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// rule is one of gitleaks'.
type rule struct {
	ID, Regex string
	Entropy   float64
	Group     int
	Keywords  []string
	Examples  []string
}

// token is a row of the table; package secret explains its fields.
type token struct {
	class, pattern string
	hints          []string
	bits           float64
	run, before    int
	named          bool
}

func main() {
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(table, examples string) error {
	rows, err := further()
	if err != nil {
		return err
	}
	var drawn bytes.Buffer
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<20)
	var rules []rule
	for in.Scan() {
		var r rule
		if err := json.Unmarshal(in.Bytes(), &r); err != nil {
			return err
		}
		rules = append(rules, r)
	}
	if err := in.Err(); err != nil {
		return err
	}
	slices.SortFunc(rules, func(a, b rule) int { return cmp.Compare(a.ID, b.ID) })
	rules = slices.CompactFunc(rules, func(a, b rule) bool { return a.ID == b.ID })
	for _, r := range rules {
		if excluded[r.ID] {
			continue
		}
		t, err := ofRule(r)
		if err != nil {
			return fmt.Errorf("%s: %w", r.ID, err)
		}
		rows = append(rows, t)
		drawn.Write(example(r))
	}
	out, err := format.Source(source(rows))
	if err != nil {
		return err
	}
	if err := os.WriteFile(table, out, 0o644); err != nil {
		return err
	}
	return os.WriteFile(examples, drawn.Bytes(), 0o644)
}

//go:embed further.yaml
var written []byte

// further returns the rows of further.yaml.
func further() (rows []token, err error) {
	var list []struct {
		Class, Pattern string
		Bits           float64
		Hints          []string
		Before         int
		Beside         bool
	}
	if err := yaml.Unmarshal(written, &list); err != nil {
		return nil, err
	}
	for _, r := range list {
		t := token{class: r.Class, pattern: r.Pattern, bits: r.Bits, hints: r.Hints, before: r.Before}
		if !r.Beside {
			re, err := syntax.Parse(r.Pattern, syntax.Perl)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", r.Class, err)
			}
			t.pattern = `(?:^|[^A-Za-z0-9_])(` + r.Pattern + `)`
			if r.Before == 0 {
				t.run = least(re)
			}
		}
		rows = append(rows, t)
	}
	return rows, nil
}

// excluded are rules that package secret has better ones for, and those that match names and public keys.
var excluded = set(
	"generic-api-key", "private-key", "jwt", "jwt-base64", "curl-auth-header", "curl-auth-user", "kubernetes-secret-yaml",
	"adobe-client-id", "asana-client-id", "bitbucket-client-id", "discord-client-id", "linkedin-client-id",
	"looker-client-id", "messagebird-client-id", "new-relic-user-api-id", "plaid-client-id", "sendbird-access-id",
	"sumologic-access-id", "flutterwave-public-key", "lob-pub-api-key", "mailgun-pub-key",
	// package redact checks their checksums
	"github-app-token", "github-oauth", "github-pat", "github-refresh-token", "npm-access-token",
)

func set(list ...string) map[string]bool {
	out := map[string]bool{}
	for _, s := range list {
		out[s] = true
	}
	return out
}

var (
	// words that may come before a name, which cost time and find nothing
	leading = regexp.MustCompile(`^(?:\(\?i\))?(?:\[\\w\.-\]\{0,50\}\?)?(?:\(\?i:)?\[\\w\.-\]\{0,50\}\?`)
	// what follows a token: white space or a quote. A comma or a bracket does, too.
	trailing = `(?:[\x60'"\s;]|\\[nr]|$)`
)

// ofRule makes a row of a rule. A rule for a name with a value behind it is told by the words that it allows before.
func ofRule(r rule) (token, error) {
	t := token{
		class: strings.ReplaceAll(r.ID, "-", "_"), pattern: r.Regex, hints: hints[r.ID], bits: max(r.Entropy, 3),
		named: leading.MatchString(r.Regex),
	}
	if t.hints == nil {
		for _, k := range r.Keywords {
			t.hints = append(t.hints, strings.ToLower(k))
		}
	}
	if t.named {
		rest := r.Regex[len(leading.FindString(r.Regex)):]
		if strings.Contains(leading.FindString(r.Regex), "(?i:") {
			rest = "(?i:" + rest
		}
		if strings.HasPrefix(r.Regex, "(?i)") {
			rest = "(?i)" + rest
		}
		t.pattern = rest
	}
	t.pattern = strings.ReplaceAll(t.pattern, trailing, `(?:[^\w-]|$)`)
	re, err := syntax.Parse(t.pattern, syntax.Perl)
	if err != nil {
		return t, err
	}
	if re.MaxCap() == 0 {
		t.pattern = "(" + t.pattern + ")"
		if re, err = syntax.Parse(t.pattern, syntax.Perl); err != nil {
			return t, err
		}
	}
	if re.MaxCap() > 1 { // the table has one group, which comes last
		if t.pattern, err = oneGroup(t.pattern, max(r.Group, 1)); err != nil {
			return t, err
		}
		if re, err = syntax.Parse(t.pattern, syntax.Perl); err != nil {
			return t, err
		}
	}
	slices.Sort(t.hints)
	t.hints = slices.Compact(t.hints)
	if group := capture(re); !t.named && begins(group, t.hints) {
		t.run = least(group)
	}
	return t, nil
}

// hints are those of rules whose keywords are too short or too frequent, or not part of what matches.
var hints = map[string][]string{
	"1password-secret-key":            {"a3-"},
	"azure-ad-client-secret":          cross(digits, "q~"),
	"twilio-api-key":                  cross([]string{"sk"}, hexDigits...),
	"vault-service-token":             {"hvs."},
	"cloudflare-origin-ca-key":        {"v1.0-"},
	"sourcegraph-access-token":        {"sgp_", "sourcegraph"},
	"intra42-client-secret":           {"s-s4t2"},
	"lob-api-key":                     {"lob_", "lob-", "lob.", "lob ", "lobk", "lobt", "loba", "lobs"},
	"hashicorp-tf-password":           {"administrator_login_password"},
	"clickhouse-cloud-api-secret-key": {"4b1d"},
}

var (
	digits        = strings.Split("0123456789", "")
	hexDigits     = strings.Split("0123456789abcdef", "")
	alphanumerics = strings.Split("0123456789abcdefghijklmnopqrstuvwxyz", "")
)

// cross joins each of the first with each of the second.
func cross(first []string, second ...string) (out []string) {
	for _, a := range first {
		for _, b := range second {
			out = append(out, a+b)
		}
	}
	return out
}

// oneGroup makes all groups of a pattern but one plain.
func oneGroup(pattern string, keep int) (string, error) {
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return "", err
	}
	var plain func(re *syntax.Regexp) *syntax.Regexp
	plain = func(re *syntax.Regexp) *syntax.Regexp {
		for i, sub := range re.Sub {
			re.Sub[i] = plain(sub)
		}
		if re.Op == syntax.OpCapture && re.Cap != keep {
			return re.Sub[0]
		}
		return re
	}
	return plain(re).String(), nil
}

func capture(re *syntax.Regexp) *syntax.Regexp {
	if re.Op == syntax.OpCapture {
		return re
	}
	for _, sub := range re.Sub {
		if c := capture(sub); c != nil {
			return c
		}
	}
	return nil
}

// begins reports whether every text of a group begins with one of the hints.
func begins(re *syntax.Regexp, hints []string) bool {
	heads := literals(re)
	return len(heads) > 0 && !slices.ContainsFunc(heads, func(head string) bool {
		return !slices.ContainsFunc(hints, func(h string) bool { return strings.HasPrefix(strings.ToLower(head), h) })
	})
}

// literals lists how the texts begin that a pattern matches; it contains "" if there is a text that may begin in any way.
func literals(re *syntax.Regexp) []string {
	switch re.Op {
	case syntax.OpLiteral:
		return []string{string(re.Rune)}
	case syntax.OpCapture:
		return literals(re.Sub[0])
	case syntax.OpConcat:
		heads := []string{""}
		for _, sub := range re.Sub {
			if sub.Op == syntax.OpWordBoundary {
				continue
			}
			more := literals(sub)
			if slices.Equal(more, []string{""}) || len(heads)*len(more) > 64 {
				return heads
			}
			heads = cross(heads, more...)
			if sub.Op != syntax.OpLiteral && sub.Op != syntax.OpCharClass {
				return heads
			}
		}
		return heads
	case syntax.OpAlternate:
		var heads []string
		for _, sub := range re.Sub {
			heads = append(heads, literals(sub)...)
		}
		return heads
	case syntax.OpCharClass:
		var heads []string
		for i := 0; i < len(re.Rune); i += 2 {
			if re.Rune[i+1]-re.Rune[i] > 36 || len(heads) > 70 {
				return []string{""}
			}
			for c := re.Rune[i]; c <= re.Rune[i+1]; c++ {
				heads = append(heads, string(c))
			}
		}
		return heads
	}
	return []string{""}
}

// least returns the minimum length of what a pattern matches, in bytes.
func least(re *syntax.Regexp) int {
	n := 0
	switch re.Op {
	case syntax.OpLiteral:
		return len(re.Rune)
	case syntax.OpCharClass, syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return 1
	case syntax.OpCapture:
		return least(re.Sub[0])
	case syntax.OpPlus:
		return least(re.Sub[0])
	case syntax.OpRepeat:
		return re.Min * least(re.Sub[0])
	case syntax.OpConcat:
		for _, sub := range re.Sub {
			n += least(sub)
		}
	case syntax.OpAlternate:
		n = least(re.Sub[0])
		for _, sub := range re.Sub[1:] {
			n = min(n, least(sub))
		}
	}
	return n
}

// Example is a text of gitleaks with the secret in it.
type Example struct {
	Rule   string `json:"rule"`
	Text   string `json:"text"`
	Secret string `json:"secret"`
}

// example returns lines with a few of the rule's examples.
func example(r rule) []byte {
	const most = 3
	slices.Sort(r.Examples) // gitleaks lists some in the order of a map
	if len(r.Examples) > most {
		step := len(r.Examples) / most
		var few []string
		for i := range most {
			few = append(few, r.Examples[i*step])
		}
		r.Examples = few
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	re := regexp.MustCompile(r.Regex)
	for _, text := range r.Examples {
		m := re.FindStringSubmatch(text)
		if m == nil {
			continue // another rule's
		}
		secret := m[0]
		for _, group := range m[min(len(m), max(1, r.Group)):] {
			if group != "" {
				secret = group
				break
			}
		}
		if err := enc.Encode(Example{r.ID, text, secret}); err != nil {
			panic(err)
		}
	}
	return b.Bytes()
}

func source(rows []token) []byte {
	var b bytes.Buffer
	b.WriteString(header)
	for _, t := range rows {
		fmt.Fprintf(&b, "\t{class: %q, bits: %v, pattern: %s, hints: %#v", t.class, t.bits, quoted(t.pattern), t.hints)
		if t.run > 0 {
			fmt.Fprintf(&b, ", run: %d", t.run)
		}
		if t.before > 0 {
			fmt.Fprintf(&b, ", before: %d", t.before)
		}
		if t.named {
			b.WriteString(", named: true")
		}
		b.WriteString("},\n")
	}
	b.WriteString("}\n")
	return b.Bytes()
}

func quoted(s string) string {
	if strings.Contains(s, "`") {
		return fmt.Sprintf("%q", s)
	}
	return "`" + s + "`"
}

const header = `// Code generated by _generate; DO NOT EDIT.

// Most of these shapes are made from the rules of gitleaks v8.30.1, https://github.com/gitleaks/gitleaks, which has the
// MIT license:
//
// Copyright (c) 2019 Zachary Rice
//
// Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated
// documentation files (the "Software"), to deal in the Software without restriction, including without limitation the
// rights to use, copy, modify, merge, publish, distribute, sublicense, and/or sell copies of the Software, and to permit
// persons to whom the Software is furnished to do so, subject to the following conditions:
//
// The above copyright notice and this permission notice shall be included in all copies or substantial portions of the
// Software.
//
// THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE
// WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR
// COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR
// OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.

package secret

var tokens = []token{
`
