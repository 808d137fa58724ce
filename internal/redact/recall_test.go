package redact

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/internal/redact/redacttest"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/json"
)

// sample is a text with a secret in it.
type sample struct{ text, secret string }

// corpus returns samples of each kind, by the group that the kind is from.
func corpus(t *testing.T) map[string]map[string][]sample {
	t.Helper()
	p := redacttest.New(11)
	out := map[string]map[string][]sample{}
	groups := map[string]map[string]string{
		"common kinds": redacttest.Kinds, "kinds in context": strangers, "further kinds": redacttest.Further,
	}
	for _, group := range sorted(groups) {
		kinds := groups[group]
		out[group] = map[string][]sample{}
		for _, kind := range sorted(kinds) {
			for range 3 {
				before, secret, after := p.Plant(kinds[kind])
				out[group][kind] = append(out[group][kind], sample{before + secret + after, secret})
			}
		}
	}
	f, err := os.Open("testdata/gitleaks.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rules := map[string][]sample{}
	for in := bufio.NewScanner(f); in.Scan(); {
		line, err := json.Parse(in.Bytes(), json.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		field := func(name string) string {
			v, _ := line.Get(name)
			text, _ := v.Text()
			return text
		}
		rules[field("rule")] = append(rules[field("rule")], sample{field("text"), field("secret")})
	}
	out["gitleaks' examples"] = rules
	return out
}

// where are the places in which each sample is put.
var where = map[string]func(string) chat.Message{
	"a result":           places["a result"],
	"arguments, escaped": places["arguments, escaped"],
	"base64": func(s string) chat.Message {
		return chat.Message{Role: "tool", Form: chat.Text, Text: "echo " +
			base64.StdEncoding.EncodeToString([]byte(s)) + " | base64 -d"}
	},
	"percent-encoded": func(s string) chat.Message {
		text := "POST /form?text=" + url.QueryEscape("see:\n"+s+"\n") + "&submit=1"
		return chat.Message{Role: "tool", Form: chat.Text, Text: text}
	},
}

// TestGluedToAWord: a token that tells by its own beginning what it is needs no space before it.
func TestGluedToAWord(t *testing.T) {
	p := redacttest.New(13)
	for _, kind := range []string{"github", "gitlab", "aws id", "anthropic", "slack", "npm"} {
		pattern, ok := redacttest.Kinds[kind]
		if !ok {
			t.Fatalf("there is no kind %q: %v", kind, sorted(redacttest.Kinds))
		}
		before, secret, after := p.Plant(pattern)
		for _, word := range []string{"key", "TOKEN_", "4"} {
			if out, _ := redactor(t).Text("see " + before + word + secret + after); strings.Contains(out, secret) {
				t.Errorf("%s after %s: %q", kind, word, out)
			}
		}
	}
}

// TestRecall: of each group of kinds, as many samples are found as the page says.
func TestRecall(t *testing.T) {
	total := 0
	var rows []string
	groups := corpus(t)
	for _, group := range sorted(groups) {
		total += len(groups[group])
		row := fmt.Sprintf("| %s | %d |", group, len(groups[group]))
		for _, place := range sorted(where) {
			n, failed := 0, 0
			missed := map[string]int{}
			for _, kind := range sorted(groups[group]) {
				for _, s := range groups[group][kind] {
					ex := &ttc.Example{Graph: ttc.Graph{Nodes: []ttc.Node{{Parent: -1, Message: where[place](s.text)}}}}
					redactor(t).Example(ex)
					n++
					if strings.Contains(all(&ex.Graph.Nodes[0].Message), s.secret) {
						failed++
						missed[kind]++
					}
				}
			}
			t.Logf("%s in %s: %d of %d missed: %v", group, place, failed, n, missed)
			row += fmt.Sprintf(" %.1f %% |", 100*float64(n-failed)/float64(n))
		}
		rows = append(rows, row)
	}
	if total < 200 {
		t.Errorf("%d kinds", total)
	}
	page, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	if want := strings.Join(rows, "\n"); !strings.Contains(string(page), want) {
		t.Errorf("README.md lacks\n%s", want)
	}
}

// TestInvisibleCharacters: a space of no width within a secret doesn't hide it.
func TestInvisibleCharacters(t *testing.T) {
	p := redacttest.New(12)
	missed := 0
	for _, kind := range sorted(redacttest.Kinds) {
		for _, c := range []string{"\u200b", "\u200d", "\ufeff", "\u00ad"} {
			before, secret, after := p.Plant(redacttest.Kinds[kind])
			if len(secret) < 9 {
				continue
			}
			out, changed := redactor(t).Text("x " + before + secret[:7] + c + secret[7:] + after + " y")
			if shown, _ := visible(out); !changed || strings.Contains(shown, secret) {
				missed++
				t.Logf("%s: %q", kind, out)
			}
			if !strings.HasPrefix(out, "x ") || !strings.HasSuffix(out, " y") {
				t.Errorf("what is around it: %q", out)
			}
		}
	}
	if missed > 1 {
		t.Errorf("%d were missed", missed)
	}
}

// TestEncodedTextStays: base64 of ordinary text and of images stays, and so do names that look like base64.
func TestEncodedTextStays(t *testing.T) {
	for _, text := range []string{
		base64.StdEncoding.EncodeToString([]byte(strings.Repeat("an ordinary text of some length ", 20))),
		base64.StdEncoding.EncodeToString([]byte("\x89PNG\r\n\x1a\n" + strings.Repeat("ann@posteo.de ", 20))),
		"github.com/some/very/long/path/of/a/package/that/looks/encoded", strings.Repeat("abcd", 40),
	} {
		if out, changed := redactor(t).Text("see " + text + " there"); changed {
			t.Errorf("%q became %q", text, out)
		}
	}
}
