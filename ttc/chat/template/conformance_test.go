package template

import (
	"bufio"
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/internal/oracletest"

	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/pyvalue"
)

// golden is one line of conformance/chat/render.
type golden struct {
	template, name string
	messages       val
	tools          val
	kwargs         *pyvalue.Dict
	ok             bool
	text           string
	generations    val
	rendered       val
	message        string
}

func goldens(t testing.TB, file string) []golden {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out []golden
	sc := bufio.NewScanner(f)
	sc.Buffer(nil, 16<<20)
	for sc.Scan() {
		v, err := pyvalue.Parse(json.Raw(bytes.Clone(sc.Bytes())))
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		d := v.Dict()
		get := func(k string) val { v, _ := d.GetStr(k); return v }
		out = append(out, golden{
			template:    get("template").Text(),
			name:        get("case").Text(),
			messages:    get("messages"),
			tools:       get("tools"),
			kwargs:      get("kwargs").Dict(),
			ok:          get("ok").IsTrue(),
			text:        get("text").Text(),
			generations: get("generation_spans_bytes"),
			rendered:    get("messages_rendered"),
			message:     get("message").Text(),
		})
	}
	return out
}

func (g *golden) input() Input {
	in := Input{Kwargs: &pyvalue.Dict{}}
	for i, m := range g.messages.Items() {
		in.Messages = append(in.Messages, AliasReasoning(WithOrigin(m, i)))
	}
	if !g.tools.IsNone() {
		in.Tools = toolOrigin(g.tools)
	}
	for i := range g.kwargs.Len() {
		k, v := g.kwargs.At(i)
		if k.Text() == "add_generation_prompt" {
			in.AddGenerationPrompt = v.IsTrue()
			continue
		}
		in.Kwargs.SetStr(k.Text(), v)
	}
	return in
}

// TestConformance renders what transformers rendered: either the text is the same, or both refuse.
func TestConformance(t *testing.T) {
	dir := oracletest.Path(t, "chat", "render")
	files, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no goldens in %s: %v", dir, err)
	}
	total, same := 0, 0
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".jsonl")
		src, err := os.ReadFile(filepath.Join(dir, "templates", name+".jinja"))
		if err != nil {
			t.Fatal(err)
		}
		tmpl, err := Compile(string(src))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, g := range goldens(t, file) {
			total++
			if checkGolden(t, tmpl, &g) {
				same++
			}
		}
	}
	t.Logf("%d of %d renders identical", same, total)
}

func checkGolden(t *testing.T, tmpl *Template, g *golden) bool {
	t.Helper()
	for i, m := range g.rendered.Items() {
		got, _ := pyvalue.Repr(AliasReasoning(g.messages.Items()[i]))
		if want, _ := pyvalue.Repr(m); got != want {
			t.Errorf("%s %s: aliases\n got %s\nwant %s", g.template, g.name, got, want)
			return false
		}
	}
	in := g.input()
	res, err := tmpl.Render(in)
	if (err == nil) != g.ok {
		t.Errorf("%s %s: error %v, want ok=%v %s", g.template, g.name, err, g.ok, g.message)
		return false
	}
	if err != nil {
		return true
	}
	if res.Text != g.text {
		t.Errorf("%s %s:\n got %q\nwant %q", g.template, g.name, res.Text, g.text)
		return false
	}
	if !g.generations.IsNone() {
		want := g.generations.Items()
		ok := len(want) == len(res.Generations)
		for i := 0; ok && i < len(want); i++ {
			a, _ := want[i].Items()[0].Int64()
			b, _ := want[i].Items()[1].Int64()
			ok = res.Generations[i] == [2]int{int(a), int(b)}
		}
		if !ok {
			w, _ := pyvalue.Repr(g.generations)
			t.Errorf("%s %s: generations %v, want %s", g.template, g.name, res.Generations, w)
			return false
		}
	}
	return checkSpans(t, g, in, &res)
}

// checkSpans looks up every span in the message it claims to come from.
func checkSpans(t *testing.T, g *golden, in Input, res *Result) bool {
	t.Helper()
	last := 0
	for s := range res.Exact() {
		if s.Start < last || s.End <= s.Start || s.End > len(res.Text) {
			t.Errorf("%s %s: span %+v after %d", g.template, g.name, s, last)
			return false
		}
		last = s.End
		if s.Message == FromTools {
			continue
		}
		if s.Message < 0 || s.Message >= len(in.Messages) {
			t.Errorf("%s %s: span %+v of %d messages", g.template, g.name, s, len(in.Messages))
			return false
		}
		field := at(in.Messages[s.Message], s.Field)
		if field.Kind() != pyvalue.KindStr || s.Mode != Linear {
			continue
		}
		got, want := res.Text[s.Start:s.End], ""
		if s.Offset+len(got) <= len(field.Text()) {
			want = field.Text()[s.Offset : s.Offset+len(got)]
		}
		if !strings.EqualFold(got, want) { // upper() and lower() keep the position
			t.Errorf("%s %s: %+v is %q, the field has %q", g.template, g.name, s, got, want)
			return false
		}
	}
	return true
}

// at looks up a field by the path that a span gives.
func at(v val, path string) val {
	for path != "" {
		switch {
		case path[0] == '[':
			end := strings.IndexByte(path, ']')
			i, _ := strconv.Atoi(path[1:end])
			if i >= len(v.Items()) {
				return val{}
			}
			v, path = v.Items()[i], strings.TrimPrefix(path[end+1:], ".")
		default:
			end := strings.IndexAny(path, ".[")
			if end < 0 {
				end = len(path)
			}
			if v.Dict() == nil {
				return val{}
			}
			v, _ = v.Dict().GetStr(path[:end])
			path = strings.TrimPrefix(path[end:], ".")
		}
	}
	return v
}
