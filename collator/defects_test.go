//go:build tokenizers

package collator

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/collator/batch"
	"github.com/nat-go/nat-go/internal/tokenizertest"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// The tests here are named after the defects of the reference collator, and show the correct behaviour for each.

func run(t *testing.T, template string, items ...Item) *collated {
	t.Helper()
	return collate(t, toyConfig(t, template), one(items))
}

var bugHunt = append(says("user: Fix the bug in main"),
	callMessage("", "frob", `{"file": "main"}`), say("tool: no such tool frob"), callMessage("I see.", "edit", `{"file": "main"}`),
	say("tool: done"), say("assistant: Fixed!"))

// TestD1MaskLiesOnTheRender checks that the mask covers the tokens of the turns in the render, wherever the template
// puts them.
func TestD1MaskLiesOnTheRender(t *testing.T) {
	c := run(t, "chatml.jinja", demonstration("x", nodes(bugHunt)))
	want(t, strings.Join(trainedTexts(t, &c.rows[0].Sides[0]), "|"),
		`<tool_call>frob {"file": "main"}</tool_call><|im_end|>|I see.<tool_call>edit {"file": "main"}</tool_call><|im_end|>|Fixed!<|im_end|>`)
}

// TestD2FirstTokenIsTrained checks that labels are token-aligned, labels[t] = input_ids[t], from a turn's first token
// to its terminator.
func TestD2FirstTokenIsTrained(t *testing.T) {
	c := run(t, "chatml.jinja", demonstration("x", nodes(says("user: q", "assistant: answer"))))
	x := tensorsOf(t, c, 0)
	ids, labels := ints(t, x["input_ids"]), ints(t, x["labels"])
	first := slices.IndexFunc(labels, func(l int64) bool { return l != batch.Ignored })
	want(t, decode(t, []int32{int32(labels[first])}), "a")
	want(t, decode(t, []int32{int32(ids[first-1])}), "\n")
	for i, l := range labels {
		if l != batch.Ignored && l != ids[i] {
			t.Errorf("label %d is %d, the token %d", i, l, ids[i])
		}
	}
}

// TestD8CallsAreTrained checks that a turn consisting only of a call is present and in the loss, and that tools are in
// the prompt.
func TestD8CallsAreTrained(t *testing.T) {
	it := demonstration("x", nodes(bugHunt))
	it.Record.Origin.Tools = []chat.Tool{{Name: "frob", Raw: []byte(`{"type":"function","function":{"name":"frob"}}`)}}
	it.Record.Record.(*builders.Demonstration).Train = builders.TrainCalls
	c := run(t, "chatml.jinja", it)
	s := &c.rows[0].Sides[0]
	want(t, len(trainedTexts(t, s)), 2)
	want(t, strings.Contains(decode(t, s.IDs), `tools`+"\n"+`{"type": "function"`), true)
	want(t, c.rows[0].Meta.Args, "exact")
}

// TestD9MasksAndLabelsAreApart checks that masks are 0/1, labels are ids or -100, and no tensor is both.
func TestD9MasksAndLabelsAreApart(t *testing.T) {
	r := 1.0
	c := run(t, "chatml.jinja", demonstration("a", nodes(says("user: q", "assistant: a"))),
		demonstration("b", nodes(says("user: question", "assistant: answer"))),
		sampledRollout(t, "r", "", &r, says("user: q", "assistant: a")))
	for i := range c.lines {
		for name, x := range tensorsOf(t, c, i) {
			if !strings.HasSuffix(name, "_mask") && !strings.HasSuffix(name, "labels") {
				continue
			}
			for _, v := range ints(t, x) {
				if strings.HasSuffix(name, "_mask") && v != 0 && v != 1 ||
					strings.HasSuffix(name, "labels") && v < 0 && v != batch.Ignored {
					t.Errorf("%s holds %d", name, v)
				}
			}
		}
	}
}

