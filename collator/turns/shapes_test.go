package turns

import (
	"slices"
	"testing"

	"github.com/nat-go/nat-go/ttc/pyvalue"

	"github.com/nat-go/nat-go/ttc/chat/template"
	"github.com/nat-go/nat-go/ttc/json"
)

// TestShapesOfTemplates finds turns in kinds of templates that at most one stock template here belongs to.
func TestShapesOfTemplates(t *testing.T) {
	const talk = `[{"role":"user","content":"q"},{"role":"assistant","content":"one"},{"role":"user","content":"r"},{"role":"assistant","content":""},{"role":"user","content":"s"},{"role":"assistant","content":"three"}]`
	const agent = `[{"role":"user","content":"q"},{"role":"assistant","content":"","tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":{"a":1}}}]},{"role":"tool","tool_call_id":"1","content":"x"},
		{"role":"assistant","content":"","tool_calls":[{"id":"1","type":"function","function":{"name":"g","arguments":{"b":2}}}]},{"role":"tool","tool_call_id":"1","content":"y"},{"role":"assistant","content":"done"}]`
	const noHeader = `{{ bos_token }}{% for m in messages %}{% if m.role == 'user' %}[INST]{{ m.content }}[/INST]{% elif m.role == 'tool' %}[RESULT]{{ m.content }}[/RESULT]` +
		`{% elif m.tool_calls %}[CALLS]{% for c in m.tool_calls %}{{ c.function | tojson }}{% endfor %}</s>{% else %}{{ m.content }}</s>{% endif %}{% endfor %}`
	const noMarkers = `{% for m in messages %}{% if m.role == 'user' %}User: {{ m.content }}{% else %}Assistant:{% if m.content %} {{ m.content }}{% endif %}{% endif %}{{ '\n\n' }}{% endfor %}{% if add_generation_prompt %}Assistant:{% endif %}`
	const bars = `{% for m in messages %}[|{{ m.role }}|]{{ m.content }}{% if m.role == 'assistant' %}[|end|]{% endif %}{{ '\n' }}{% endfor %}{% if add_generation_prompt %}[|assistant|]{% endif %}`
	// The first call with a result's id gives its function's name, even if a later call has the same id.
	const named = `{% for m in messages %}{% if m.role == 'tool' %}<|tool|>{% for n in messages if n.tool_calls and n.tool_calls[0].id == m.tool_call_id %}{{ n.tool_calls[0].function.name }} {% endfor %}{{ m.content }}<|end|>` +
		`{% else %}<|{{ m.role }}|>{{ m.content }}{% for c in m.tool_calls or [] %}{{ c.function.name + ' ' }}{{ c.function.arguments | tojson }}{% endfor %}<|end|>{% endif %}{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}`
	const kinds = `{% for m in messages %}<|{{ m.role }}|>{% if m.tool_calls %}<|act|>{{ m.tool_calls[0].function | tojson }}{% else %}<|text|>{{ m.content }}{% endif %}<|end|>{% endfor %}{% if add_generation_prompt %}<|assistant|><|text|>{% endif %}`
	// There is an empty turn after each call; what follows a result has no header (DeepSeek's R1).
	const behind = `{% for m in messages %}{% if m.role == 'user' %}<|user|>{{ m.content }}{% elif m.role == 'tool' %}` +
		`<|result|>{{ m.content }}<|shown|>{% elif loop.previtem.role == 'tool' %}{{ m.content }}<|end|>{% else %}` +
		`{% for c in m.tool_calls or [] %}<|bot|>{{ c.function | tojson }}<|end|>{% endfor %}<|bot|>{{ m.content }}<|end|>` +
		`{% endif %}{% endfor %}{% if add_generation_prompt and messages[-1].role != 'tool' %}<|bot|>{% endif %}`
	const silent = `[{"role":"user","content":"q"},{"role":"assistant","content":"","tool_calls":[{"id":"1",
		"type":"function","function":{"name":"f","arguments":{"a":1}}}]},
		{"role":"tool","tool_call_id":"1","content":""},{"role":"assistant","content":"done"}]`

	for _, c := range []struct {
		name, template, messages string
		turns                    []string
	}{
		{
			"an empty turn after a call, an empty result", behind, silent,
			[]string{`{"name": "f", "arguments": {"a": 1}}<|end|>`, "done<|end|>"},
		},
		{"no generation prompt", noHeader, talk, []string{"one</s>", "</s>", "three</s>"}},
		{"no generation prompt, calls", noHeader, agent, []string{`[CALLS]{"name": "f", "arguments": {"a": 1}}</s>`, `[CALLS]{"name": "g", "arguments": {"b": 2}}</s>`, "done</s>"}},
		{"no markers", noMarkers, talk, []string{" one\n\n", "\n\n", " three\n\n"}},
		{"bars in brackets", bars, talk, []string{"one[|end|]", "[|end|]", "three[|end|]"}},
		{"names looked up by id", named, agent, []string{`f {"a": 1}<|end|>`, `g {"b": 2}<|end|>`, "done<|end|>"}},
		{"a prompt for texts alone", kinds, agent, []string{`<|act|>{"name": "f", "arguments": {"a": 1}}<|end|>`, `<|act|>{"name": "g", "arguments": {"b": 2}}<|end|>`, "done<|end|>"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, _, res, found := findIn(t, c.name, c.template, c.messages)
			var got []string
			for _, f := range found {
				got = append(got, res.Text[f.Start:f.End])
			}
			if !slices.Equal(got, c.turns) {
				t.Errorf("%s:\n got %q\nwant %q\n%s", c.name, got, c.turns, res.Text)
			}
		})
	}
}

