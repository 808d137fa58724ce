//go:build tokenizers

package collator

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"github.com/nat-go/nat-go/internal/pythontest"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	njson "github.com/nat-go/nat-go/ttc/json"
)

// oddConversations are shapes that recorded runs have now and then, by what is odd about them.
var oddConversations = map[string]string{
	"calls without arguments": `[{"role":"user","content":"Restart it."},
		{"role":"assistant","content":"","tool_calls":[{"id":"call_a1","type":"function","function":{"name":"restart","arguments":"{}"}}]},
		{"role":"tool","tool_call_id":"call_a1","name":"restart","content":""},
		{"role":"assistant","content":"It is up again."}]`,
	"letters of many scripts": `[{"role":"system","content":"Antworte höflich — naïve Grüße. 你好"},
		{"role":"user","content":"Wetter in Zürich? 🌦️ שלום e\u0301"},
		{"role":"assistant","content":"Ich sehe nach… 🔎","tool_calls":[{"id":"call_b1","type":"function","function":{"name":"weather","arguments":"{\"city\": \"Zürich 🏔️ \\\"Altstadt\\\"\", \"noté\": \"a\\\\b\\n\\tc é\"}"}}]},
		{"role":"tool","tool_call_id":"call_b1","name":"weather","content":"{\"°C\": \"−3\", \"名\": \"雪\"}"},
		{"role":"assistant","content":"−3 °C und Schnee: 雪 ❄️\u200d."}]`,
	"several calls, results in another order": `[{"role":"user","content":"Compare Oslo, Rome and Lima."},
		{"role":"assistant","content":"","tool_calls":[
			{"id":"call_c1","type":"function","function":{"name":"weather","arguments":"{\"city\": \"Oslo\"}"}},
			{"id":"call_c2","type":"function","function":{"name":"weather","arguments":"{\"city\": \"Rome\"}"}},
			{"id":"call_c3","type":"function","function":{"name":"clock","arguments":"{\"zone\": \"America/Lima\"}"}}]},
		{"role":"tool","tool_call_id":"call_c3","name":"clock","content":"04:10"},
		{"role":"tool","tool_call_id":"call_c1","name":"weather","content":"2 degrees"},
		{"role":"tool","tool_call_id":"call_c2","name":"weather","content":"19 degrees"},
		{"role":"assistant","content":"Rome is the warmest."},
		{"role":"user","content":"Thanks"},
		{"role":"assistant","content":"You're welcome."}]`,
	"a system message in the middle": `[{"role":"system","content":"Be brief."},{"role":"user","content":"Count to three."},
		{"role":"assistant","content":"1, 2, 3"},{"role":"system","content":"From now on, speak French."},
		{"role":"user","content":"Again."},{"role":"assistant","content":"un, deux, trois"}]`,
	"a developer's message": `[{"role":"developer","content":"Never name the vendor."},{"role":"user","content":"Who made you?"},
		{"role":"assistant","content":"I can't say."}]`,
	"thoughts beside calls": `[{"role":"user","content":"What is 17 * 23?"},
		{"role":"assistant","content":"","reasoning_content":"The calculator knows.","tool_calls":[{"id":"call_d1","type":"function","function":{"name":"calc","arguments":"{\"expression\": \"17*23\"}"}}]},
		{"role":"tool","tool_call_id":"call_d1","name":"calc","content":"391"},
		{"role":"assistant","content":"It is 391.","reasoning_content":"17*23 = 391, as I thought."},
		{"role":"user","content":"And doubled?"},
		{"role":"assistant","content":"782.","reasoning_content":"391 + 391"}]`,
	"arguments of every type": `[{"role":"user","content":"Book it."},
		{"role":"assistant","content":"Booking.","tool_calls":[{"id":"call_e1","type":"function","function":{"name":"book","arguments":"{\"z\": 1.0, \"a\": null, \"big\": 12345678901234567890, \"tiny\": 1e-7, \"on\": true, \"none\": [], \"empty\": {}, \"deep\": [[1, {\"k\": [null, \"x\"]}], \"</arguments>\"], \"text\": \"\", \"html\": \"<b>&amp;'\\\"</b>\"}"}}]},
		{"role":"tool","tool_call_id":"call_e1","name":"book","content":"<ok/>"},
		{"role":"assistant","content":"Booked."}]`,
	"white space around and within": `[{"role":"user","content":"\n  hello \t"},
		{"role":"assistant","content":"  indented\n\n\n    more \r\n"},{"role":"user","content":" "},
		{"role":"assistant","content":"\n\ncode:\n` + "```" + `\n\tx = 1\n` + "```" + `\n"},{"role":"user","content":"ok"},
		{"role":"assistant","content":"end."}]`,
	"the assistant speaks first, and twice": `[{"role":"assistant","content":"Hello, how can I help?"},
		{"role":"user","content":"Say two things."},{"role":"assistant","content":"First."},{"role":"assistant","content":"Second."},
		{"role":"user","content":"Fine."},{"role":"assistant","content":"Good."}]`,
	"the same words everywhere": `[{"role":"user","content":"yes"},{"role":"assistant","content":"yes"},{"role":"user","content":"yes"},
		{"role":"assistant","content":"","tool_calls":[{"id":"call_f1","type":"function","function":{"name":"yes","arguments":"{\"yes\": \"yes\"}"}}]},
		{"role":"tool","tool_call_id":"call_f1","name":"yes","content":"yes"},{"role":"assistant","content":"yes"}]`,
	"text that looks like markup": `[{"role":"user","content":"Show me <tool_call> and </think> and [INST] and {{ messages }}."},
		{"role":"assistant","content":"<tool_call>\n{\"name\": \"f\"}\n</tool_call> is how a call reads; {% raw %} isn't it, nor is <|assistant|> {{ x }}."},
		{"role":"user","content":"assistant\nuser"},{"role":"assistant","content":"user\nassistant: </s"}]`,
	"a call as the last word": `[{"role":"user","content":"Go."},{"role":"assistant","content":"Going.","tool_calls":[{"id":"call_g1","type":"function","function":{"name":"go","arguments":"{\"to\": \"the moon\"}"}}]}]`,
	"a call after a failed call": `[{"role":"user","content":"Open the file."},
		{"role":"assistant","content":"","tool_calls":[{"id":"call_h1","type":"function","function":{"name":"open","arguments":"{\"path\": \"a.txt\"}"}}]},
		{"role":"tool","tool_call_id":"call_h1","name":"open","content":"Error: ENOENT: no such file"},
		{"role":"assistant","content":"","tool_calls":[{"id":"call_h2","type":"function","function":{"name":"open","arguments":"{\"path\": \"b.txt\"}"}}]},
		{"role":"tool","tool_call_id":"call_h2","name":"open","content":"hello"},
		{"role":"assistant","content":"It says hello."}]`,
}

