package redact

import (
	"net/url"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/internal/redact/redacttest"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/json"
)

// strangers are patterns of further kinds of secrets, each in a typical setting: in a command, a file, a header, an
// address.
var strangers = map[string]string{
	"netrc":            "machine api.acme.io login bob password |{alnum 18}|",
	"basic":            "Authorization: Basic |{base64 {alnum 8}:{alnum 12}}|",
	"curl -u":          "curl -u admin:|{alnum 14}| https://acme.io/x",
	"docker login":     "docker login -u bob --password |{alnum 16}|",
	"docker config":    `{"auths":{"ghcr.io":{"auth":"|{base64 bob:{alnum 20}}|"}}}`,
	"npmrc":            "//registry.acme.io/:_authToken=|{alnum 36}|",
	"cookie":           "Cookie: theme=dark; sessionid=|{alnum 32}|; a=b",
	"set-cookie":       "Set-Cookie: session=|{alnum 40}|; HttpOnly",
	"api key header":   "X-Api-Key: |{alnum 32}|",
	"query":            "https://acme.io/v1?api_key=|{hex 32}|&x=1",
	"amazon signature": "https://b.s3.amazonaws.com/k?X-Amz-Expires=60&X-Amz-Signature=|{hex 64}|",
	"azure signature":  "https://a.blob.core.windows.net/c?sv=2024-01-01&sig=|{alnum 41}%2F|&se=2026",
	"aws session":      "aws_session_token = |IQoJb3JpZ2luX2VjE{alnum 200}|",
	"google refresh":   "|1//0g{alnum 40}-{alnum 20}|",
	"airtable":         "|pat{alnum 14}.{hex 64}|",
	"notion":           "|ntn_{alnum 46}|",
	"netlify":          "|nfp_{alnum 36}|",
	"fly":              "|fm2_{alnum 120}|",
	"pulumi":           "|pul-{hex 40}|",
	"rubygems":         "|rubygems_{hex 48}|",
	"crates":           "|cio{alnum 32}|",
	"buildkite":        "|bkua_{hex 40}|",
	"circleci":         "|CCIPAT_{alnum 22}_{hex 40}|",
	"dropbox":          "|sl.u.{alnum 140}|",
	"dynatrace":        "|dt0c01.{base32 24}.{base32 64}|",
	"mailchimp":        "|{hex 32}-us12|",
	"brevo":            "|xkeysib-{hex 64}-{alnum 16}|",
	"razorpay":         "|rzp_live_{alnum 14}|",
	"langfuse":         "|sk-lf-{hex 8}-{hex 4}-{hex 4}-{hex 12}|",
	"langsmith":        "|lsv2_pt_{hex 32}_{hex 10}|",
	"openrouter":       "|sk-or-v1-{hex 64}|",
	"tavily":           "|tvly-dev-{alnum 32}|",
	"pinecone":         "|pcsk_{alnum 6}_{alnum 60}|",
	"e2b":              "|e2b_{hex 40}|",
	"together":         "|tgp_v1_{alnum 43}|",
	"jina":             "|jina_{hex 32}{alnum 28}|",
	"mapbox":           "|sk.eyJ1Ijoi{alnum 60}.{alnum 22}|",
	"paypal":           "|access_token$production${base36 16}${hex 32}|",
	"slack refresh":    "|xoxe-1-{alnum 140}|",
	"teams hook": "https://acme.webhook.office.com/webhookb2/|{hex 8}" +
		"-0000-4000-8000-{hex 12}@{hex 8}-0000-4000-8000-{hex 12}/IncomingWebhook/{hex 32}|/x",
	"discord hook": "https://discord.com/api/webhooks/{digit 18}/|{alnum 68}|",
	"key of an account": `"private_key": "|-----BEGIN PRIVATE KEY-----\n` +
		`{alnum 64}\n{alnum 40}\n-----END PRIVATE KEY-----|\n",`,
	"key of kubectl": "    client-key-data: |{base64 -----BEGIN RSA PRIVATE KEY-----\n{alnum 64}\n}|",
	"putty":          "Private-Lines: 2\n|{alnum 64}\n{alnum 40}|\nPrivate-MAC: 00",
	"wireguard":      "[Interface]\nPrivateKey = |{alnum 43}=|",
	"git credential": "protocol=https\nusername=bob\npassword=|{alnum 24}|",
	"rails":          "secret_key_base: |{hex 128}|",
	"django":         "SECRET_KEY = 'django-insecure-|{alnum 50}|'",
	"yaml password":  "  password: |{alnum 16}|",
	"mysql":          "mysql -h db -u root -p|{alnum 14}| shop",
	"sshpass":        "sshpass -p '|{alnum 14}|' ssh bob@10.0.0.7",
	"pgpassword":     "PGPASSWORD=|{alnum 12}| psql -h db",
	"odbc":           "Server=db;User Id=sa;Password=|{alnum 16}|;Encrypt=true",
	"redis":          "redis://:|{alnum 20}|@cache:6379/0",
	"mongo":          "mongodb+srv://app:|{alnum 16}|@c0.abcde.mongodb.net/x",
	"e-mail quoted":  `"Ann" <|{lower 8}+x@mail.acme-corp.co.uk|>`,
	"mailto":         "mailto:|{lower 8}@acme.io|?subject=x",
	"phone us":       "tel. |+1 (415) {dial 3}-{dial 4}|",
	"tel:":           `<a href="tel:|+4930{digit 8}|">`,
	"ipv6":           "from |2a02:8108:{hex 3}a:{hex 3}b:1:2:3:4| port 22",
	"ip and port":    "dial tcp |81.169.145.{digit 2}|:443: refused",
	"mac home":       "/Users/|{lower 7}|/Library",
	"windows home":   `C:\Users\|{upper 7}|\AppData`,
	"wsl home":       "/mnt/c/Users/|{lower 7}|/src",
	"claude folder":  "/.claude/projects/-home-|{lower 9}|-src/x.jsonl",
	"file url":       "file:///home/|{lower 9}|/a.html",
}

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
				before, secret, after := p.Plant(strangers[kind])
				ex := &ttc.Example{Graph: ttc.Graph{Nodes: []ttc.Node{
					{Parent: -1, Message: places[place](before + secret + after)},
				}}}
				redactor(t).Example(ex)
				n++
				if strings.Contains(everything(&ex.Graph.Nodes[0].Message), secret) {
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