// TestD10MasksComeFromLengths checks that a "!", whose id 0 is also the pad id, is attended to and trained like any
// other token.
func TestD10MasksComeFromLengths(t *testing.T) {
	c := run(t, "chatml.jinja", demonstration("a", nodes(says("user: hi!", "assistant: Done!"))),
		demonstration("b", nodes(says("user: a longer question!", "assistant: !"))))
	want(t, c.lines[0].PadID, 0)
	x := tensorsOf(t, c, 0)
	ids, mask, labels := ints(t, x["input_ids"]), ints(t, x["attention_mask"]), ints(t, x["labels"])
	width := x["input_ids"].Shape[1]
	marks, trainedMarks := 0, 0
	for i, id := range ids {
		if id == 0 && mask[i] == 1 {
			marks++
		}
		if labels[i] == 0 {
			trainedMarks++
		}
	}
	want(t, []int{marks, trainedMarks}, []int{4, 2})
	for r, row := range c.rows {
		n := len(row.Sides[0].IDs)
		want(t, sum(mask[r*width:(r+1)*width]), int64(n))
	}
}

func sum(v []int64) (n int64) {
	for _, x := range v {
		n += x
	}
	return n
}

// TestD11CutsKeepWhatIsTrained checks that a row that is too long loses whole turns from its middle, never a call
// without its result, and the same ones on both sides of a pair, and that what can't be cut is dropped and counted.
func TestD11CutsKeepWhatIsTrained(t *testing.T) {
	filler := strings.Repeat("words ", 30)
	long := append(says("system: rules", "user: task"), callMessage(filler, "f", `{"a": 1}`), say("tool: "+filler),
		callMessage(filler, "g", `{"a": 2}`), say("tool: "+filler), callMessage("", "h", `{"a": 3}`), say("tool: short"))
	cfg := toyConfig(t, "chatml.jinja")
	cfg.MaxLength = 700
	c := collate(t, cfg, one([]Item{
		demonstration("sft", nodes(append(slices.Clone(long), say("assistant: The end.")))),
		preference("dpo", long, "Good.", "Bad."),
		preference("no", says("user: "+strings.Repeat(filler, 9)), "Good.", "Bad."),
	}))
	for _, r := range c.rows {
		want(t, r.Meta.Flags, []string{"truncated"})
		for k := range r.Sides {
			text := decode(t, r.Sides[k].IDs)
			if len(r.Sides[k].IDs) > 700 || !strings.Contains(text, "rules") || !strings.Contains(text, "task") ||
				!strings.Contains(text, "short") {
				t.Errorf("%d tokens: %s", len(r.Sides[k].IDs), text)
			}
			if strings.Count(text, "<tool_call>") != strings.Count(text, "start|>tool\n") {
				t.Errorf("a call without its result: %s", text)
			}
		}
	}
	want(t, c.reasons("record"), "too_long 1")
	want(t, c.reasons("turn"), "too_long 1")
	want(t, len(c.rows), 2)
}

// TestD12NoRowWithoutAnActiveLabel checks that anything with nothing to train is dropped with a reason and not written.
func TestD12NoRowWithoutAnActiveLabel(t *testing.T) {
	context := demonstration("x", ttc.Chain(says("user: q", "assistant: a"), ttc.No).Nodes)
	flagged := demonstration("y", nodes(says("user: q", "assistant: a")))
	flagged.Record.Record.(*builders.Demonstration).Train = builders.TrainFlagged
	c := run(t, "chatml.jinja", context, flagged, demonstration("z", nodes(says("user: q", "assistant: "))))
	want(t, c.reasons("record"), "empty_turn 1, nothing_to_train 2")
	want(t, len(c.rows), 0)
	for _, l := range c.lines {
		if l.NActive == 0 {
			t.Errorf("%s has no active token", l.File)
		}
	}
}

// TestD15RowsAreChatText checks that the rows of every channel are the template's text, including roles and turn ends.
func TestD15RowsAreChatText(t *testing.T) {
	r := 0.5
	c := run(t, "chatml.jinja",
		sampledRollout(t, "r", "", &r, says("user: hello", "assistant: hi", "user: more", "assistant: so")))
	want(t, decode(t, c.rows[0].Sides[0].IDs),
		"<|im_start|>system\nYou help.<|im_end|>\n<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\nhi<|im_end|>\n<|im_start|>user\nmore<|im_end|>\n<|im_start|>assistant\nso<|im_end|>\n")
	want(t, trainedTexts(t, &c.rows[0].Sides[0]), []string{"hi<|im_end|>", "so<|im_end|>"})
}

