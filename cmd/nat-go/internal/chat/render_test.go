package chat

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/internal/oracletest"
)

func answers(t *testing.T, r *Render, requests string) []map[string]any {
	t.Helper()
	var out bytes.Buffer
	if err := Answer(r, strings.NewReader(requests), &out); err != nil && !errors.As(err, new(*Refused)) {
		t.Fatal(err)
	}
	var got []map[string]any
	for _, line := range strings.Split(strings.TrimSpace(out.String()), "\n") {
		for i := range len(line) {
			if line[i] >= 0x7f {
				t.Fatalf("answer is not ASCII: %q", line)
			}
		}
		var a map[string]any
		if err := json.Unmarshal([]byte(line), &a); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		got = append(got, a)
	}
	return got
}

const tiny = `{% for m in messages %}<{{ m.role }}>{{ m.content | trim | tojson }}{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}{% if n %}{{ raise_exception('no ' ~ n) }}{% endif %}`

func TestOneAnswerForEveryRequest(t *testing.T) {
	got := answers(t, NewRender(tiny), `{"messages":[{"role":"user","content":" h\u00e9\" "}],"add_generation_prompt":true}
not json
{"messages":[{"role":"user"}]}
{"messages":3}

{"messages":[],"kwargs":{"n":1}}
`)
	if len(got) != 6 {
		t.Fatalf("%d answers", len(got))
	}
	if want := "<user>\"hé\\\"\"<assistant>"; got[0]["text"] != want {
		t.Errorf("text %q, want %q", got[0]["text"], want)
	}
	spans, _ := json.Marshal(got[0]["spans"])
	if want := `[{"end":5,"field":"role","message":0,"start":1},{"end":13,"field":"content","message":0,"start":6}]`; string(spans) != want {
		t.Errorf("spans %s, want %s", spans, want)
	}
	for i, code := range map[int]string{1: "bad_request", 3: "bad_request", 4: "bad_request", 5: "template_refused"} {
		e, _ := got[i]["error"].(map[string]any)
		if got[i]["ok"] != false || e["code"] != code {
			t.Errorf("answer %d: %v", i, got[i])
		}
	}
	e := got[5]["error"].(map[string]any)
	if e["message"] != "TemplateError: no 1" || e["line"] != 1.0 || e["column"].(float64) < 100 {
		t.Errorf("error %v", e)
	}
	if got[2]["ok"] != true || got[2]["text"] != "<user>\"\"" {
		t.Errorf("undefined content: %v", got[2])
	}
}

func TestInvalidTemplateRefusesEveryRequest(t *testing.T) {
	got := answers(t, NewRender("a\n  {% if %}"), `{"messages":[]}`)
	e := got[0]["error"].(map[string]any)
	if e["code"] != "template_invalid" || e["line"] != 2.0 || e["column"] != 9.0 {
		t.Errorf("%v", e)
	}
}

func TestNormalise(t *testing.T) {
	r := NewRender("{% for m in messages %}{{ m.content }}{% for c in m.tool_calls %}{{ c.function.arguments.city }}{% endfor %}{% endfor %}")
	r.Normalise = true
	got := answers(t, r, `{"messages":[{"role":"assistant","content":null,"tool_calls":[{"function":{"name":"f","arguments":"{\"city\": \"Rome\"}"}}]}]}`)
	spans, _ := json.Marshal(got[0]["spans"])
	if got[0]["text"] != "Rome" || !strings.Contains(string(spans), "tool_calls[0].function.arguments.city") {
		t.Errorf("%v", got[0])
	}
}

// TestConformance answers the recorded requests as the command does.
func TestConformance(t *testing.T) {
	dir := oracletest.Path(t, "chat", "render")
	for _, name := range []string{"qwen3", "llama3_2", "gptoss_training"} {
		t.Run(name, func(t *testing.T) {
			src, err := os.ReadFile(filepath.Join(dir, "templates", name+".jinja"))
			if err != nil {
				t.Fatal(err)
			}
			f, err := os.Open(filepath.Join(dir, name+".jsonl"))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			var requests bytes.Buffer
			var want []map[string]any
			for sc := bufio.NewScanner(f); sc.Scan(); {
				var g map[string]any
				if err := json.Unmarshal(sc.Bytes(), &g); err != nil {
					t.Fatal(err)
				}
				want = append(want, g)
				requests.Write(sc.Bytes())
				requests.WriteByte('\n')
			}
			for i, a := range answers(t, NewRender(string(src)), requests.String()) {
				if a["ok"] != want[i]["ok"] || a["text"] != want[i]["text"] {
					t.Errorf("%s %v: %v", name, want[i]["case"], a)
				}
			}
		})
	}
}
