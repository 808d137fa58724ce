//go:build tokenizers

package collator

import (
	"slices"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/collator/batch"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
)

// hoisting prints every system message at the front, wherever it stands, as DeepSeek's templates do. It refuses a
// question after a result if strict is set, and prints results in capitals, so that no hint can be put into them.
func hoisting(strict bool) string {
	s := `{%- for m in messages if m.role == 'system' %}{{ '<|im_start|>' + m.content + '\n\n' }}{% endfor %}
{%- for m in messages if m.role != 'system' %}
    {%- if m.role == 'user' and strict and not loop.first %}{{ raise_exception('one question') }}{% endif %}
    {{- '<|im_start|>' + m.role + '\n' + (m.content | upper if strict and m.role == 'tool' else m.content) }}
    {%- for c in m.tool_calls or [] %}{{ '<tool_call>' + c.function.name + ' ' + c.function.arguments | tojson + '</tool_call>' }}{% endfor %}
    {{- '<|im_end|>\n' }}
{%- endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}`
	if strict {
		return "{%- set strict = true %}" + s
	}
	return s
}

// booking is a rollout of three failed calls and a good one.
func booking() Item {
	ms := says("system: S.", "user: Q?")
	for i, result := range []string{"Error: flight not available", "Error: payment amount wrong", "booked"} {
		ms = append(ms, callMessage("", "book", `{"a": `+string(rune('1'+i))+`}`), say("tool: "+result))
	}
	ms = append(ms, say("assistant: Done."))
	return distillation("x", nodes(ms), failedSite(2, 3, "hint one"), failedSite(4, 5, "hint two"), nextSite(4, 5,
		"hint three"))
}

// TestHintsThatTheTemplateMoves checks that a hint stands directly before its turn even if the template moves system
// messages to the front, so that no turn sees the hint of a later one, and that one that no place holds is refused and
// counted.
func TestHintsThatTheTemplateMoves(t *testing.T) {
	for _, cumulative := range []bool{false, true} {
		cfg := toyConfig(t, "chatml.jinja")
		cfg.Template, cfg.Cumulative = hoisting(false), cumulative
		c := collate(t, cfg, one([]Item{booking()}))
		want(t, c.reasons("site"), "")
		r := c.rows[0]
		for i, s := range r.Meta.Sites {
			want(t, s.Mode, modeUser)
			teacher := decode(t, r.Sides[1+s.Teacher].IDs)
			hint := "<|im_start|>user\n" + []string{"hint one", "hint two", "hint three"}[i] + "<|im_end|>\n"
			turn := `<|im_start|>assistant` + "\n" + `<tool_call>book {"a": ` + []string{"1", "2", "3"}[i]
			if strings.Count(teacher, hint+turn) != 1 {
				t.Errorf("cumulative %v: hint %d is not directly before its turn: %q", cumulative, i, teacher)
			}
		}
		if rep, err := Verify(c.dir, toy(t)); err != nil || len(rep.Problems) > 0 {
			t.Error(rep, err)
		}
	}
	cfg := toyConfig(t, "chatml.jinja")
	cfg.Template = hoisting(true)
	c := collate(t, cfg, one([]Item{booking()}))
	want(t, c.reasons("site"), "hint_unplaceable 2") // the first goes into the question
	want(t, c.reasons("turn"), "hint_unplaceable 2")
	want(t, len(c.rows), 1)
	want(t, c.rows[0].Meta.Sites[0].Mode, modeAppend)
	for _, d := range c.drops {
		if d.Unit == "site" && !strings.Contains(d.Detail, "system: the template puts the hint before the text of message ") {
			t.Error(d.Detail)
		}
	}
}

// TestVerifyFindsMovedHints checks that verification reports a hint that is not directly before its target.
func TestVerifyFindsMovedHints(t *testing.T) {
	c := run(t, "chatml.jinja", booking())
	check := func(damage func(r *batch.Row)) (problems int) {
		v := verifier{report: &Report{}}
		r := *c.rows[0]
		r.Meta.Sites = append([]batch.RowSite(nil), r.Meta.Sites...)
		damage(&r)
		v.checkHints(&batch.Line{}, 0, &r)
		return len(v.report.Problems)
	}
	want(t, check(func(*batch.Row) {}), 0)
	want(t, check(func(r *batch.Row) { r.Meta.Sites[1].At = 1 }), 1)
	want(t, check(func(r *batch.Row) { r.Meta.Sites[1].At, r.Meta.Sites[1].Mode = 1, modeAppend }), 1)
	// A system message before the result is not where it was put; a hint within the result may be.
	result := func(r *batch.Row) (at int32) {
		for _, o := range r.Meta.Proof[0].Owners {
			if o.Message == 3 {
				return at
			}
			at = int32(o.End)
		}
		return 0
	}
	want(t, check(func(r *batch.Row) { r.Meta.Sites[1].At = result(r) }), 1)
	want(t, check(func(r *batch.Row) { r.Meta.Sites[1].At, r.Meta.Sites[1].Mode = result(r), modePrepend }), 0)
}

