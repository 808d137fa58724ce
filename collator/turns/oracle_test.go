package turns

import (
	"bufio"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/internal/oracletest"

	"github.com/nat-go/nat-go/ttc/chat/template"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/pyvalue"
)

func oracleSources(t testing.TB) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(oracletest.Path(t, "chat", "render", "templates"), "*.jinja"))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		out[strings.TrimSuffix(filepath.Base(f), ".jinja")] = string(b)
	}
	return out
}

// renderCase is a line in conformance/chat/render.
type renderCase struct {
	name string
	conv *Conversation
	vars *pyvalue.Dict
}

func renderCases(t testing.TB, name string) (out []renderCase) {
	t.Helper()
	f, err := os.Open(oracletest.Path(t, "chat", "render", name+".jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	sc := bufio.NewScanner(f)
	sc.Buffer(nil, 16<<20)
	for sc.Scan() {
		raw := json.Raw(append([]byte(nil), sc.Bytes()...))
		if ok, _ := get(raw, "ok").Bool(); !ok {
			continue
		}
		ms, err := template.ParseMessages(get(raw, "messages"))
		if err != nil {
			t.Fatal(err)
		}
		c := &Conversation{}
		for _, m := range ms {
			c.Messages = append(c.Messages, template.AliasReasoning(m))
		}
		if tools := get(raw, "tools"); tools.Kind() != json.Null {
			if c.Tools, err = template.ParseTools(tools); err != nil {
				t.Fatal(err)
			}
		}
		kw, err := pyvalue.Parse(get(raw, "kwargs"))
		if err != nil {
			t.Fatal(err)
		}
		vars := &pyvalue.Dict{}
		for i := range kw.Dict().Len() {
			k, v := kw.Dict().At(i)
			if k.Text() == "add_generation_prompt" {
				c.Open = v.IsTrue()
				continue
			}
			_ = vars.Set(k, v)
		}
		name, _ := get(raw, "case").Text()
		out = append(out, renderCase{name, c, vars})
	}
	return out
}

func get(r json.Raw, key string) json.Raw { v, _ := r.Get(key); return v }
