package turns

import (
	"slices"
	"testing"

	"github.com/nat-go/nat-go/ttc/chat/template"
	"github.com/nat-go/nat-go/ttc/json"
)

// TestShapesOfTemplates finds turns in templates of kinds that no stock template here has, or only one.
func TestShapesOfTemplates(t *testing.T) {
	const talk = `[{"role":"user","content":"q"},{"role":"assistant","content":"one"},{"role":"user","content":"r"},{"role":"assistant","content":""},{"role":"user","content":"s"},{"role":"assistant","content":"three"}]`
	const agent = `[{"role":"user","content":"q"},{"role":"assistant","content":"","tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":{"a":1}}}]},{"role":"tool","tool_call_id":"1","content":"x"},
		{"role":"assistant","content":"","tool_calls":[{"id":"1","type":"function","function":{"name":"g","arguments":{"b":2}}}]},{"role":"tool","tool_call_id":"1","content":"y"},{"role":"assistant","content":"done"}]`
	const noHeader = `{{ bos_token }}{% for m in messages %}{% if m.role == 'user' %}[INST]{{ m.content }}[/INST]{% elif m.role == 'tool' %}[RESULT]{{ m.content }}[/RESULT]` +
		`{% elif m.tool_calls %}[CALLS]{% for c in m.tool_calls %}{{ c.function | tojson }}{% endfor %}</s>{% else %}{{ m.content }}</s>{% endif %}{% endfor %}`
	const noMarkers = `{% for m in messages %}{% if m.role == 'user' %}User: {{ m.content }}{% else %}Assistant:{% if m.content %} {{ m.content }}{% endif %}{% endif %}{{ '\n\n' }}{% endfor %}{% if add_generation_prompt %}Assistant:{% endif %}`
	const bars = `{% for m in messages %}[|{{ m.role }}|]{{ m.content }}{% if m.role == 'assistant' %}[|end|]{% endif %}{{ '\n' }}{% endfor %}{% if add_generation_prompt %}[|assistant|]{% endif %}`
	// The first call with a result's id names its function, which may be a later one's.
	const named = `{% for m in messages %}{% if m.role == 'tool' %}<|tool|>{% for n in messages if n.tool_calls and n.tool_calls[0].id == m.tool_call_id %}{{ n.tool_calls[0].function.name }} {% endfor %}{{ m.content }}<|end|>` +
		`{% else %}<|{{ m.role }}|>{{ m.content }}{% for c in m.tool_calls or [] %}{{ c.function.name + ' ' }}{{ c.function.arguments | tojson }}{% endfor %}<|end|>{% endif %}{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}`
	const kinds = `{% for m in messages %}<|{{ m.role }}|>{% if m.tool_calls %}<|act|>{{ m.tool_calls[0].function | tojson }}{% else %}<|text|>{{ m.content }}{% endif %}<|end|>{% endfor %}{% if add_generation_prompt %}<|assistant|><|text|>{% endif %}`

	for _, c := range []struct {
		name, template, messages string
		turns                    []string
	}{
		{"no generation prompt", noHeader, talk, []string{"one</s>", "</s>", "three</s>"}},
		{"no generation prompt, calls", noHeader, agent, []string{`[CALLS]{"name": "f", "arguments": {"a": 1}}</s>`, `[CALLS]{"name": "g", "arguments": {"b": 2}}</s>`, "done</s>"}},
		{"no markers", noMarkers, talk, []string{" one\n\n", "\n\n", " three\n\n"}},
		{"bars in brackets", bars, talk, []string{"one[|end|]", "[|end|]", "three[|end|]"}},
		{"names looked up by id", named, agent, []string{`f {"a": 1}<|end|>`, `g {"b": 2}<|end|>`, "done<|end|>"}},
		{"a prompt for texts alone", kinds, agent, []string{`<|act|>{"name": "f", "arguments": {"a": 1}}<|end|>`, `<|act|>{"name": "g", "arguments": {"b": 2}}<|end|>`, "done<|end|>"}},
	} {
		r, err := New(c.template, Settings{})
		if err != nil {
			t.Fatal(c.name, err)
		}
		messages, err := template.ParseMessages(json.Raw(c.messages))
		if err != nil {
			t.Fatal(err)
		}
		conv := &Conversation{Messages: messages}
		res, err := r.Render(conv)
		if err != nil {
			t.Fatal(c.name, err)
		}
		found, err := r.Find(conv, &res)
		if err != nil {
			t.Errorf("%s: %v in\n%s", c.name, err, res.Text)
			continue
		}
		var got []string
		for _, f := range found {
			got = append(got, res.Text[f.Start:f.End])
		}
		if !slices.Equal(got, c.turns) {
			t.Errorf("%s:\n got %q\nwant %q\n%s", c.name, got, c.turns, res.Text)
		}
	}
}