// TestTargetsSeeNoLaterHint checks that rows in which hints add up are refused if a target comes after the hint of a
// later one.
func TestTargetsSeeNoLaterHint(t *testing.T) {
	cfg := toyConfig(t, "chatml.jinja")
	cfg.Cumulative = true
	r := collate(t, cfg, one([]Item{booking()})).rows[0]
	if err := r.Splices(); err != nil {
		t.Fatal(err)
	}
	// Both hints before the first target: the teacher is still the student with hints in it.
	first, second := &r.Meta.Sites[0], &r.Meta.Sites[1]
	student, teacher := r.Sides[0].IDs, r.Sides[1].IDs
	was := second.At + first.Hint
	hint := append([]int32(nil), teacher[was:was+second.Hint]...)
	moved := append(append([]int32(nil), teacher[:first.At+first.Hint]...), hint...)
	moved = append(append(moved, student[first.At:second.At]...), teacher[was+second.Hint:]...)
	r.Sides[1].IDs, second.At = moved, first.At
	err := r.Splices()
	if err == nil || !strings.Contains(err.Error(), "the target of site 0 sees the hint of site 1") {
		t.Error(err)
	}
}

// split shows the text beside a call as a turn of its own, and opens a thought before texts alone, as Nemotron Nano 2
// does.
const split = `{%- for m in messages %}
    {%- if m.role == 'assistant' %}
        {%- if m.content %}{{ '<|im_start|>assistant\n' + ('<think>\n' if loop.last else '') + m.content + '<|im_end|>\n' }}{% endif %}
        {%- if m.tool_calls %}{{ '<|im_start|>assistant\n' }}{% for c in m.tool_calls %}{{ '<tool_call>' + c.function.name + ' ' + c.function.arguments | tojson + '</tool_call>' }}{% endfor %}{{ '<|im_end|>\n' }}{% endif %}
    {%- else %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endif %}
{%- endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n<think>\n' }}{% endif %}`

// TestTurnsThatATemplateSplits checks that nothing of a turn is trained if the template shows it as two, because
// sampling stops after the first, and that other turns are.
func TestTurnsThatATemplateSplits(t *testing.T) {
	cfg := toyConfig(t, "chatml.jinja")
	cfg.Template = split
	ms := append(says("user: q"), callMessage("I call.", "frob", `{"a": 1}`), say("tool: done"), say("assistant: so"))
	for _, rows := range []RowUnit{Auto, Trajectory, PerTurn} {
		cfg.Rows = rows
		c := collate(t, cfg, one([]Item{demonstration("x", nodes(ms))}))
		want(t, c.reasons("turn"), "partly_rendered 1")
		for _, r := range c.rows {
			want(t, trainedTexts(t, &r.Sides[0]), []string{"so<|im_end|>"})
		}
	}
}

// TestShortenedIDsAreFlagged checks that rows with shortened call ids say so, that turns before them and rows of a
// template without a limit don't, and that the record keeps its ids.
func TestShortenedIDsAreFlagged(t *testing.T) {
	cfg := toyConfig(t, "chatml.jinja")
	cfg.Template = `{% for m in messages %}{% for c in m.tool_calls or [] %}{% if c.id | length != 9 %}{{ raise_exception('nine') }}{% endif %}{% endfor %}` +
		`{{ '<|im_start|>' + m.role + '\n' + (m.content or '') }}{% for c in m.tool_calls or [] %}{{ '<tool_call>' + c.function.name + ' ' + c.function.arguments | tojson + '</tool_call>' }}{% endfor %}{{ '<|im_end|>\n' }}{% endfor %}` +
		`{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}`
	ms := append(says("user: q", "assistant: a", "user: r"), callMessage("", "frob", `{"a": 1}`), say("tool: done"), say("assistant: so"))
	ms[3].ToolCalls[0].ID = "call_" + strings.Repeat("x", 24)
	ms[4].ToolCallID = ms[3].ToolCalls[0].ID
	flagged := func(cfg Config) (n int) {
		for _, r := range collate(t, cfg, one([]Item{demonstration("x", nodes(ms))})).rows {
			if slices.Contains(r.Meta.Flags, "call_ids") {
				n++
			}
		}
		return n
	}
	for rows, n := range map[RowUnit]int{Trajectory: 1, PerTurn: 2} {
		cfg.Rows = rows
		want(t, flagged(cfg), n)
	}
	want(t, ms[3].ToolCalls[0].ID, ms[4].ToolCallID)
	cfg = toyConfig(t, "chatml.jinja")
	cfg.Rows = PerTurn
	want(t, flagged(cfg), 0)
}

