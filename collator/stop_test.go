//go:build tokenizers

package collator

import (
	"context"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// TestTurnsThatNothingEnds checks that where a template writes nothing that a model stops at, demonstrations are kept
// and counted, preferences and hints are refused, and verification flags the channel.
func TestTurnsThatNothingEnds(t *testing.T) {
	cfg := toyConfig(t, "chatml.jinja")
	cfg.Template = `{% for m in messages %}{{ m.role }}: {{ m.content }}
{% for c in m.tool_calls or [] %}{{ c.function.name }} {{ c.function.arguments | tojson }}
{% endfor %}{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}`
	cfg.MaxLength, cfg.BatchTokens = 4000, 8000
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	items := []Item{
		demonstration("sft", nodes(says("user: q", "assistant: a"))), preference("dpo", says("user: q"), "yes", "no"),
		distillation("sdpo", nodes(bugHunt), failedSite(1, 2, "Look again.")),
	}
	reasons, dir := map[string]ledger.Reason{}, t.TempDir()
	res, err := c.Collate(context.Background(), one(items), dir, t.TempDir(), func(d ledger.Drop) {
		reasons[d.Unit+" "+d.Example] = d.Reason
	})
	if err != nil {
		t.Fatal(err)
	}
	want(t, res.Stats.Open, int64(1))
	want(t, res.Counts["sft/train"].Rows, int64(1))
	want(t, reasons["record dpo"], NoStopToken)
	want(t, reasons["site sdpo"], NoStopToken)
	report, err := Verify(dir, cfg.Tokenizer)
	if err != nil || len(report.Problems) != 1 || !strings.Contains(report.Problems[0].Text, "never stops") {
		t.Errorf("%v %+v", err, report)
	}
}

// TestWhatTheTemplateLeavesOut counts reasoning and calls that appear in no row.
func TestWhatTheTemplateLeavesOut(t *testing.T) {
	cfg := toyConfig(t, "chatml.jinja")
	cfg.Template = `{% for m in messages %}<|im_start|>{{ m.role }}
{{ m.content }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}`
	ms := []chat.Message{say("user: q"), callMessage("I call.", "frob", `{"a": 1}`), say("tool: done"), reasoned("why", "so")}
	c := collate(t, cfg, one([]Item{demonstration("x", nodes(ms))}))
	want(t, c.Stats.LeftOut, LeftOut{Reasoning: 1, Calls: 1})
	want(t, c.reasons("turn"), "partly_rendered 1")
}

// TestControlRunKeepsTheHintedRows checks that a control run leaves out the hints, and also the rows that would have
// been too long with them.
func TestControlRunKeepsTheHintedRows(t *testing.T) {
	it := distillation("x", nodes(bugHunt), failedSite(1, 2, strings.Repeat("Mind the main file. ", 30)))
	cfg := toyConfig(t, "chatml.jinja")
	cfg.MaxLength, cfg.BatchTokens = 400, 4000
	given := collate(t, cfg, one([]Item{it}))
	cfg.NullHints = true
	none := collate(t, cfg, one([]Item{it}))
	want(t, len(none.rows), len(given.rows))
	want(t, none.reasons("site"), given.reasons("site"))
	want(t, given.reasons("site"), "too_long 1")
}