// TestStops ends the last turn where a template leaves it open, and finds the end of a turn that nothing ends.
func TestStops(t *testing.T) {
	const asked = `[{"role":"user","content":"q"},{"role":"assistant","content":"one"}]`
	const called = `[{"role":"user","content":"q"},{"role":"assistant","content":"","tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":{"a":1}}}]}]`
	calls := func(before, after string) string {
		return `{% if m.tool_calls %}` + before + `{% for c in m.tool_calls %}{{ c.function | tojson }}{% endfor %}` + after + `{% else %}{{ m.content }}`
	}
	// The next role's header is what the model stops at (GLM).
	next := `{% for m in messages %}<|{{ {'tool': 'observation'}.get(m.role, m.role) }}|>` + calls("", "") + `{% endif %}{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}`
	// A call has a marker at its end, an answer only once the user speaks (Apertus).
	late := `{% set ns = namespace(open=false) %}{% for m in messages %}{% if m.role == 'user' %}{% if ns.open %}<|end|>{% endif %}{% set ns.open = false %}<|user|>{{ m.content }}<|done|>` +
		`{% elif m.role == 'tool' %}[{{ m.content }}]{% else %}{% if not ns.open %}<|assistant|>{% endif %}{% set ns.open = true %}` + calls("<|call|>", "<|called|>") + `{% endif %}{% endif %}{% endfor %}` +
		`{% if add_generation_prompt %}<|assistant|>{% endif %}`
	// Nothing ends a call, and every conversation ends with an instruction (Command R+).
	bare := `{% for m in messages %}<|turn|><|{{ {'assistant': 'bot'}.get(m.role, 'other') }}|>` + calls("", "\n") + `<|over|>{% endif %}{% endfor %}` +
		`<|turn|><|system|>Act.<|over|>{% if add_generation_prompt %}<|turn|><|bot|>{% endif %}`
	// Every conversation ends with a generation prompt (Command R7B, firefunction).
	always := `{% for m in messages %}<|head|>{{ m.role }}<|head_end|>` + calls("", "") + `{% endif %}<|over|>{% endfor %}<|head|>assistant<|head_end|>`

	for _, c := range []struct{ name, template, messages, turn string }{
		{"next role, answer", next, asked, "one<|user|>"},
		{"next role, call", next, called, `{"name": "f", "arguments": {"a": 1}}<|observation|>`},
		{"late, answer", late, asked, "one<|end|>"},
		{"late, call", late, called, `<|call|>{"name": "f", "arguments": {"a": 1}}<|called|>`},
		{"bare, answer", bare, asked, "one<|over|>"},
		{"bare, call", bare, called, `{"name": "f", "arguments": {"a": 1}}<|over|>`},
		{"always, answer", always, asked, "one<|over|>"},
		{"always, call", always, called, `{"name": "f", "arguments": {"a": 1}}<|over|>`},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, conv, res, found := findIn(t, c.name, c.template, c.messages)
			r.Stop(conv, res, found)
			if got := res.Text[found[0].Start:found[0].End]; len(found) != 1 || got != c.turn ||
				!found[0].Terminated() {
				t.Errorf("%s:\n got %q\nwant %q\n%s", c.name, got, c.turn, res.Text)
			}
		})
	}
}

// TestSpecialTokensEndTurns checks that, given a tokenizer's special tokens, what only looks like one ends nothing, and
// one that doesn't look like one does (MiniMax).
func TestSpecialTokensEndTurns(t *testing.T) {
	const odd = `{% for m in messages %}]~b]{{ m.role }}{% if m.role == 'tool' %}<response>{{ m.content }}</response>{% else %}{{ m.content }}` +
		`{% for c in m.tool_calls or [] %}<call>{{ c.function.name }} {{ c.function.arguments | tojson }}</call>{% endfor %}{% endif %}[e~[{% endfor %}` +
		`{% if add_generation_prompt %}]~b]assistant{% endif %}`
	r, err := New(odd, Settings{Special: []string{"[e~[", "]~b]"}})
	if err != nil {
		t.Fatal(err)
	}
	if got := r.Terminators(); !slices.Equal(got, []string{"[e~["}) {
		t.Errorf("%q", got)
	}
}