// TestSidesOfDifferentPrompts checks that a pair is refused if the template opens a thought before one side only.
func TestSidesOfDifferentPrompts(t *testing.T) {
	pair := func(chosen, rejected chat.Message) Item {
		p := preference("x", says("user: q"), "", "")
		p.Record.Chosen = builders.Passage{Nodes: ttc.Chain([]chat.Message{chosen}, ttc.Yes).Nodes}
		p.Record.Rejected = builders.Passage{Nodes: ttc.Chain([]chat.Message{rejected}, ttc.Yes).Nodes}
		return p
	}
	call, text := callMessage("", "frob", `{"a": 1}`), say("assistant: no")
	cfg := toyConfig(t, "chatml.jinja")
	cfg.Template = split
	for _, c := range []struct {
		chosen, rejected chat.Message
		reason           string
	}{
		{call, text, "generation_prompt_mismatch 1"},
		{text, call, "generation_prompt_mismatch 1"},
		{call, callMessage("", "frob", `{"a": 2}`), ""},
		{say("assistant: yes"), text, ""},
	} {
		got := collate(t, cfg, one([]Item{pair(c.chosen, c.rejected)}))
		want(t, got.reasons("record"), c.reason)
		for _, r := range got.rows {
			if a, b, same := r.Prompts(); !same {
				t.Errorf("%d and %d", a, b)
			}
		}
	}
}

// lastOnly shows an empty thought before the last turn alone, as Qwen3 does.
const lastOnly = `{%- for m in messages %}{{ '<|im_start|>' + m.role + '\n' }}
    {%- if m.role == 'assistant' and loop.last %}{{ '<think>\n\n</think>\n\n' }}{% endif %}{{ m.content or '' }}
    {%- for c in m.tool_calls or [] %}{{ '<tool_call>' + c.function.name + ' ' + c.function.arguments | tojson + '</tool_call>' }}{% endfor %}
    {{- '<|im_end|>\n' }}
{%- endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% if enable_thinking is defined and not enable_thinking %}{{ '<think>\n\n</think>\n\n' }}{% endif %}{% endif %}`

// TestAnswersOfSeveralTurns checks that both sides of a pair begin after the same generation prompt, whatever the
// template makes of turns that others follow.
func TestAnswersOfSeveralTurns(t *testing.T) {
	long := []chat.Message{callMessage("", "frob", `{"a": 1}`), say("tool: done"), say("assistant: so")}
	short := says("assistant: no")
	cfg := toyConfig(t, "chatml.jinja")
	cfg.Template = lastOnly
	for _, c := range []struct{ chosen, rejected []chat.Message }{{long, short}, {short, long}, {long, long[:1]}} {
		p := preference("x", says("user: q"), "", "")
		p.Record.Chosen = builders.Passage{Nodes: ttc.Chain(c.chosen, ttc.Yes).Nodes}
		p.Record.Rejected = builders.Passage{Nodes: ttc.Chain(c.rejected, ttc.Yes).Nodes}
		got := collate(t, cfg, one([]Item{p}))
		want(t, got.reasons("record"), "")
		if len(got.rows) != 1 {
			continue
		}
		r := got.rows[0]
		want(t, slices.Contains(r.Meta.Flags, keptFiller), true)
		if a, b, same := r.Prompts(); !same {
			t.Errorf("%d and %d", a, b)
		}
		for k := range r.Sides {
			text := decode(t, r.Sides[k].IDs)
			want(t, strings.Count(text, "<think>\n\n</think>\n\n"), strings.Count(text, "<|im_start|>assistant\n"))
			want(t, strings.Contains(strings.Join(trainedTexts(t, &r.Sides[k]), ""), "think"), false)
		}
	}
}

// TestVerifyComparesPrompts checks that verification reports a pair whose sides continue different prompts.
func TestVerifyComparesPrompts(t *testing.T) {
	c := run(t, "chatml.jinja", preference("x", says("user: q"), "yes", "no"))
	r := *c.rows[0]
	v := verifier{report: &Report{}}
	v.checkPair(&batch.Line{}, 0, &r)
	want(t, len(v.report.Problems), 0)
	// The first token of the rejected answer becomes the template's.
	s, p := &r.Sides[1], &r.Meta.Proof[1]
	at := s.Trained[0].Start
	s.Trained = []chat.Span{{Start: at + 1, End: s.Trained[0].End}}
	for i := range p.Owners {
		if p.Owners[i].Why == batch.InLoss {
			p.Owners = append(p.Owners[:i:i], append(batch.Owners{{End: at + 1, Message: -1, Why: batch.Markup}},
				p.Owners[i:]...)...)
			break
		}
	}
	v.checkPair(&batch.Line{}, 0, &r)
	if len(v.report.Problems) != 1 || !strings.Contains(v.report.Problems[0].Text, "continue different prompts") {
		t.Error(v.report.Problems)
	}
}