// TestD16PreferencesHaveHeaderAndEnd checks that an answer follows its header and ends its turn.
func TestD16PreferencesHaveHeaderAndEnd(t *testing.T) {
	c := run(t, "chatml.jinja", preference("p", says("user: hi"), "hello there", "go away"))
	for k, answer := range []string{"hello there", "go away"} {
		t.Run(answer, func(t *testing.T) {
			s := &c.rows[0].Sides[k]
			want(t, trainedTexts(t, s), []string{answer + "<|im_end|>"})
			want(t,
				strings.HasSuffix(decode(t, s.IDs[:c.rows[0].Meta.Prompt]), "hi<|im_end|>\n<|im_start|>assistant\n"),
				true)
		})
	}
}

// TestD17PromptsAreTokensInCommon checks that both sides begin with exactly the prompt's tokens, that at least one
// precedes the first trained token (the generation prompt, if there are no messages), and that an answer is encoded
// separately from the prompt, as it is sampled, if a token would straddle the edge.
func TestD17PromptsAreTokensInCommon(t *testing.T) {
	empty := preference("none", nil, "a", "b")
	empty.Record.Prompt.Nodes = []ttc.Node{}
	c := run(t, "chatml.jinja", preference("ok", says("user: hi"), "yes", "no"),
		preference("merge", says("user: hi"), "\n\nyes", "no"), empty)
	want(t, c.reasons("record"), "template_refused 1") // its template looks at the first message
	want(t, len(c.rows), 2)
	for _, r := range c.rows {
		want(t, slices.Equal(r.Sides[0].IDs[:r.Meta.Prompt], r.Sides[1].IDs[:r.Meta.Prompt]), true)
		want(t, r.Sides[0].Trained[0].Start, r.Meta.Prompt)
		want(t, decode(t, r.Sides[0].IDs[:r.Meta.Prompt]), decode(t, c.rows[0].Sides[0].IDs[:r.Meta.Prompt]))
	}
	cfg := toyConfig(t, "chatml.jinja")
	cfg.Template = noSystem
	row := collate(t, cfg, one([]Item{empty})).rows[0]
	want(t, decode(t, row.Sides[1].IDs), "<|im_start|>assistant\nb<|im_end|>\n")
	want(t, row.Sides[1].Trained[0].Start, row.Meta.Prompt)
	cfg.Template = "{% for m in messages %}{{ m.content }}<|im_end|>{% endfor %}"
	want(t, collate(t, cfg, one([]Item{empty})).reasons("record"), "empty_prompt 1")
}

// TestD18RefusalsAreNoFallbacks checks that a broken template makes no collator, and that a conversation the template
// refuses is dropped under the example's name; nothing is ever joined together in its place.
func TestD18RefusalsAreNoFallbacks(t *testing.T) {
	cfg := toyConfig(t, "chatml.jinja")
	cfg.Template = "{% for %}"
	if _, err := New(cfg); err == nil {
		t.Error("a broken template compiles")
	}
	c := run(t, "chatml.jinja", demonstration("odd-one", nodes(says("user: q", "wizard: w", "assistant: a"))))
	want(t, len(c.rows), 0)
	want(t, string(c.drops[1].Reason)+" "+c.drops[1].Example, "template_refused odd-one")
	want(t, strings.Contains(c.drops[1].Detail, "unknown role wizard"), true)
}

