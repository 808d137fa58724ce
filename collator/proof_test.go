//go:build tokenizers

package collator

import (
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/internal/oracletest"

	"github.com/nat-go/nat-go/collator/tokenizer"
	"github.com/nat-go/nat-go/internal/tokenizertest"
	"github.com/nat-go/nat-go/ttc/chat"
)

// longAgo is ChatML that treats the history of long conversations specially, which short ones don't reveal.
const longAgo = `{% for m in messages %}<|im_start|>{{ m.role }}
{% if messages|length > 14 and m.role == 'assistant' and loop.index < 10 %}[old] {% endif %}{{ m.content }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}`

// TestDialectIsProvedOnTheConversation checks a template for which the findings from small conversations don't hold on
// a long one. Its turns are trained as they were sampled, one by one, not as the whole conversation shows them.
func TestDialectIsProvedOnTheConversation(t *testing.T) {
	var ms []chat.Message
	for i := range 9 {
		ms = append(ms, say(fmt.Sprintf("user: q%d", i)), say(fmt.Sprintf("assistant: a%d", i)))
	}
	cfg := toyConfig(t, "chatml.jinja")
	cfg.Template, cfg.MaxLength, cfg.BatchTokens = longAgo, 4000, 8000
	c := collate(t, cfg, one([]Item{demonstration("x", nodes(ms))}))
	want(t, len(c.rows), 9)
	for _, r := range c.rows {
		for _, text := range trainedTexts(t, &r.Sides[0]) {
			if strings.Contains(text, "old") {
				t.Errorf("trained, and never sampled: %q", text)
			}
		}
	}
	cfg.Rows = Trajectory
	c = collate(t, cfg, one([]Item{demonstration("x", nodes(ms))}))
	want(t, len(c.rows), 0)
	want(t, c.reasons("record"), string(DialectUnproven)+" 1")
}

// TestTokensThatStandForAnotherText checks that ids that don't decode to the turn they were cut out for are refused,
// and so is a turn that extends into another message.
func TestTokensThatStandForAnotherText(t *testing.T) {
	cfg := toyConfig(t, "chatml.jinja")
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for name, breakIt := range map[string]func(b *sideBuilder){
		"nothing": func(*sideBuilder) {},
		"the turn's ids": func(b *sideBuilder) {
			b.ids[tokenAt(b, b.v.turns[0].End)-3]++
		},
		"the prompt's ids": func(b *sideBuilder) {
			b.ids[tokenAt(b, b.v.turns[0].Start)-2]++
		},
		"the turn's end": func(b *sideBuilder) {
			b.v.turns[0].End = len(b.v.res.Text)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := &worker{Collator: c}
			ns := nodes(says("user: one", "assistant: two and three", "user: four"))
			m := &material{nodes: ns, trained: []bool{false, true, false}}
			if r := w.prepare(m); r != nil {
				t.Fatal(r)
			}
			v, r := w.look(c.render, m.conv)
			if r != nil {
				t.Fatal(r)
			}
			b := &sideBuilder{w: w, m: m, v: v}
			if r := b.text(0, len(v.res.Text), 0); r != nil {
				t.Fatal(r)
			}
			breakIt(b)
			if r := b.proveTurns(); (r == nil) != (name == "nothing") || r != nil && r.Reason != DialectUnproven {
				t.Errorf("%s broken: %+v", name, r)
			}
		})
	}
}

// tokenAt returns the first token that starts at a byte of the text, or after it.
func tokenAt(b *sideBuilder, at int) int {
	return sort.Search(len(b.offsets), func(i int) bool { return b.offsets[i].Start >= at })
}

// TestPromptThatMergesWithTheTurn checks that where the newline after an opened thought merges with the one that the
// template puts into the turn, both sides of a pair are encoded separately from their prompt.
func TestPromptThatMergesWithTheTurn(t *testing.T) {
	cfg := toyConfig(t, "chatml.jinja")
	cfg.Template = `{% for m in messages %}<|im_start|>{{ m.role }}
{% if m.role == 'assistant' %}<think>
{{ m.reasoning_content or '' }}
</think>
{% endif %}{{ m.content }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
<think>
{% endif %}`
	data, err := os.ReadFile(oracletest.Path(t, "chat", "tokens", "tokenizers", "qwen2_5.json"))
	if err == nil {
		data, err = tokenizertest.Family(data, cfg.Template)
	}
	if err == nil {
		cfg.Tokenizer, err = tokenizer.New(data)
	}
	if err != nil {
		t.Fatal(err)
	}
	c := collate(t, cfg, one([]Item{preference("x", says("user: q"), "yes", "no")}))
	want(t, c.reasons("record"), "")
	want(t, len(c.rows), 1)
}

// TestCallsThatEndTheirTurn checks that a template that shows a message's text after its calls, in a turn of its own,
// does not show a turn that a model wrote (DeepSeek's R1).
func TestCallsThatEndTheirTurn(t *testing.T) {
	cfg := toyConfig(t, "chatml.jinja")
	cfg.Template = `{% for m in messages %}{% if m.tool_calls %}<|im_start|>assistant
{% for c in m.tool_calls %}{{ c.function.name }} {{ c.function.arguments | tojson }}{% endfor %}<|im_end|>{% endif %}
{%- if m.content or not m.tool_calls %}<|im_start|>{{ m.role }}
{{ m.content }}<|im_end|>{% endif %}{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}`
	call := callMessage("I call.", "frob", `{"a": 1}`)
	ms := []chat.Message{say("user: q"), call, say("tool: done"), say("assistant: so")}
	c := collate(t, cfg, one([]Item{demonstration("x", nodes(ms))}))
	want(t, c.reasons("turn"), string(PartlyRendered)+" 1")
	want(t, len(c.rows), 1)
	want(t, trainedTexts(t, &c.rows[0].Sides[0]), []string{"so<|im_end|>"})
}

// TestComposedAccentsProve checks that a turn is trained whose tokens stand for its text with letters and accents
// composed, as many tokenizers have it, and that one isn't whose tokens stand for other letters.
func TestComposedAccentsProve(t *testing.T) {
	for name, c := range map[string]struct {
		normalizer map[string]any
		trained    int
	}{
		"composed": {map[string]any{"type": "NFC"}, 1},
		"unadorned": {map[string]any{"type": "Sequence", "normalizers": []any{
			map[string]any{"type": "NFD"}, map[string]any{"type": "StripAccents"},
		}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var file map[string]any
			if err := json.Unmarshal(tokenizertest.Toy(), &file); err != nil {
				t.Fatal(err)
			}
			file["normalizer"] = c.normalizer
			data, err := json.Marshal(file)
			if err != nil {
				t.Fatal(err)
			}
			cfg := toyConfig(t, "chatml.jinja")
			if cfg.Tokenizer, err = tokenizer.New(data); err != nil {
				t.Fatal(err)
			}
			const decomposed = "cafe\u0301 au lait"
			got := collate(t, cfg, one([]Item{demonstration("x", nodes(says("user: q", "assistant: "+decomposed)))}))
			if len(got.rows) != c.trained {
				t.Errorf("%d rows; left out: %s", len(got.rows), got.reasons("record"))
			}
		})
	}
}
