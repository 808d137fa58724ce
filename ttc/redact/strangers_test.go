package redact

import (
	"encoding/base64"
	"math/rand/v2"
	"net/url"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/json"
)

// strangers are further kinds of secrets, each in a typical setting: in a command, a file, a header, an address. The
// secret is between the bars.
var strangers = map[string]func(p planter) string{
	"netrc": func(p planter) string { return "machine api.acme.io login bob password |" + p.of(alnum, 18) + "|" },
	"basic": func(p planter) string {
		return "Authorization: Basic |" + b64(p.of(alnum, 8)+":"+p.of(alnum, 12)) + "|"
	},
	"curl -u":      func(p planter) string { return "curl -u admin:|" + p.of(alnum, 14) + "| https://acme.io/x" },
	"docker login": func(p planter) string { return "docker login -u bob --password |" + p.of(alnum, 16) + "|" },
	"docker config": func(p planter) string {
		return `{"auths":{"ghcr.io":{"auth":"|` + b64("bob:"+p.of(alnum, 20)) + `|"}}}`
	},
	"npmrc":          func(p planter) string { return "//registry.acme.io/:_authToken=|" + p.of(alnum, 36) + "|" },
	"cookie":         func(p planter) string { return "Cookie: theme=dark; sessionid=|" + p.of(alnum, 32) + "|; a=b" },
	"set-cookie":     func(p planter) string { return "Set-Cookie: session=|" + p.of(alnum, 40) + "|; HttpOnly" },
	"api key header": func(p planter) string { return "X-Api-Key: |" + p.of(alnum, 32) + "|" },
	"query":          func(p planter) string { return "https://acme.io/v1?api_key=|" + p.of(hexes, 32) + "|&x=1" },
	"amazon signature": func(p planter) string {
		return "https://b.s3.amazonaws.com/k?X-Amz-Expires=60&X-Amz-Signature=|" + p.of(hexes, 64) + "|"
	},
	"azure signature": func(p planter) string {
		return "https://a.blob.core.windows.net/c?sv=2024-01-01&sig=|" + p.of(alnum, 41) + "%2F|&se=2026"
	},
	"aws session": func(p planter) string {
		return "aws_session_token = |IQoJb3JpZ2luX2VjE" + p.of(alnum, 200) + "|"
	},
	"google refresh": func(p planter) string { return "|1//0g" + p.of(alnum, 40) + "-" + p.of(alnum, 20) + "|" },
	"airtable":       func(p planter) string { return "|pat" + p.of(alnum, 14) + "." + p.of(hexes, 64) + "|" },
	"notion":         func(p planter) string { return "|ntn_" + p.of(alnum, 46) + "|" },
	"netlify":        func(p planter) string { return "|nfp_" + p.of(alnum, 36) + "|" },
	"fly":            func(p planter) string { return "|fm2_" + p.of(alnum, 120) + "|" },
	"pulumi":         func(p planter) string { return "|pul-" + p.of(hexes, 40) + "|" },
	"rubygems":       func(p planter) string { return "|rubygems_" + p.of(hexes, 48) + "|" },
	"crates":         func(p planter) string { return "|cio" + p.of(alnum, 32) + "|" },
	"buildkite":      func(p planter) string { return "|bkua_" + p.of(hexes, 40) + "|" },
	"circleci":       func(p planter) string { return "|CCIPAT_" + p.of(alnum, 22) + "_" + p.of(hexes, 40) + "|" },
	"dropbox":        func(p planter) string { return "|sl.u." + p.of(alnum, 140) + "|" },
	"dynatrace":      func(p planter) string { return "|dt0c01." + p.of(upper, 24) + "." + p.of(upper, 64) + "|" },
	"mailchimp":      func(p planter) string { return "|" + p.of(hexes, 32) + "-us12|" },
	"brevo":          func(p planter) string { return "|xkeysib-" + p.of(hexes, 64) + "-" + p.of(alnum, 16) + "|" },
	"razorpay":       func(p planter) string { return "|rzp_live_" + p.of(alnum, 14) + "|" },
	"langfuse": func(p planter) string {
		return "|sk-lf-" + p.of(hexes, 8) + "-" + p.of(hexes, 4) + "-" + p.of(hexes, 4) + "-" + p.of(hexes, 12) + "|"
	},
	"langsmith":  func(p planter) string { return "|lsv2_pt_" + p.of(hexes, 32) + "_" + p.of(hexes, 10) + "|" },
	"openrouter": func(p planter) string { return "|sk-or-v1-" + p.of(hexes, 64) + "|" },
	"tavily":     func(p planter) string { return "|tvly-dev-" + p.of(alnum, 32) + "|" },
	"pinecone":   func(p planter) string { return "|pcsk_" + p.of(alnum, 6) + "_" + p.of(alnum, 60) + "|" },
	"e2b":        func(p planter) string { return "|e2b_" + p.of(hexes, 40) + "|" },
	"together":   func(p planter) string { return "|tgp_v1_" + p.of(alnum, 43) + "|" },
	"jina":       func(p planter) string { return "|jina_" + p.of(hexes, 32) + p.of(alnum, 28) + "|" },
	"mapbox":     func(p planter) string { return "|sk.eyJ1Ijoi" + p.of(alnum, 60) + "." + p.of(alnum, 22) + "|" },
	"paypal": func(p planter) string {
		return "|access_token$production$" + p.of("0123456789abcdefghijklmnopqrstuvwxyz", 16) + "$" + p.of(hexes, 32) +
			"|"
	},
	"slack refresh": func(p planter) string { return "|xoxe-1-" + p.of(alnum, 140) + "|" },
	"teams hook": func(p planter) string {
		return "https://acme.webhook.office.com/webhookb2/|" + p.of(hexes, 8) + "-0000-4000-8000-" + p.of(hexes, 12) +
			"@" + p.of(hexes, 8) + "-0000-4000-8000-" + p.of(hexes, 12) + "/IncomingWebhook/" + p.of(hexes, 32) + "|/x"
	},
	"discord hook": func(p planter) string {
		return "https://discord.com/api/webhooks/" + p.of("123456789", 18) + "/|" + p.of(alnum, 68) + "|"
	},
	"key of an account": func(p planter) string {
		return `"private_key": "|-----BEGIN PRIVATE KEY-----\n` +
			p.of(alnum, 64) + `\n` + p.of(alnum, 40) + `\n-----END PRIVATE KEY-----|\n",`
	},
	"key of kubectl": func(p planter) string {
		return "    client-key-data: |" + b64("-----BEGIN RSA PRIVATE KEY-----\n"+p.of(alnum, 64)+"\n") + "|"
	},
	"putty": func(p planter) string {
		return "Private-Lines: 2\n|" + p.of(alnum, 64) + "\n" + p.of(alnum, 40) + "|\nPrivate-MAC: 00"
	},
	"wireguard": func(p planter) string { return "[Interface]\nPrivateKey = |" + p.of(alnum, 43) + "=|" },
	"git credential": func(p planter) string {
		return "protocol=https\nusername=bob\npassword=|" + p.of(alnum, 24) + "|"
	},
	"rails":         func(p planter) string { return "secret_key_base: |" + p.of(hexes, 128) + "|" },
	"django":        func(p planter) string { return "SECRET_KEY = 'django-insecure-|" + p.of(alnum, 50) + "|'" },
	"yaml password": func(p planter) string { return "  password: |" + p.of(alnum, 16) + "|" },
	"mysql":         func(p planter) string { return "mysql -h db -u root -p|" + p.of(alnum, 14) + "| shop" },
	"sshpass":       func(p planter) string { return "sshpass -p '|" + p.of(alnum, 14) + "|' ssh bob@10.0.0.7" },
	"pgpassword":    func(p planter) string { return "PGPASSWORD=|" + p.of(alnum, 12) + "| psql -h db" },
	"odbc": func(p planter) string {
		return "Server=db;User Id=sa;Password=|" + p.of(alnum, 16) + "|;Encrypt=true"
	},
	"redis": func(p planter) string { return "redis://:|" + p.of(alnum, 20) + "|@cache:6379/0" },
	"mongo": func(p planter) string { return "mongodb+srv://app:|" + p.of(alnum, 16) + "|@c0.abcde.mongodb.net/x" },
	"e-mail quoted": func(p planter) string {
		return `"Ann" <|` + strings.ToLower(p.of(upper[:26], 8)) + `+x@mail.acme-corp.co.uk|>`
	},
	"mailto": func(p planter) string {
		return "mailto:|" + strings.ToLower(p.of(upper[:26], 8)) + "@acme.io|?subject=x"
	},
	"phone us": func(p planter) string {
		return "tel. |+1 (415) " + p.of("23456789", 3) + "-" + p.of("23456789", 4) + "|"
	},
	"tel:": func(p planter) string { return `<a href="tel:|+4930` + p.of("123456789", 8) + `|">` },
	"ipv6": func(p planter) string {
		return "from |2a02:8108:" + p.of(hexes, 3) + "a:" + p.of(hexes, 3) + "b:1:2:3:4| port 22"
	},
	"ip and port":  func(p planter) string { return "dial tcp |81.169.145." + p.of("123456789", 2) + "|:443: refused" },
	"mac home":     func(p planter) string { return "/Users/|" + strings.ToLower(p.of(upper[:26], 7)) + "|/Library" },
	"windows home": func(p planter) string { return `C:\Users\|` + p.of(upper[:26], 7) + `|\AppData` },
	"wsl home":     func(p planter) string { return "/mnt/c/Users/|" + strings.ToLower(p.of(upper[:26], 7)) + "|/src" },
	"claude folder": func(p planter) string {
		return "/.claude/projects/-home-|" + strings.ToLower(p.of(upper[:26], 9)) + "|-src/x.jsonl"
	},
	"file url": func(p planter) string { return "file:///home/|" + strings.ToLower(p.of(upper[:26], 9)) + "|/a.html" },
}