// TestRefusedMessages checks that where a template refuses a message, the turns before it are kept as the template
// renders them, each with what the model was given, and the others are counted.
func TestRefusedMessages(t *testing.T) {
	cfg := toyConfig(t, "chatml.jinja")
	cfg.Template = strings.Replace(noSystem, "{{- '<|im_start|>'",
		"{%- if m.role == 'tool' %}{{ raise_exception('no tools here') }}{% endif %}{{- '<|im_start|>'", 1)
	ms := says("user: q", "assistant: a", "user: r", "assistant: b", "user: s")
	ms = append(ms, callMessage("", "edit", `{"file": "main"}`))
	ms = append(ms, says("tool: done", "assistant: c")...)
	c := collate(t, cfg, one([]Item{demonstration("x", nodes(ms))}))
	var trained []string
	for i := range c.rows {
		trained = append(trained, trainedTexts(t, &c.rows[i].Sides[0])...)
	}
	slices.Sort(trained)
	want(t, strings.Join(trained, "|"),
		`<tool_call>edit {"file": "main"}</tool_call><|im_end|>|a<|im_end|>|b<|im_end|>`)
	want(t, c.reasons("turn"), "template_refused 1")
	want(t, c.reasons("record"), "")
	want(t, decode(t, c.rows[1].Sides[0].IDs),
		"<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\na<|im_end|>\n"+
			"<|im_start|>user\nr<|im_end|>\n<|im_start|>assistant\nb<|im_end|>\n")
}

// TestD20RolloutColumns checks that rl has everything a policy-gradient loss needs: ids, masks, log-probs at sampling
// time, advantages.
func TestD20RolloutColumns(t *testing.T) {
	good, bad := 1.0, 0.0
	c := run(t, "chatml.jinja", sampledRollout(t, "a", "t", &good, says("user: q", "assistant: yes")),
		sampledRollout(t, "b", "t", &bad, says("user: q", "assistant: no!")),
		sampledRollout(t, "c", "t", nil, says("user: q", "assistant: hm")))
	x := tensorsOf(t, c, 0)
	for _, name := range []string{
		"input_ids", "attention_mask", "position_ids", "response_mask", "old_logprobs", "reward", "advantage",
		"reward_null", "group",
		"row_weight", "row_n_active", "row_rollout", "row_example",
	} {
		if _, ok := x[name]; !ok {
			t.Errorf("no %s", name)
		}
	}
	for _, r := range c.rows {
		s := r.Meta.RL
		wantAdvantage := map[string]float64{
			"a": 0.5 / (math.Sqrt(0.5) + 1e-4),
			"b": -0.5 / (math.Sqrt(0.5) + 1e-4),
			"c": 0,
		}[r.Meta.Example]
		if math.Abs(s.Advantage-wantAdvantage) > 1e-9 || s.Null != (r.Meta.Example == "c") || s.Group != 0 {
			t.Errorf("%s: %+v", r.Meta.Example, s)
		}
		want(t, r.Sides[0].LogProbs[0], float32(-1.0/16))
		want(t, r.Meta.IDs+" "+r.Meta.OnPolicy+" "+r.Meta.Fidelity, "sampled same ids+logprobs")
	}
}

// TestD21OneLeadingDimension checks that all tensors of a file that have rows have the same number of rows.
func TestD21OneLeadingDimension(t *testing.T) {
	r := 1.0
	c := run(t, "chatml.jinja", preference("p", says("user: hi"), "yes, of course", "no"),
		preference("q", says("user: hi"), "a", "b"),
		demonstration("d", nodes(bugHunt)), sampledRollout(t, "r", "", &r, says("user: q", "assistant: a")))
	for i, l := range c.lines {
		for name, x := range tensorsOf(t, c, i) {
			if x.Shape[0] != l.Rows {
				t.Errorf("%s: %s is %v in a batch of %d rows", l.File, name, x.Shape, l.Rows)
			}
		}
	}
}

