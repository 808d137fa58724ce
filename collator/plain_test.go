//go:build tokenizers

package collator

import (
	"strings"
	"testing"

	"github.com/nat-go/nat-go/collator/tokenizer"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/pyvalue"
)

// TestPlainTemplate checks what a tokenizer without a chat template makes of every kind of record: contents joined with
// newlines, in which the model's turns, their calls included, are trained up to the end of text.
func TestPlainTemplate(t *testing.T) {
	none := &tokenizer.Config{}
	text, err := TemplateText(none, "")
	if err != nil || text != PlainTemplate {
		t.Fatal(text, err)
	}
	several := &tokenizer.Config{Templates: []tokenizer.Template{{Name: "tool_use"}}}
	if _, err := TemplateText(several, ""); err == nil || !strings.Contains(err.Error(), "name one") {
		t.Error(err)
	}
	cfg := toyConfig(t, "chatml.jinja")
	cfg.Template, cfg.RenderedRollouts = PlainTemplate, true
	reward := 1.0
	text2 := sampledRollout(t, "text", "task", &reward, bugHunt)
	for i := range text2.Record.Messages.Nodes {
		text2.Record.Messages.Nodes[i].TokenIDs, text2.Record.Messages.Nodes[i].LogProbs = nil, nil
	}
	ms := []chat.Message{say("system: Be brief."), say("user: q"), callMessage("I call.", "frob", `{"a": 1}`), say("tool: done"), say("assistant: a")}
	const eos = "<|im_end|>"
	cfg.TemplateVars = &pyvalue.Dict{}
	cfg.TemplateVars.SetStr("eos_token", pyvalue.Str(eos))
	c := collate(t, cfg, one([]Item{
		demonstration("sft", nodes(ms)), preference("dpo", says("user: q"), "yes", "no"),
		distillation("sdpo", nodes(bugHunt), failedSite(1, 2, "Look again.")), text2,
	}))
	got := map[string]string{}
	for i := range c.rows {
		r := c.rows[i]
		got[r.Meta.Example] = decode(t, r.Sides[len(r.Sides)-1].IDs)
	}
	want(t, got["sft"], "Be brief.\nq\nI call.\n{\"name\": \"frob\", \"arguments\": {\"a\": 1}}"+eos+"\ndone\na"+eos)
	want(t, got["dpo"], "q\nno"+eos)
	for _, id := range []string{"sdpo", "text"} {
		if got[id] == "" {
			t.Errorf("%s made no row: %v", id, c.drops)
		}
	}
	want(t, strings.Contains(got["sdpo"], "Look again."), true)
}