func b64(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

// corners are further places for a secret.
var corners = map[string]func(text string) chat.Message{
	"colours": func(s string) chat.Message {
		return chat.Message{Role: "tool", Text: "\x1b[31m" + s + "\x1b[0m done"}
	},
	"JSON in a text": func(s string) chat.Message {
		q := json.AppendString(nil, "line\n"+s+"\n")
		return chat.Message{Role: "tool", Text: `{"log": ` + string(q) + `}`}
	},
	"JSON in JSON in a text": func(s string) chat.Message {
		q := json.AppendString(nil, string(json.AppendString(nil, "line\n"+s+"\n")))
		return chat.Message{Role: "tool", Text: `{"log": ` + string(q) + `}`}
	},
	"a table": func(s string) chat.Message { return chat.Message{Role: "assistant", Text: "| a | `" + s + "` | b |"} },
	"Windows": func(s string) chat.Message { return chat.Message{Role: "tool", Text: "x\r\n" + s + "\r\ny"} },
	"a part": func(s string) chat.Message {
		raw := json.AppendString([]byte(`{"type":"tool_result","content":`), s)
		return chat.Message{
			Role:  "user",
			Form:  chat.Parts,
			Parts: []chat.Part{{Type: "tool_result", Raw: append(raw, '}')}},
		}
	},
	"a key of arguments": func(s string) chat.Message {
		b := append(append([]byte(`{"env":{`), json.AppendString(nil, s)...), ":1}}"...)
		return chat.Message{
			Role:      "assistant",
			ToolCalls: []chat.ToolCall{{ID: "c", Name: "f", Arguments: string(b), Parsed: b}},
		}
	},
	"arguments that are no JSON": func(s string) chat.Message {
		return chat.Message{Role: "assistant", ToolCalls: []chat.ToolCall{{ID: "c", Name: "f", Arguments: `{"x": "` + s}}}
	},
}

// everything returns all that is written in a message, with its escapes decoded.
func everything(m *chat.Message) string {
	s := all(m)
	for _, p := range m.Parts {
		v, _ := p.Raw.Get("content")
		text, _ := v.Text()
		s += "\n" + text
	}
	for _, c := range m.ToolCalls {
		v, _ := c.Parsed.Get("env")
		for k := range v.Members() {
			name, _ := k.Text()
			s += "\n" + name
		}
	}
	for range 2 {
		s += "\n" + strings.NewReplacer(`\n`, "\n", `\"`, `"`, `\\`, `\`, `\/`, "/").Replace(s)
	}
	if u, err := url.QueryUnescape(s); err == nil {
		s += u
	}
	return s
}

// TestStrangers: 99 % of secrets of further kinds, and in further places, are found.
func TestStrangers(t *testing.T) {
	p := planter{rand.New(rand.NewPCG(3, 4))}
	places := map[string]func(string) chat.Message{"a result": places["a result"]}
	for name, place := range corners {
		places[name] = place
	}
	missed := map[string][]string{}
	n, failed := 0, 0
	for _, kind := range sorted(strangers) {
		for _, place := range sorted(places) {
			for range 3 {
				parts := strings.Split(strangers[kind](p), "|")
				ex := &ttc.Example{Graph: ttc.Graph{Nodes: []ttc.Node{
					{Parent: -1, Message: places[place](strings.Join(parts, ""))},
				}}}
				redactor(t).Example(ex)
				n++
				if strings.Contains(everything(&ex.Graph.Nodes[0].Message), parts[1]) {
					failed++
					missed[kind] = append(missed[kind], place)
				}
			}
		}
	}
	t.Logf("%d of %d missed: %v", failed, n, missed)
	if failed*100 > n {
		t.Errorf("%d of %d were missed: %v", failed, n, missed)
	}
}

// TestLookalikesStay: texts that nearly match the rules above.
func TestLookalikesStay(t *testing.T) {
	r := redactor(t)
	for _, line := range []string{
		"docker run -u 1000:1000 -v /a:/b img", "chown --user app:staff x", "curl -u $USER:$PASS https://acme.io",
		"mysql -h db -u root -p shop", "sshpass -p $PW ssh x", `{"auth": "none", "x": 1}`, `auth: bearerAuthorization`,
		"~/.claude/projects/-home-user-src/x.jsonl", "-home-page-title", "cioppino", "pat.example", "1//2 and 3//4",
		`fmt.Printf("%s\n\tskip-the-line-please-now\n", x)`, "\x1b[31mFAIL\x1b[0m TestX (0.00s)",
		`C:\temp\new\readme.txt`, "sl.setAttribute(name)", "webhooks/123/abc",
		"e2b_sandbox_timeout_seconds_default_value",
	} {
		t.Run(line, func(t *testing.T) {
			if out, changed := r.Text(line); changed {
				t.Errorf("%q became %q", line, out)
			}
		})
	}
}
