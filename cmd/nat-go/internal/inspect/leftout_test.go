package inspect_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/inspect"
)

// reasoned is a conversation with tools, a call, and reasoning before and after the last question.
const reasoned = `{"tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}],
 "messages": [{"role": "user", "content": "q"},
  {"role": "assistant", "content": "", "reasoning_content": "hm", "tool_calls": [{"id": "1", "type": "function",
   "function": {"name": "f", "arguments": "{}"}}]}, {"role": "tool", "tool_call_id": "1", "content": "r"},
  {"role": "assistant", "content": "a", "reasoning_content": "so"}, {"role": "user", "content": "p"},
  {"role": "assistant", "content": "b", "reasoning_content": "well"}]}
`

// TestLeftOut checks that what the template of a model at hand doesn't show is reported before a run, on the screen and
// in the configuration that init writes, and that nothing is reported for one that shows everything.
func TestLeftOut(t *testing.T) {
	const says = "{{ m.role }}: {{ m.content or '' }}\n"
	const calls = "{% for c in m.tool_calls or [] %}<{{ c.function.name }} {{ c.function.arguments | tojson }}>{% endfor %}"
	const thinks = "<t>{{ m.reasoning_content or '' }}</t>"
	loop := func(body string) string { return "{% for m in messages %}" + body + "{% endfor %}" }
	for name, c := range map[string]struct{ template, want string }{
		"texts only": {
			loop(says),
			"the template of DIR omits the tools of 1 example, 1 tool call, the reasoning of 3 turns; collator.template can specify " +
				"another",
		},
		"reasoning in the last turn": {
			"{{ tools | tojson }}" + loop("{% if loop.last %}"+thinks+"{% endif %}"+calls+says),
			"the template of DIR omits the reasoning of 2 turns before the last question; collator.template can specify another",
		},
		"everything": {"{{ tools | tojson }}" + loop(thinks+calls+says), ""},
		"none":       {"", "the template of DIR can't be used: tokenizer has no chat template"},
		"broken":     {"{% for %}", "the template of DIR can't be used: "},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			files := map[string]string{"in.jsonl": strings.ReplaceAll(reasoned, "\n", " "), "tokenizer.json": "{}"}
			if c.template != "" {
				files["chat_template.jinja"] = c.template
			}
			for name, text := range files {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			t.Setenv("HF_HOME", t.TempDir())
			path := filepath.Join(dir, "in.jsonl")
			r, err := inspect.Look(context.Background(), inspect.Options{Paths: []string{path}, Tokenizers: true})
			if err != nil {
				t.Fatal(err)
			}
			var got string
			for _, l := range r.LeftOut {
				got += l.String()
			}
			want := strings.ReplaceAll(c.want, "DIR", dir)
			problem := strings.Contains(want, "can't be used")
			if got != want && !(problem && strings.HasPrefix(got, want)) {
				t.Error(cmp.Diff(want, got))
			}
			var screen strings.Builder
			if err := r.Screen(&screen); err != nil {
				t.Fatal(err)
			}
			yaml := string(r.YAML())
			if told := strings.Contains(screen.String(), "\n  template  "); told != (c.want != "") {
				t.Error(screen.String())
			}
			if !strings.Contains(yaml, strings.SplitN(want, "\n", 2)[0]) {
				t.Error(yaml)
			}
		})
	}
}