// TestShortIDs checks that a template that accepts only nine-character ids says so.
func TestShortIDs(t *testing.T) {
	const loop = `{% for m in messages %}{% for c in m.tool_calls or [] %}{% if c.id | length != 9 %}{{ raise_exception('nine') }}{% endif %}{% endfor %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}`
	for source, want := range map[string]bool{loop: true, `{% for m in messages %}{{ m.content }}{% endfor %}`: false} {
		t.Run(source, func(t *testing.T) {
			r, err := New(source, Settings{})
			if err != nil || r.ShortIDs() != want {
				t.Errorf("got %v, %v, want %v", r.ShortIDs(), err, want)
			}
		})
	}
}

// findIn renders messages with a template and finds the turns.
func findIn(t *testing.T, name, text, messages string) (*Renderer, *Conversation, *template.Result, []Turn) {
	t.Helper()
	r, err := New(text, Settings{})
	if err != nil {
		t.Fatal(name, err)
	}
	parsed, err := template.ParseMessages(json.Raw(messages))
	if err != nil {
		t.Fatal(err)
	}
	conv := &Conversation{Messages: parsed}
	res, err := r.Render(conv)
	if err != nil {
		t.Fatal(name, err)
	}
	found, err := r.Find(conv, &res)
	if err != nil {
		t.Fatalf("%s: %v in\n%s", name, err, res.Text)
	}
	return r, conv, &res, found
}

// TestSilent switches thinking off where that changes the generation prompt, and only there: a switch that changes what
// the user says leaves turns where they are.
func TestSilent(t *testing.T) {
	const loop = `{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}`
	const prompt = loop + `{% if add_generation_prompt %}<|assistant|>`
	const closes = prompt + `{% if enable_thinking is defined and not enable_thinking %}<think></think>{% endif %}{% endif %}`
	const says = `{% if enable_thinking is defined and not enable_thinking %}/nothink{% endif %}` + prompt + `{% endif %}`
	off := &pyvalue.Dict{}
	off.SetStr("enable_thinking", pyvalue.False)
	for _, c := range []struct {
		name, source string
		vars         *pyvalue.Dict
		want         bool
	}{
		{"on", closes, nil, true},
		{"off already", closes, off, false},
		{"in what the user says", says, nil, false},
		{"no switch", prompt + `{% endif %}`, nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := New(c.source, Settings{Vars: c.vars})
			if err != nil {
				t.Fatal(err)
			}
			silent := r.Silent()
			if got := silent != nil; got != c.want {
				t.Fatalf("a renderer without thinking: got %v, want %v", got, c.want)
			}
			if silent == nil {
				return
			}
			if again := silent.Silent(); again != nil {
				t.Error("thinking can be switched off twice")
			}
			if got := silent.Prompt(false); got != "<|assistant|><think></think>" {
				t.Errorf("the prompt is %q", got)
			}
		})
	}
}

// TestSteady tells conversations whose turns a template is known to show as they were sampled from those in which each
// turn has to be checked.
func TestSteady(t *testing.T) {
	const user, asked = `{"role":"user","content":"q"}`, `{"role":"assistant","content":"one"}`
	const call = `{"id":"1","type":"function","function":{"name":"f","arguments":{"a":1}}}`
	shows := `{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% for c in m.tool_calls or [] %}` +
		`{{ c.function | tojson }}{% endfor %}<|end|>{% endfor %}` +
		`{% if add_generation_prompt %}<|assistant|>{% endif %}`
	forgets := `{% for m in messages %}<|{{ m.role }}|>{% if m.role != 'assistant' or loop.last %}{{ m.content }}` +
		`{% endif %}<|end|>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}`
	for _, c := range []struct {
		name, source, messages string
		want                   bool
	}{
		{"plain", shows, user + "," + asked, true},
		{"a system message", shows, `{"role":"system","content":"<s>"},` + user + "," + asked, true},
		{"a late system message", shows, user + `,{"role":"system","content":"s"},` + asked, false},
		{"a tag of the user", shows, `{"role":"user","content":"<q>"},` + asked, false},
		{"a tag of the agent", shows, user + `,{"role":"assistant","content":"<q>"}`, false},
		{"a tag of a tool", shows, user + `,{"role":"tool","content":"<q>"},` + asked, true},
		{"parts", shows, `{"role":"user","content":[{"type":"text","text":"q"}]},` + asked, false},
		{"reasoning", shows, user + `,{"role":"assistant","content":"one","reasoning":"r"}`, false},
		{"a call", shows, user + `,{"role":"assistant","content":"","tool_calls":[` + call + `]}`, true},
		{"two calls", shows, user + `,{"role":"assistant","content":"","tool_calls":[` + call + "," + call + `]}`, false},
		{"another role", shows, user + `,{"role":"critic","content":"c"},` + asked, false},
		{"a template that forgets", forgets, user + "," + asked, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, conv, _, _ := findIn(t, c.name, c.source, "["+c.messages+"]")
			if got := r.Steady(conv); got != c.want {
				t.Errorf("steady: got %v, want %v", got, c.want)
			}
		})
	}
}
