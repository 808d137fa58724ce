package template

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/internal/oracletest"
	"github.com/nat-go/nat-go/ttc/pyvalue"
)

// checkHeads compares the heads of a render with renders of their own, and returns how many there are. The whole must
// be the same with and without them.
func checkHeads(t *testing.T, src string, tmpl *Template, in Input) (made int) {
	t.Helper()
	plain, err1 := tmpl.Render(in)
	res, err2 := tmpl.RenderHeads(in)
	if (err1 == nil) != (err2 == nil) {
		t.Fatalf("%s\nwithout heads %v, with heads %v", src, err1, err2)
	}
	if err1 != nil {
		return 0
	}
	same := func(a, b Span) bool {
		return a.Span == b.Span && *a.Source == *b.Source && a.Offset == b.Offset && a.Mode == b.Mode
	}
	if res.Text != plain.Text || !slices.EqualFunc(res.Spans, plain.Spans, same) ||
		!slices.Equal(res.Generations, plain.Generations) {
		t.Fatalf("%s\nwith heads    %q\nwithout heads %q", src, res.Text, plain.Text)
	}
	for n := 1; n <= len(in.Messages); n++ {
		for _, open := range []bool{false, true} {
			h, ok := res.Head(in.Messages, n, open)
			if !ok {
				continue
			}
			made++
			own := in
			own.Messages, own.AddGenerationPrompt = in.Messages[:n], open
			want, err := tmpl.Render(own)
			text := h.Common + h.Rest
			if err != nil || text != want.Text {
				t.Fatalf("%s\nhead of %d of %d messages, open %v\n got %q\nwant %q %v", src, n, len(in.Messages), open,
					text, want.Text, err)
			}
			for _, n := range []int{0, min(n, len(text)), len(text)} {
				if !h.BeginsAs(text[:n]+"x", n) || n > 0 && (h.BeginsAs(text[:n-1], n) || h.BeginsAs("\x00"+text[1:], n)) {
					t.Fatalf("%s\nhead %q, first %d", src, h, n)
				}
			}
			if h.BeginsAs(text+"x", len(text)+1) {
				t.Fatalf("%s\nhead %q is longer than it is", src, h)
			}
		}
	}
	return made
}

// TestHeadsOfModels checks the heads of all conversations with all templates of models.
func TestHeadsOfModels(t *testing.T) {
	var all []golden
	for _, name := range []string{"qwen3_training", "llama3_1", "glm4moe"} {
		all = append(all, goldens(t, oracletest.Path(t, "chat", "render", name+".jsonl"))...)
	}
	for _, file := range oracletest.Glob(t, "chat", "render", "templates", "*.jinja") {
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		tmpl, err := Compile(string(src))
		if err != nil {
			t.Fatal(err)
		}
		made := 0
		for i := range all {
			made += checkHeads(t, filepath.Base(file)+" "+all[i].name, tmpl, all[i].input())
		}
		t.Logf("%s: %d heads of %d conversations", filepath.Base(file), made, len(all))
	}
}

// TestHeadsOfRandom checks the heads that random templates allow.
func TestHeadsOfRandom(t *testing.T) {
	seeds := 4000
	if os.Getenv("NATGO_LONG") != "" {
		seeds *= 50
	}
	made, forks := 0, 0
	for seed := range seeds {
		w := &writer{r: rand.New(rand.NewPCG(uint64(seed), 18))}
		begin := w.pick("", "{% set s = messages[0].content %}", "{% set messages = messages[1:] %}",
			"{% if messages[0].role == 'user' %}{% set rest = messages[1:] %}{% else %}{% set rest = messages %}{% endif %}",
			w.statement())
		over := "messages"
		if strings.Contains(begin, "rest") {
			over = "rest"
		}
		tamer := strings.NewReplacer("messages | ", "l | ", "messages[-1]", "messages[1]", "messages[::-1]", "l",
			"add_generation_prompt", "true", " in messages", " in l", "messages)", "l)", "messages ", "l ")
		src := "{% set ns = namespace(a='', b=0) %}" + begin + "{% for m in " + over + " %}" + tamer.Replace(w.body()) +
			w.pick("", "{% set ns.a = ns.a ~ m.role %}", "{{ loop.nextitem.role }}", "{{ loop.last }}",
				"{{ messages[loop.index0 + 1].role }}", "{{ messages[loop.index0 - 1].role }}", "{{ loop.length }}") +
			"{% endfor %}" + w.pick("", "{{ ns.a }}") + w.pick("", w.body()) + "{% if add_generation_prompt %}<>{% endif %}"
		tmpl, err := Compile(src)
		if err != nil {
			continue
		}
		in := testInput()
		in.Kwargs = without(in.Kwargs, "add_generation_prompt")
		if n := checkHeads(t, src, tmpl, in); n > 0 {
			made, forks = made+n, forks+1
		}
	}
	t.Logf("%d heads of %d of %d templates", made, forks, seeds)
	if forks < seeds/20 {
		t.Errorf("only %d of %d templates allow heads", forks, seeds)
	}
}

func without(d *pyvalue.Dict, name string) *pyvalue.Dict {
	out := &pyvalue.Dict{}
	for i := range d.Len() {
		if k, v := d.At(i); k.Text() != name {
			out.SetStr(k.Text(), v)
		}
	}
	return out
}
