package redact

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nat-go/nat-go/internal/history"
	"github.com/nat-go/nat-go/internal/redact/redacttest"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/json"
)

func redactor(t testing.TB, allow ...string) *Redactor {
	t.Helper()
	r, err := New(Config{Enabled: true, Allow: allow})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// places are awkward places for a secret. Each makes an example from a text.
var places = map[string]func(text string) chat.Message{
	"a result": func(s string) chat.Message {
		return chat.Message{Role: "tool", Form: chat.Text, Text: "ok\n" + s + "\nend"}
	},
	"reasoning": func(s string) chat.Message {
		return chat.Message{Role: "assistant", Reasoning: "I see " + s + " there"}
	},
	"a diff": func(s string) chat.Message {
		return chat.Message{Role: "user", Text: "@@ -1 +1 @@\n-old\n+" + s + "\n"}
	},
	"arguments, escaped": func(s string) chat.Message {
		b := []byte(`{"command": "`)
		for i, r := range s {
			if i%3 == 0 {
				b = fmt.Appendf(b, `\u%04x`, r)
			} else {
				q := json.AppendString(nil, string(r))
				b = append(b, q[1:len(q)-1]...)
			}
		}
		b = append(b, `"}`...)
		return chat.Message{
			Role:      "assistant",
			ToolCalls: []chat.ToolCall{{ID: "c", Name: "f", Arguments: string(b), Parsed: b}},
		}
	},
	"a data URL": func(s string) chat.Message {
		return chat.Message{
			Role: "user",
			Text: "see data:text/plain;base64," + base64.StdEncoding.EncodeToString([]byte("file:\n"+s+"\n")) + " here",
		}
	},
}

// all returns all text in a message, with data URLs decoded.
func all(m *chat.Message) string {
	s := m.Text + "\n" + m.Reasoning
	for _, c := range m.ToolCalls {
		v, _ := c.Parsed.Get("command")
		text, _ := v.Text()
		s += "\n" + c.Arguments + "\n" + text
	}
	for _, word := range regexp.MustCompile(`[A-Za-z0-9+/_-]{24,}`).FindAllString(s, -1) {
		text, _ := decoded(word)
		s += "\n" + text
	}
	return s
}

// TestPlanted: 99 % of 1,000 secrets of 40 kinds in awkward places are found.
func TestPlanted(t *testing.T) {
	p := redacttest.New(1)
	missed := map[string]int{}
	n, failed := 0, 0
	for _, kind := range sorted(redacttest.Kinds) {
		for _, place := range sorted(places) {
			for range 5 {
				before, secret, after := p.Plant(redacttest.Kinds[kind])
				m := places[place](before + secret + after)
				ex := &ttc.Example{Graph: ttc.Graph{Nodes: []ttc.Node{{Parent: -1, Message: m, TokenIDs: []int32{1}}}}}
				redactor(t).Example(ex)
				n++
				if strings.Contains(all(&ex.Graph.Nodes[0].Message), secret) {
					failed++
					missed[kind+" in "+place]++
				} else if ex.Graph.Nodes[0].TokenIDs != nil {
					t.Errorf("%s in %s: the token ids still hold it", kind, place)
				}
			}
		}
	}
	t.Logf("%d of %d missed: %v", failed, n, missed)
	if len(redacttest.Kinds) != 40 || failed*100 > n {
		t.Errorf("%d kinds; %d of %d were missed: %v", len(redacttest.Kinds), failed, n, missed)
	}
}

func sorted[V any](m map[string]V) (out []string) {
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// TestOrdinaryLinesStay: there is less than one false tag per 10,000 lines of this repository's code, prose and data.
func TestOrdinaryLinesStay(t *testing.T) {
	r := redactor(t)
	lines := 0
	var hits []string
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			if err == nil && strings.HasPrefix(d.Name(), ".") && path != "../.." {
				return filepath.SkipDir
			}
			return err
		}
		switch filepath.Ext(path) {
		case ".md", ".go", ".yml", ".yaml", ".jinja", ".py", ".sum", ".mod", ".s":
		default:
			return nil
		}
		if strings.Contains(path, "secret") || strings.Contains(path, "test") || strings.Contains(path, "redact") {
			return nil // they contain made-up secrets
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		for s := bufio.NewScanner(f); s.Scan(); lines++ {
			if out, changed := r.Text(s.Text()); changed {
				hits = append(hits, filepath.Base(path)+": "+out)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if lines < 50_000 || len(hits)*10_000 > lines {
		t.Errorf("%d tags in %d lines:\n%s", len(hits), lines, strings.Join(hits, "\n"))
	}
}

func TestOneSecretOneTag(t *testing.T) {
	const token = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"
	r := redactor(t, "boss@acme.org", `/^10\./`)
	ex := func(texts ...string) *ttc.Example {
		out := &ttc.Example{Fidelity: ttc.IDs}
		for i, s := range texts {
			out.Graph.Nodes = append(
				out.Graph.Nodes,
				ttc.Node{Parent: i - 1, Message: chat.Message{Role: "user", Form: chat.Text, Text: s}},
			)
		}
		r.Example(out)
		return out
	}
	show := func(ex *ttc.Example) (out string) {
		for _, n := range ex.Graph.Nodes {
			out += n.Message.Text + "|"
		}
		return out
	}
	for _, c := range []struct{ got, want string }{
		{show(ex("a "+token, "mail ann@posteo.de", token)), "a <REDACTED:github_token:1>|mail <REDACTED:email:1>|<REDACTED:github_token:1>|"},
		{show(ex("bob@posteo.de " + token)), "<REDACTED:email:2> <REDACTED:github_token:1>|"},
		{show(ex("it is kX93mmQ7ppL2 now", "DB_PASSWORD=kX93mmQ7ppL2")), "it is <REDACTED:secret:1> now|DB_PASSWORD=<REDACTED:secret:1>|"},
		{show(ex("boss@acme.org 10.2.3.4 git@github.com x@example.com 127.0.0.1 v1.2.3.4")), "boss@acme.org 10.2.3.4 git@github.com x@example.com 127.0.0.1 v1.2.3.4|"},
		{show(ex("a <REDACTED:github_token:1>")), "a <REDACTED:github_token:1>|"},
	} {
		t.Run(c.got, func(t *testing.T) {
			if c.got != c.want {
				t.Errorf("\n got %s\nwant %s", c.got, c.want)
			}
		})
	}
	if got := fmt.Sprint(r.Counts()); got != "map[email:2 github_token:3 secret:2]" {
		t.Error(got)
	}
	if _, err := New(Config{Enabled: true, Allow: []string{"/(/"}}); err == nil {
		t.Error("a bad pattern was accepted")
	}
	if got := Tags("a <REDACTED:email:12> b <REDACTED:x"); !cmp.Equal(got, [][]int{{2, 21}}) {
		t.Error(got)
	}
}

// TestNamesAndIDs checks that secrets in names and ids are replaced, and that a result still answers its call.
func TestNamesAndIDs(t *testing.T) {
	const token = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"
	raw := []byte(`"` + token + `"`)
	ex := &ttc.Example{
		Tools: []chat.Tool{{Name: token, Raw: raw}},
		Graph: ttc.Graph{Nodes: []ttc.Node{
			{Parent: -1, TokenIDs: []int32{1}, Message: chat.Message{Role: "assistant", ToolCalls: []chat.ToolCall{
				{
					ID: "call_1 " + token, Name: token, Arguments: "{}", Parsed: []byte("{}"),
					Extra: []chat.Member{{Key: "k", Value: raw}},
				},
			}}},
			{Message: chat.Message{Role: "tool", Name: token, ToolCallID: "call_1 " + token}},
		}},
	}
	redactor(t).Example(ex)
	if text := fmt.Sprintf("%s %+v", ex.Tools[0].Raw, ex); strings.Contains(text, token) {
		t.Errorf("the token is still in %s", text)
	}
	call, result := &ex.Graph.Nodes[0], &ex.Graph.Nodes[1].Message
	tag := "<REDACTED:github_token:1>"
	if c := call.Message.ToolCalls[0]; c.ID != result.ToolCallID || c.ID != "call_1 "+tag || c.Name != tag ||
		result.Name != tag || ex.Tools[0].Name != tag || string(c.Extra[0].Value) != `"`+tag+`"` ||
		call.TokenIDs != nil {
		t.Errorf("%+v, %+v", call, result)
	}
}

// TestToolsKeepTheirNames checks that a tool's name still matches the list of tools, even if an argument named like a
// secret has the same value.
func TestToolsKeepTheirNames(t *testing.T) {
	args := `{"secret": "query_db2"}`
	ex := &ttc.Example{
		Tools: []chat.Tool{{Name: "query_db2", Raw: []byte(`{"name": "query_db2"}`)}},
		Graph: ttc.Graph{Nodes: []ttc.Node{
			{Parent: -1, Message: chat.Message{Role: "assistant", ToolCalls: []chat.ToolCall{
				{Name: "query_db2", Arguments: args, Parsed: []byte(args)},
			}}},
			{Message: chat.Message{Role: "tool", Name: "query_db2", Text: "query_db2"}},
		}},
	}
	redactor(t).Example(ex)
	call, result := &ex.Graph.Nodes[0].Message.ToolCalls[0], &ex.Graph.Nodes[1].Message
	if call.Name != ex.Tools[0].Name || result.Name != call.Name || call.Arguments == args || result.Text == call.Name {
		t.Errorf("%+v, %+v", call, result)
	}
}

// TestOverlappingSecrets checks that, if two secrets share characters, the end of the second isn't kept.
func TestOverlappingSecrets(t *testing.T) {
	r := redactor(t)
	out := &ttc.Example{Fidelity: ttc.IDs}
	for i, s := range []string{"it is kX93mmQ7ppL2zzT8wwQ4 now", "DB_PASSWORD=kX93mmQ7ppL2", "API_PASSWORD=ppL2zzT8wwQ4"} {
		out.Graph.Nodes = append(
			out.Graph.Nodes, ttc.Node{Parent: i - 1, Message: chat.Message{Role: "user", Form: chat.Text, Text: s}},
		)
	}
	r.Example(out)
	for _, n := range out.Graph.Nodes {
		if strings.Contains(n.Message.Text, "zzT8wwQ4") || strings.Contains(n.Message.Text, "kX93mm") {
			t.Error(n.Message.Text)
		}
	}
	if got, want := out.Graph.Nodes[0].Message.Text, "it is <REDACTED:secret:1><REDACTED:secret:2> now"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestTagsHideNothing: what looks like the beginning of a tag, or like a tag of another program, protects no secret,
// and neither does a whole tag beside it or within it. What was redacted stays as it is.
func TestTagsHideNothing(t *testing.T) {
	p := redacttest.New(9)
	for _, kind := range sorted(redacttest.Kinds) {
		for name, frame := range map[string]string{
			"an opening":       "const opening = \"<REDACTED:\"\n%s\nend",
			"an open class":    "<REDACTED:email\n%s\n",
			"a cut tag":        "a <REDACTED:email:1\n%s\n",
			"a strange class":  "<REDACTED:mine:1> %s <REDACTED:mine:2>",
			"around it":        "<REDACTED:x:\n%s\n:1>",
			"a real tag":       "<REDACTED:email:1> %s <REDACTED:email:2>",
			"an opening at it": "<REDACTED: %s",
		} {
			before, secret, after := p.Plant(redacttest.Kinds[kind])
			r := redactor(t)
			out, changed := r.Text(fmt.Sprintf(frame, before+secret+after))
			if !changed || strings.Contains(out, secret) {
				t.Errorf("%s, %s: %s", kind, name, out)
			}
			if again, _ := redactor(t).Text(out); again != out {
				t.Errorf("%s, %s: %q became %q", kind, name, out, again)
			}
		}
	}
	for _, text := range []string{
		"DB_PASSWORD=Zt7qA9<REDACTED:email:1>Kx81Pm2Q",
	} {
		if out, _ := redactor(t).Text(text); strings.Contains(out, "Zt7q") || strings.Contains(out, "Kx81Pm2Q") {
			t.Errorf("%q became %q", text, out)
		}
	}
}

// TestMentionsOfKeysStay: a line that merely mentions a private key takes nothing with it; a key without its last line,
// or without its first, is removed as far as it goes.
func TestMentionsOfKeysStay(t *testing.T) {
	const begin, end = "-----BEGIN RSA PRIVATE KEY-----", "-----END RSA PRIVATE KEY-----"
	prose := strings.Repeat("The file begins with a line that names the kind of key.\n", 1500)
	for _, text := range []string{
		"It starts with " + begin + " and then\n" + prose,
		"From `" + begin + "` to `" + end + "`: the documentation is at /usr/share/documentation.\n" + prose,
		prose + begin, prose + end + "\n" + prose, `const head = "` + begin + `"` + "\nif strings.HasPrefix(s, head) {\n",
	} {
		if out, changed := redactor(t).Text(text); changed {
			t.Errorf("%.80q (%d bytes) became %.200q", text, len(text), out)
		}
	}
	p := redacttest.New(8)
	_, line, _ := p.Plant("|MIIEpAIBAAKCAQEA{alnum 48}|")
	_, other, _ := p.Plant("|{alnum 64}|")
	_, last, _ := p.Plant("|{alnum 30}==|")
	body := line + "\n" + other + "\n" + other + "\n"
	for name, text := range map[string]string{
		"whole":         begin + "\n" + body + last + "\n" + end,
		"with a header": begin + "\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\n" + body + last + "\n" + end,
		"cut":           begin + "\n" + body + last[:9],
		"cut by a view": begin + "\n" + body + "... 20 lines more",
		"no first line": body + last + "\n" + end,
		"second lines":  other + "\n" + other + "\n" + last + "\n" + end,
		"neither":       body + last,
		"in a program":  "k := \"" + begin + "\\n\" +\n\t\"" + line + "\\n\" +\n\t\"" + other + "\\n\"\n",
		"escaped":       strings.ReplaceAll(begin+"\n"+body+last+"\n"+end, "\n", `\n`),
	} {
		t.Run(name, func(t *testing.T) {
			out, _ := redactor(t).Text("Before it.\n" + text + "\nAfter it.")
			for _, piece := range []string{line[20:], other, last[:20]} {
				if strings.Contains(text, piece) && strings.Contains(out, piece) {
					t.Errorf("%q remains in %q", piece, out)
				}
			}
			if !strings.HasPrefix(out, "Before it.\n") || !strings.HasSuffix(out, "\nAfter it.") {
				t.Errorf("what is around it: %q", out)
			}
		})
	}
}

// TestSharedMessagesStay: messages that others hold are not changed, and arguments without a secret keep the model's
// spelling.
func TestSharedMessagesStay(t *testing.T) {
	arguments := `{ "a" : 49.90, "to":["x", "ann@posteo.de"], "n":1e3 }`
	shared := []chat.ToolCall{{ID: "c", Name: "f", Arguments: arguments, Parsed: json.Raw(arguments)}}
	ex := &ttc.Example{
		Graph: ttc.Graph{Nodes: []ttc.Node{{Parent: -1, Message: chat.Message{Role: "assistant", ToolCalls: shared}}}},
	}
	redactor(t).Example(ex)
	if shared[0].Arguments != arguments {
		t.Error("the source's message changed")
	}
	if got := ex.Graph.Nodes[0].Message.ToolCalls[0].Arguments; got != strings.Replace(
		arguments,
		"ann@posteo.de",
		"<REDACTED:email:1>",
		1,
	) {
		t.Error(got)
	}
}

func BenchmarkText(b *testing.B) {
	ordinary := strings.Repeat(
		"func (r *Redactor) Text(s string) (string, bool) {\n\tif len(s) < 6 { return s, false } // as it was\n",
		200,
	)
	r := redactor(b)
	b.SetBytes(int64(len(ordinary)))
	for b.Loop() {
		r.Text(ordinary)
	}
}

// TestRecordedContexts: an example keeps the hashes of what was recorded if anything in it was replaced, and only then.
func TestRecordedContexts(t *testing.T) {
	const key = "sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789"
	example := func(text string) *ttc.Example {
		return &ttc.Example{Graph: ttc.Chain([]chat.Message{
			{Role: "user", Form: chat.Text, Text: "hello there"}, {Role: "user", Form: chat.Text, Text: text},
		}, ttc.No)}
	}
	clean, secret := example("nothing here"), example("the key is "+key)
	r := redactor(t)
	var h history.Hasher
	want := h.Graph(h.Tools(nil), &secret.Graph)
	r.Example(clean)
	r.Example(secret)
	if clean.Recorded != nil || !slices.Equal(secret.Recorded, want) {
		t.Errorf("got %v and %v, want none and %v", clean.Recorded, secret.Recorded, want)
	}
	if now := h.Graph(h.Tools(nil), &secret.Graph); now[0] != want[0] || now[1] == want[1] {
		t.Errorf("redacted: %v, recorded: %v", now, want)
	}
}
