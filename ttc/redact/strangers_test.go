package redact

import (
	"encoding/base64"
	"net/url"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/redact/redacttest"
)

// strangers are further kinds of secrets, each in a typical setting: in a command, a file, a header, an address. The
// secret is between the bars.
var strangers = map[string]func(p redacttest.Planter) string{
	"netrc": func(p redacttest.Planter) string {
		return "machine api.acme.io login bob password |" + p.Of(redacttest.Alnum, 18) + "|"
	},
	"basic": func(p redacttest.Planter) string {
		return "Authorization: Basic |" + b64(p.Of(redacttest.Alnum, 8)+":"+p.Of(redacttest.Alnum, 12)) + "|"
	},
	"curl -u": func(p redacttest.Planter) string {
		return "curl -u admin:|" + p.Of(redacttest.Alnum, 14) + "| https://acme.io/x"
	},
	"docker login": func(p redacttest.Planter) string {
		return "docker login -u bob --password |" + p.Of(redacttest.Alnum, 16) + "|"
	},
	"docker config": func(p redacttest.Planter) string {
		return `{"auths":{"ghcr.io":{"auth":"|` + b64("bob:"+p.Of(redacttest.Alnum, 20)) + `|"}}}`
	},
	"npmrc": func(p redacttest.Planter) string {
		return "//registry.acme.io/:_authToken=|" + p.Of(redacttest.Alnum, 36) + "|"
	},
	"cookie": func(p redacttest.Planter) string {
		return "Cookie: theme=dark; sessionid=|" + p.Of(redacttest.Alnum, 32) + "|; a=b"
	},
	"set-cookie": func(p redacttest.Planter) string {
		return "Set-Cookie: session=|" + p.Of(redacttest.Alnum, 40) + "|; HttpOnly"
	},
	"api key header": func(p redacttest.Planter) string { return "X-Api-Key: |" + p.Of(redacttest.Alnum, 32) + "|" },
	"query": func(p redacttest.Planter) string {
		return "https://acme.io/v1?api_key=|" + p.Of(redacttest.Hexes, 32) + "|&x=1"
	},
	"amazon signature": func(p redacttest.Planter) string {
		return "https://b.s3.amazonaws.com/k?X-Amz-Expires=60&X-Amz-Signature=|" + p.Of(redacttest.Hexes, 64) + "|"
	},
	"azure signature": func(p redacttest.Planter) string {
		return "https://a.blob.core.windows.net/c?sv=2024-01-01&sig=|" + p.Of(redacttest.Alnum, 41) + "%2F|&se=2026"
	},
	"aws session": func(p redacttest.Planter) string {
		return "aws_session_token = |IQoJb3JpZ2luX2VjE" + p.Of(redacttest.Alnum, 200) + "|"
	},
	"google refresh": func(p redacttest.Planter) string {
		return "|1//0g" + p.Of(redacttest.Alnum, 40) + "-" + p.Of(redacttest.Alnum, 20) + "|"
	},
	"airtable": func(p redacttest.Planter) string {
		return "|pat" + p.Of(redacttest.Alnum, 14) + "." + p.Of(redacttest.Hexes, 64) + "|"
	},
	"notion":    func(p redacttest.Planter) string { return "|ntn_" + p.Of(redacttest.Alnum, 46) + "|" },
	"netlify":   func(p redacttest.Planter) string { return "|nfp_" + p.Of(redacttest.Alnum, 36) + "|" },
	"fly":       func(p redacttest.Planter) string { return "|fm2_" + p.Of(redacttest.Alnum, 120) + "|" },
	"pulumi":    func(p redacttest.Planter) string { return "|pul-" + p.Of(redacttest.Hexes, 40) + "|" },
	"rubygems":  func(p redacttest.Planter) string { return "|rubygems_" + p.Of(redacttest.Hexes, 48) + "|" },
	"crates":    func(p redacttest.Planter) string { return "|cio" + p.Of(redacttest.Alnum, 32) + "|" },
	"buildkite": func(p redacttest.Planter) string { return "|bkua_" + p.Of(redacttest.Hexes, 40) + "|" },
	"circleci": func(p redacttest.Planter) string {
		return "|CCIPAT_" + p.Of(redacttest.Alnum, 22) + "_" + p.Of(redacttest.Hexes, 40) + "|"
	},
	"dropbox": func(p redacttest.Planter) string { return "|sl.u." + p.Of(redacttest.Alnum, 140) + "|" },
	"dynatrace": func(p redacttest.Planter) string {
		return "|dt0c01." + p.Of(redacttest.Upper, 24) + "." + p.Of(redacttest.Upper, 64) + "|"
	},
	"mailchimp": func(p redacttest.Planter) string { return "|" + p.Of(redacttest.Hexes, 32) + "-us12|" },
	"brevo": func(p redacttest.Planter) string {
		return "|xkeysib-" + p.Of(redacttest.Hexes, 64) + "-" + p.Of(redacttest.Alnum, 16) + "|"
	},
	"razorpay": func(p redacttest.Planter) string { return "|rzp_live_" + p.Of(redacttest.Alnum, 14) + "|" },
	"langfuse": func(p redacttest.Planter) string {
		return "|sk-lf-" + p.Of(redacttest.Hexes, 8) + "-" + p.Of(redacttest.Hexes, 4) + "-" +
			p.Of(redacttest.Hexes, 4) + "-" + p.Of(redacttest.Hexes, 12) + "|"
	},
	"langsmith": func(p redacttest.Planter) string {
		return "|lsv2_pt_" + p.Of(redacttest.Hexes, 32) + "_" + p.Of(redacttest.Hexes, 10) + "|"
	},
	"openrouter": func(p redacttest.Planter) string { return "|sk-or-v1-" + p.Of(redacttest.Hexes, 64) + "|" },
	"tavily":     func(p redacttest.Planter) string { return "|tvly-dev-" + p.Of(redacttest.Alnum, 32) + "|" },
	"pinecone": func(p redacttest.Planter) string {
		return "|pcsk_" + p.Of(redacttest.Alnum, 6) + "_" + p.Of(redacttest.Alnum, 60) + "|"
	},
	"e2b":      func(p redacttest.Planter) string { return "|e2b_" + p.Of(redacttest.Hexes, 40) + "|" },
	"together": func(p redacttest.Planter) string { return "|tgp_v1_" + p.Of(redacttest.Alnum, 43) + "|" },
	"jina": func(p redacttest.Planter) string {
		return "|jina_" + p.Of(redacttest.Hexes, 32) + p.Of(redacttest.Alnum, 28) + "|"
	},
	"mapbox": func(p redacttest.Planter) string {
		return "|sk.eyJ1Ijoi" + p.Of(redacttest.Alnum, 60) + "." + p.Of(redacttest.Alnum, 22) + "|"
	},
	"paypal": func(p redacttest.Planter) string {
		return "|access_token$production$" + p.Of("0123456789abcdefghijklmnopqrstuvwxyz", 16) + "$" +
			p.Of(redacttest.Hexes, 32) +
			"|"
	},
	"slack refresh": func(p redacttest.Planter) string { return "|xoxe-1-" + p.Of(redacttest.Alnum, 140) + "|" },
	"teams hook": func(p redacttest.Planter) string {
		return "https://acme.webhook.office.com/webhookb2/|" + p.Of(redacttest.Hexes, 8) + "-0000-4000-8000-" +
			p.Of(redacttest.Hexes, 12) +
			"@" + p.Of(redacttest.Hexes, 8) + "-0000-4000-8000-" + p.Of(redacttest.Hexes, 12) + "/IncomingWebhook/" +
			p.Of(redacttest.Hexes, 32) + "|/x"
	},
	"discord hook": func(p redacttest.Planter) string {
		return "https://discord.com/api/webhooks/" + p.Of("123456789", 18) + "/|" + p.Of(redacttest.Alnum, 68) + "|"
	},
	"key of an account": func(p redacttest.Planter) string {
		return `"private_key": "|-----BEGIN PRIVATE KEY-----\n` +
			p.Of(redacttest.Alnum, 64) + `\n` + p.Of(redacttest.Alnum, 40) + `\n-----END PRIVATE KEY-----|\n",`
	},
	"key of kubectl": func(p redacttest.Planter) string {
		return "    client-key-data: |" + b64("-----BEGIN RSA PRIVATE KEY-----\n"+p.Of(redacttest.Alnum, 64)+"\n") + "|"
	},
	"putty": func(p redacttest.Planter) string {
		return "Private-Lines: 2\n|" + p.Of(redacttest.Alnum, 64) + "\n" + p.Of(redacttest.Alnum, 40) +
			"|\nPrivate-MAC: 00"
	},
	"wireguard": func(p redacttest.Planter) string {
		return "[Interface]\nPrivateKey = |" + p.Of(redacttest.Alnum, 43) + "=|"
	},
	"git credential": func(p redacttest.Planter) string {
		return "protocol=https\nusername=bob\npassword=|" + p.Of(redacttest.Alnum, 24) + "|"
	},
	"rails": func(p redacttest.Planter) string { return "secret_key_base: |" + p.Of(redacttest.Hexes, 128) + "|" },
	"django": func(p redacttest.Planter) string {
		return "SECRET_KEY = 'django-insecure-|" + p.Of(redacttest.Alnum, 50) + "|'"
	},
	"yaml password": func(p redacttest.Planter) string { return "  password: |" + p.Of(redacttest.Alnum, 16) + "|" },
	"mysql": func(p redacttest.Planter) string {
		return "mysql -h db -u root -p|" + p.Of(redacttest.Alnum, 14) + "| shop"
	},
	"sshpass": func(p redacttest.Planter) string {
		return "sshpass -p '|" + p.Of(redacttest.Alnum, 14) + "|' ssh bob@10.0.0.7"
	},
	"pgpassword": func(p redacttest.Planter) string {
		return "PGPASSWORD=|" + p.Of(redacttest.Alnum, 12) + "| psql -h db"
	},
	"odbc": func(p redacttest.Planter) string {
		return "Server=db;User Id=sa;Password=|" + p.Of(redacttest.Alnum, 16) + "|;Encrypt=true"
	},
	"redis": func(p redacttest.Planter) string { return "redis://:|" + p.Of(redacttest.Alnum, 20) + "|@cache:6379/0" },
	"mongo": func(p redacttest.Planter) string {
		return "mongodb+srv://app:|" + p.Of(redacttest.Alnum, 16) + "|@c0.abcde.mongodb.net/x"
	},
	"e-mail quoted": func(p redacttest.Planter) string {
		return `"Ann" <|` + strings.ToLower(p.Of(redacttest.Upper[:26], 8)) + `+x@mail.acme-corp.co.uk|>`
	},
	"mailto": func(p redacttest.Planter) string {
		return "mailto:|" + strings.ToLower(p.Of(redacttest.Upper[:26], 8)) + "@acme.io|?subject=x"
	},
	"phone us": func(p redacttest.Planter) string {
		return "tel. |+1 (415) " + p.Of("23456789", 3) + "-" + p.Of("23456789", 4) + "|"
	},
	"tel:": func(p redacttest.Planter) string { return `<a href="tel:|+4930` + p.Of("123456789", 8) + `|">` },
	"ipv6": func(p redacttest.Planter) string {
		return "from |2a02:8108:" + p.Of(redacttest.Hexes, 3) + "a:" + p.Of(redacttest.Hexes, 3) + "b:1:2:3:4| port 22"
	},
	"ip and port": func(p redacttest.Planter) string {
		return "dial tcp |81.169.145." + p.Of("123456789", 2) + "|:443: refused"
	},
	"mac home": func(p redacttest.Planter) string {
		return "/Users/|" + strings.ToLower(p.Of(redacttest.Upper[:26], 7)) + "|/Library"
	},
	"windows home": func(p redacttest.Planter) string { return `C:\Users\|` + p.Of(redacttest.Upper[:26], 7) + `|\AppData` },
	"wsl home": func(p redacttest.Planter) string {
		return "/mnt/c/Users/|" + strings.ToLower(p.Of(redacttest.Upper[:26], 7)) + "|/src"
	},
	"claude folder": func(p redacttest.Planter) string {
		return "/.claude/projects/-home-|" + strings.ToLower(p.Of(redacttest.Upper[:26], 9)) + "|-src/x.jsonl"
	},
	"file url": func(p redacttest.Planter) string {
		return "file:///home/|" + strings.ToLower(p.Of(redacttest.Upper[:26], 9)) + "|/a.html"
	},
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
	p := redacttest.New(3)
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