// TestD22DenominatorsAreTheTrainers checks that with row_n_active from all batches a step's loss is a single token mean
// (10 over 100 and 10 over 2 tokens is 0.196, not 2.55), and that the tokens of one rollout weigh the same however many
// rows they are spread over.
func TestD22DenominatorsAreTheTrainers(t *testing.T) {
	cfg := toyConfig(t, "chatml.jinja")
	cfg.Rows, cfg.BatchTokens, cfg.MaxLength = PerTurn, 170, 170
	c := collate(t, cfg,
		one(
			[]Item{
				demonstration("long", nodes(says("user: q", "assistant: "+strings.Repeat("a", 99)))),
				demonstration("short", nodes(says("user: q", "assistant: b"))),
			},
		))
	want(t, len(c.lines), 2)
	active := int64(0)
	for i, l := range c.lines {
		n := sum(ints(t, tensorsOf(t, c, i)["row_n_active"]))
		want(t, n, l.NActive)
		active += n
	}
	want(t, math.Round((10.+10.)/float64(active)*1000)/1000, 0.196)

	cfg.MaxLength, cfg.BatchTokens, cfg.Weight = 4000, 8000, ByRollout
	c = collate(t, cfg, one([]Item{demonstration("x", nodes(bugHunt))}))
	total := 0.0
	for _, r := range c.rows {
		total += float64(r.Weight) * float64(r.Sides[0].Active())
	}
	want(t, fmt.Sprintf("%d %.4f %d", len(c.rows), total, len(c.lines[0].Rollouts)), "3 1.0000 1")
}

// TestD25PadIsTheTokenizers checks that the pad id is the tokenizer's own.
func TestD25PadIsTheTokenizers(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir, "tokenizer.json", string(tokenizertest.Toy()))
	writeFile(t, dir, "tokenizer_config.json", `{"pad_token": "<|pad|>", "eos_token": "<|im_end|>"}`)
	tok := load(t, dir)
	cfg := toyConfig(t, "chatml.jinja")
	cfg.Tokenizer = tok
	c := collate(t, cfg, one([]Item{demonstration("x", nodes(says("user: q", "assistant: a")))}))
	pad, _ := tok.ID("<|pad|>")
	want(t, c.lines[0].PadID, int64(pad))
}

// TestD26AnEmptyErrorIsNone checks that a tool result with an empty error, or an explicit "no error", is context like
// any other.
func TestD26AnEmptyErrorIsNone(t *testing.T) {
	plain, marked := nodes(bugHunt), nodes(bugHunt)
	no := false
	marked[2].Error = &no
	marked[2].Message.Extra = []chat.Member{{Key: "tool_error", Value: []byte(`""`)}}
	c := run(t, "chatml.jinja", demonstration("a", plain), demonstration("b", marked))
	want(t, slices.Equal(c.rows[0].Sides[0].IDs, c.rows[1].Sides[0].IDs), true)
	want(t, c.rows[0].Sides[0].Trained, c.rows[1].Sides[0].Trained)
}

// TestD27AMessageWithoutRoleIsRefused checks that there is no default that one half of the code takes for the assistant
// and the other does not.
func TestD27AMessageWithoutRoleIsRefused(t *testing.T) {
	c := run(t, "chatml.jinja",
		demonstration("x", nodes([]chat.Message{say("user: q"), {Form: chat.Text, Text: "?"}, say("assistant: a")})))
	want(t, c.reasons("record"), "bad_roles 1")
}

// TestD28EverythingIsCounted checks that each record is in rows or dropped once with a reason that has a page, that
// each row says where it comes from, and that a proof fails when anything is changed.
func TestD28EverythingIsCounted(t *testing.T) {
	cut := demonstration("cut", nodes(says("user: q", "assistant: a")))
	cut.Record.Messages.Nodes[1].FinishReason = "length"
	c := run(t, "chatml.jinja", demonstration("good", nodes(bugHunt)), cut,
		preference("same", says("user: q"), "a", "a"))
	want(t, c.Accounts[0].In, int64(3))
	want(t, c.reasons("record"), "same_text 1")
	for _, r := range c.rows {
		if r.Meta.Record != "h-"+r.Meta.Example || len(r.Meta.Proof) != 1 {
			t.Errorf("%+v", r.Meta)
		}
		if r.Meta.Example == "cut" {
			want(t, fmt.Sprint(r.Meta.Flags, trainedTexts(t, &r.Sides[0])), "[cut_off] [a]")
		}
	}
	for _, a := range c.Accounts {
		want(t, a.Stage, ledger.Collate)
	}
}