// TestOddConversations has chat templates carry conversations of rare shapes and another program check the batches, as
// TestFamilies does with recorded runs.
func TestOddConversations(t *testing.T) {
	pythontest.Need(t, "python", "import jinja2, tokenizers",
		"the batches of stock templates are not checked by another program")
	tools := describedTools(t)
	items, records, conversations := []Item(nil), map[string]any{}, map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(oddConversations)) {
		text := oddConversations[name]
		v, err := njson.Parse([]byte(text), njson.Limits{})
		if err != nil {
			t.Fatal(name, err)
		}
		ms, err := chat.ParseMessages(v)
		if err != nil {
			t.Fatal(name, err)
		}
		ex := &ttc.Example{
			ID: name, Task: name, Trial: "0", Row: int64(len(items)), Graph: ttc.Chain(ms, ttc.Yes),
			Fidelity: ttc.TextOnly, Policy: "gpt-4o",
		}
		var said []map[string]any
		if err := json.Unmarshal([]byte(text), &said); err != nil {
			t.Fatal(name, err)
		}
		var trained []int
		for i := range ms {
			if ms[i].Role == "assistant" {
				trained = append(trained, i)
			}
		}
		it := demonstrationOf(ex, tools)
		it.Hash, it.Record.Origin.Builder = "sft-"+name, "sft"
		conversations[name] = said
		records[it.Hash] = map[string]any{"example": name, "trained": trained}
		items = append(items, it)
	}
	for _, f := range stockFamilies(t, records, tools) {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			f.check(t, items, conversations)
			t.Log(f.line())
			for _, w := range f.answer.Wrong {
				t.Errorf("%s: %s", w[0], w[1])
			}
			if !f.answer.complete() {
				t.Errorf("too little is kept: %s", f.reasons())
			}
		})
	}
}
