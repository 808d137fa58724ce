//go:build tokenizers

package collator

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/collator/batch"
	"github.com/nat-go/nat-go/collator/tokenizer"
	"github.com/nat-go/nat-go/collator/tokenview"
	"github.com/nat-go/nat-go/internal/property"
	"github.com/nat-go/nat-go/internal/tokenizertest"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
)

func reasoned(thought, text string) chat.Message {
	m := say("assistant: " + text)
	m.Reasoning, m.ReasoningKey = thought, "reasoning_content"
	return m
}

// TestHistoryRewritten checks that a template that drops earlier thinking gets one row per turn, each as the model saw
// it, and that the rows of one rollout share a name and every token has the same weight.
func TestHistoryRewritten(t *testing.T) {
	ms := []chat.Message{
		say("user: one"), reasoned("first thought", "1"), say("user: two"), reasoned("second thought", "2"),
	}
	c := run(t, "thinking.jinja", demonstration("x", nodes(ms)))
	var got []string
	for _, r := range c.rows {
		got = append(got,
			fmt.Sprintf("%v %v %s", r.Weight, r.Meta.Messages, strings.Join(trainedTexts(t, &r.Sides[0]), "|")))
	}
	if len(got) != 2 || got[0] > got[1] {
		got[0], got[1] = got[1], got[0]
	}
	want(t, got,
		[]string{"1 [1] first thought\n</think>\n\n1<|im_end|>", "1 [3] second thought\n</think>\n\n2<|im_end|>"})
	want(t, len(c.lines[0].Rollouts), 1)
	for _, r := range c.rows {
		if text := decode(t, r.Sides[0].IDs); r.Meta.Part == 1 && strings.Contains(text, "first thought") {
			t.Errorf("the past as it was rewritten: %s", text)
		}
	}

	cfg := toyConfig(t, "thinking.jinja")
	cfg.Rows = Trajectory
	c = collate(t, cfg, one([]Item{demonstration("x", nodes(ms))}))
	want(t, len(c.rows), 1)
	want(t, trainedTexts(t, &c.rows[0].Sides[0]), []string{"second thought\n</think>\n\n2<|im_end|>"})
	want(t, c.reasons("turn"), "generation_prompt_mismatch 1")
}

// TestNoThinkSwitch checks that where thinking was not recorded, the turn follows the prompt with thinking switched
// off, and that no empty think block is in the loss.
func TestNoThinkSwitch(t *testing.T) {
	c := run(t, "thinking.jinja", demonstration("x", nodes(says("user: one", "assistant: 1"))),
		preference("p", says("user: q"), "yes", "no"))
	for _, r := range c.rows {
		for k := range r.Sides {
			if text := strings.Join(trainedTexts(t, &r.Sides[k]), ""); strings.Contains(text, "think") ||
				strings.HasPrefix(text, "\n") {
				t.Errorf("trained: %q", text)
			}
		}
	}
	want(t, len(c.rows), 2)
}

// TestSampledIDsWin checks that ids are used exactly as sampled, even odd ones, and that any part of the turn's end
// that the sampler omitted is context.
func TestSampledIDsWin(t *testing.T) {
	it := sampledRollout(t, "x", "", nil, says("user: q", "assistant: ab", "user: r", "assistant: cd"))
	ns := it.Record.Messages.Nodes
	odd := ns[1].TokenIDs
	odd[0], odd[1] = odd[1], odd[0]                                         // not what encoding the text gives
	ns[3].TokenIDs, ns[3].LogProbs = ns[3].TokenIDs[:2], ns[3].LogProbs[:2] // without the end of the turn
	ns[3].FinishReason = "length"
	c := run(t, "chatml.jinja", it)
	s := &c.rows[0].Sides[0]
	want(t, trainedTexts(t, s), []string{"ba<|im_end|>", "cd"})
	want(t, s.IDs[s.Trained[0].Start:s.Trained[0].End], odd)
	want(t, len(s.LogProbs), 5)
	want(t, c.rows[0].Meta.RL.Null, true)
	want(t, strings.Count(decode(t, s.IDs), "<|im_end|>"), 5)
}

// TestRolloutsMustBeOwn checks that rl accepts only ids from the model to be trained.
func TestRolloutsMustBeOwn(t *testing.T) {
	conv := says("user: q", "assistant: a")
	other, none, short, alien := sampledRollout(t, "other", "", nil, conv), sampledRollout(t, "none", "", nil, conv),
		sampledRollout(t, "short", "", nil, conv), sampledRollout(t, "alien", "", nil, conv)
	other.Record.Origin.Policy = "another"
	none.Record.Messages.Nodes[1].TokenIDs = nil
	short.Record.Messages.Nodes[1].LogProbs = []float32{-1}
	alien.Record.Messages.Nodes[1].TokenIDs[0] = 1 << 20
	c := run(t, "chatml.jinja", other, none, short, alien)
	want(t, c.reasons("record"), "bad_sampled_ids 2, no_sampled_ids 1, off_policy 1")
	want(t, len(c.rows), 0)
}

// TestAdvantagesCountWhatWasDropped checks that the rewards of rollouts that curation or the collator dropped count
// towards their task's mean.
func TestAdvantagesCountWhatWasDropped(t *testing.T) {
	conv := says("user: q", "assistant: a")
	r := []float64{1, 0, 0, 0.5}
	var items []Item
	for i := range r {
		items = append(items, sampledRollout(t, fmt.Sprint(i), "task", &r[i], conv))
	}
	items[1].Dropped = true
	items[2].Record.Origin.Policy = "another"
	for how, wantFirst := range map[Advantages]float64{
		ByGroup: 0.625 / (0.478714 + 1e-4),
		Plain:   0.625,
		ByBatch: 0.625 / (0.478714 + 1e-4),
	} {
		cfg := toyConfig(t, "chatml.jinja")
		cfg.Advantages = how
		c := collate(t, cfg, one(append([]Item(nil), items...)))
		want(t, len(c.rows), 2)
		for _, row := range c.rows {
			if row.Meta.Example == "0" &&
				(row.Meta.RL.Advantage-wantFirst > 1e-5 || wantFirst-row.Meta.RL.Advantage > 1e-5) {
				t.Errorf("%v: got %v, want %v", how, row.Meta.RL.Advantage, wantFirst)
			}
		}
	}
}

// TestHugeRewards checks that rewards beyond float32, such as a sentinel for a failure, are refused like infinite ones,
// and don't count towards their task's mean, whereas the largest float32 does.
func TestHugeRewards(t *testing.T) {
	conv := says("user: q", "assistant: a")
	for _, c := range []struct {
		name    string
		huge    []float64
		refused string
		want    []float64
	}{
		{"1e39", []float64{-1e39, 1e39}, "non_finite_score 2", []float64{0.5, -0.5}},
		{"of Python", []float64{-math.MaxFloat64, math.MaxFloat64}, "non_finite_score 2", []float64{0.5, -0.5}},
		{"not finite", []float64{math.Inf(-1), math.NaN()}, "non_finite_score 2", []float64{0.5, -0.5}},
		{"float32", []float64{math.MaxFloat32, -math.MaxFloat32}, "", []float64{1, 0, math.MaxFloat32, -math.MaxFloat32}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var items []Item
			for i, r := range append([]float64{1, 0}, c.huge...) {
				items = append(items, sampledRollout(t, fmt.Sprint(i), "task", &r, conv))
			}
			cfg := toyConfig(t, "chatml.jinja")
			cfg.Advantages = Plain
			out := collate(t, cfg, one(items))
			want(t, out.reasons("record"), c.refused)
			if len(out.rows) != len(c.want) {
				t.Fatalf("got %d rows, want %d", len(out.rows), len(c.want))
			}
			for _, row := range out.rows {
				i := int(row.Meta.Ordinal)
				if got := row.Meta.RL.Advantage; math.Abs(got-c.want[i]) > 1e-6*max(1, math.Abs(c.want[i])) {
					t.Errorf("rollout %d: got advantage %v, want %v", i, got, c.want[i])
				}
			}
		})
	}
}

// TestArguments checks that anything that doesn't survive parsing and printing is refused, unless the template prints
// strings as they are.
func TestArguments(t *testing.T) {
	conv := func(args string) []ttc.Node { return nodes([]chat.Message{say("user: q"), callMessage("", "f", args)}) }
	items := []Item{
		demonstration("exact", conv(`{"a":1, "b": [1.5]}`)), demonstration("value", conv(`{"a": 1.50}`)),
		demonstration("twice", conv(`{"a":1,"a":2}`)), demonstration("broken", conv(`{"a":`)),
	}
	c := run(t, "chatml.jinja", items...)
	want(t, c.reasons("record"), "args_unrenderable 2")
	want(t, c.Stats.Args, map[string]int64{"exact": 1, "value": 1})

	cfg := toyConfig(t, "chatml.jinja")
	cfg.Template = strings.Replace(cfg.Template, "c.function.arguments | tojson", "(c.function.arguments if c.function.arguments is string else c.function.arguments | tojson)", 1)
	c = collate(t, cfg, one(items))
	want(t, c.reasons("record"), "")
	for _, r := range c.rows {
		if r.Meta.Example == "twice" {
			want(t, trainedTexts(t, &r.Sides[0])[0], `<tool_call>f {"a":1,"a":2}</tool_call><|im_end|>`)
			want(t, r.Meta.Args, "raw")
		}
	}
}

// TestRawArguments checks that a template that can't take arguments as an object, or prints one as Python does, is
// given the text that was sampled, and that this text is what is trained.
func TestRawArguments(t *testing.T) {
	const args = `{"a":1,   "b": [1.50, true]}`
	conv := nodes(
		[]chat.Message{say("user: q"), callMessage("", "f", args), {
			Role:       "tool",
			Form:       chat.Text,
			Text:       "r",
			ToolCallID: "c1",
		}, say("assistant: done")},
	)
	for name, printed := range map[string]string{
		"puts it together": "c.function.name + ' ' + c.function.arguments",
		"prints Python":    "c.function.name + ' ' ~ c.function.arguments",
	} {
		t.Run(name, func(t *testing.T) {
			cfg := toyConfig(t, "chatml.jinja")
			was := cfg.Template
			if cfg.Template = strings.Replace(was, "c.function.name + ' ' + c.function.arguments | tojson", printed,
				1); cfg.Template == was {
				t.Fatal("the template has changed")
			}
			c := collate(t, cfg, one([]Item{demonstration("raw", conv), demonstration("no JSON", nodes([]chat.Message{say("user: q"), callMessage("", "f", `{"a":`)}))}))
			want(t, c.reasons("record"), "")
			for _, r := range c.rows {
				text := "<tool_call>f " + args + "</tool_call><|im_end|>"
				if r.Meta.Example == "no JSON" {
					text = `<tool_call>f {"a":</tool_call><|im_end|>`
				}
				if got := trainedTexts(t, &r.Sides[0])[0]; got != text {
					t.Errorf("%s: %q", name, got)
				}
				want(t, r.Meta.Args, "raw")
			}
		})
	}
}

// TestLossPolicies checks training on all turns, the last one, those with calls, and those flagged; messages that were
// not sampled are never trained.
func TestLossPolicies(t *testing.T) {
	ns := nodes(bugHunt)
	ns[1].Sampled = ttc.No
	for policy, w := range map[builders.Train]string{
		builders.TrainAll: "[3 5]", builders.TrainLast: "[5]", builders.TrainCalls: "[3]", builders.TrainFlagged: "[5]",
	} {
		it := demonstration("x", ns)
		d := it.Record.Record.(*builders.Demonstration)
		d.Train, d.Trained = policy, []bool{true, true, true, false, true, true}
		c := run(t, "chatml.jinja", it)
		want(t, fmt.Sprint(c.rows[0].Meta.Messages), w)
	}
}

// TestLookAlikesStayText checks that special-token text typed by a user or a tool never becomes a special token.
func TestLookAlikesStayText(t *testing.T) {
	marks := []string{"<|im_start|>", "<|im_end|>", "<think>", "</think>"}
	property.Check(t, func(rt *rapid.T) {
		piece := rapid.OneOf(rapid.SampledFrom(marks), rapid.StringMatching(`[ -~\n]{0,8}`), rapid.String())
		text := func(name string) string {
			return strings.ToValidUTF8(strings.Join(rapid.SliceOfN(piece, 0, 5).Draw(rt, name), ""), "?")
		}
		ms := []chat.Message{
			say("user: " + text("user")), callMessage(text("text"), "f", "{}"), say("tool: " + text("tool")),
			say("assistant: x" + text("answer")),
		}
		c := run(t, "chatml.jinja", demonstration("x", nodes(ms)))
		if len(c.rows) == 0 {
			want(t, c.reasons("record"), "straddle_edge 1") // nothing else may refuse it
			return
		}
		s := &c.rows[0].Sides[0]
		specials := 0
		for _, id := range s.IDs {
			if toy(t).IsSpecial(id) {
				specials++
			}
		}
		if specials != 2*5 { // a header and an end for each of the default system message and the four
			rt.Fatalf("%d special tokens in %q", specials, decode(t, s.IDs))
		}
		got := trainedTexts(t, s)
		if got[len(got)-1] != ms[3].Text+"<|im_end|>" {
			rt.Fatalf("trained %q, the answer is %q", got[len(got)-1], ms[3].Text)
		}
	})
}

// TestSameBytesWithAnyWorkers collates in parallel.
func TestSameBytesWithAnyWorkers(t *testing.T) {
	var items []Item
	for i := range 60 {
		r := float64(i%7) / 7
		items = append(items,
			demonstration(fmt.Sprint("d", i),
				nodes(append(says(fmt.Sprint("user: ", strings.Repeat("q", i))), bugHunt...))),
			preference(fmt.Sprint("p", i), says("user: hi"), fmt.Sprint("yes", i), "no"),
			sampledRollout(t, fmt.Sprint("r", i), fmt.Sprint(i%9), &r, says("user: q", "assistant: a")))
	}
	var trees []map[string]string
	for _, workers := range []int{1, 2, 5} {
		for _, layout := range []batch.Layout{batch.Padded, batch.Packed} {
			cfg := toyConfig(t, "chatml.jinja")
			cfg.Workers, cfg.Layout = workers, layout
			c := collate(t, cfg, one(append([]Item(nil), items...)))
			want(t, len(c.rows), 180)
			trees = append(trees, files(t, c.dir))
		}
	}
	for i := 2; i < len(trees); i++ {
		if diff := cmp.Diff(trees[i%2], trees[i]); diff != "" {
			t.Errorf("case %d differs from case %d (-want +got):\n%s", i, i%2, diff)
		}
	}
}

func files(t testing.TB, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		out[strings.TrimPrefix(path, dir)] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestPackedRows checks that sequences follow each other without gaps, positions restart, and no sequence's first token
// is trained.
func TestPackedRows(t *testing.T) {
	cfg := toyConfig(t, "chatml.jinja")
	cfg.Layout = batch.Packed
	c := collate(t, cfg,
		one([]Item{demonstration("a", nodes(says("user: q", "assistant: a"))), demonstration("b", nodes(bugHunt))}))
	x := tensorsOf(t, c, 0)
	lengths, positions, labels := ints(t, x["seq_lengths"]), ints(t, x["position_ids"]), ints(t, x["labels"])
	want(t, x["input_ids"].Shape, []int{1, int(sum(lengths))})
	if _, ok := x["attention_mask"]; ok {
		t.Error("a packed batch has an attention_mask, with which transformers doesn't separate its sequences")
	}
	at := 0
	for _, n := range lengths {
		for i := range n {
			want(t, positions[at+int(i)], i)
		}
		want(t, labels[at], int64(batch.Ignored))
		at += int(n)
	}
}

// TestView displays a written row: every token's owner, and why it is trained or not.
func TestView(t *testing.T) {
	ns := nodes(bugHunt)
	ns[1].Sampled = ttc.No
	it := demonstration("x", ns)
	it.Record.Record.(*builders.Demonstration).Train = builders.TrainLast
	c := run(t, "chatml.jinja", it)
	v, err := tokenview.ReadRow(c.dir, "sft/train/00000.safetensors:1", toy(t))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, tok := range v.Sides[0].Tokens {
		seen[fmt.Sprint(tok.Message, tok.Why, tok.Trained)] = true
	}
	for _, w := range []string{
		"-1templatefalse", "0contextfalse", "1not_sampledfalse", "3loss_policyfalse", "5trainedtrue",
	} {
		if !seen[w] {
			t.Errorf("no %s among %v", w, seen)
		}
	}
	var b strings.Builder
	if err := v.Print(&b, tokenview.Look{}); err != nil || !strings.Contains(b.String(), `message 5   trained     F|i|x|e|d|!|<\|im_end\|>`) {
		t.Errorf("%v\n%s", err, b.String())
	}
	const file, next = "sft/train/00000.safetensors:", "sft/train/00001.safetensors:"
	for _, bad := range []string{"x", "7", "0", file + "0", next + "1", file + "9", "-1"} {
		if _, err := tokenview.ReadRow(c.dir, bad, toy(t)); err == nil {
			t.Errorf("%s is a row", bad)
		}
	}
	other, err := tokenizer.New(bytes.Replace(tokenizertest.Toy(), []byte("|pad|"), []byte("|nil|"), 1))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	_, err = tokenview.ReadRow(c.dir, "1", other)
	if err == nil || !strings.Contains(err.Error(), "made with tokenizer") {
		t.Errorf("ids are shown as another tokenizer's: %v", err)
	}
}

// TestVerifyFindsDamage checks that the proofs detect changed tokens even if the index was made to match them.
func TestVerifyFindsDamage(t *testing.T) {
	c := run(t, "chatml.jinja", demonstration("x", nodes(says("user: q", "assistant: answer"))))
	index := filepath.Join(c.dir, "batches", batch.IndexName)
	text, err := os.ReadFile(index)
	if err != nil {
		t.Fatal(err)
	}
	p := c.rows[0].Meta.Proof[0]
	for name, swap := range map[string][2]string{
		"text":      {p.Text, strings.Repeat("0", 64)},
		"target":    {p.Target, strings.Repeat("0", 64)},
		"tokenizer": {toy(t).Fingerprint(), "sha256:0"},
		"owner":     {`"trained"`, `"context"`},
		"ids":       {`"ids":"rendered"`, `"ids":"sampled"`},
		"left out":  {string(text), ""},
		"file":      {c.lines[0].Proof.SHA256, strings.Repeat("0", 64)},
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(index, []byte(strings.Replace(string(text), swap[0], swap[1], 1)),
				0o644); err != nil {
				t.Fatal(err)
			}
			if r, err := Verify(c.dir, toy(t)); err != nil || len(r.Problems) == 0 {
				t.Errorf("%s: %v %+v", name, err, r)
			}
		})
	}
}

// TestD19ReferenceLogProbsAreColumns checks that a reference model's log-probs are looked up by the exact tokens and
// carry their fingerprint.
func TestD19ReferenceLogProbsAreColumns(t *testing.T) {
	cfg := toyConfig(t, "chatml.jinja")
	items := []Item{preference("p", says("user: hi"), "yes", "no"), preference("q", says("user: hi"), "a", "b")}
	c := collate(t, cfg, one(items))
	hash := RowHash(c.rows[0])
	cfg.Reference = &Reference{"sha256:ref", func(h string) (float64, float64, bool) { return -1, -2, h == hash }}
	c = collate(t, cfg, one(items))
	with := 0
	for i, l := range c.lines {
		_, ok := tensorsOf(t, c, i)["ref_chosen_logps"]
		if ok != (l.Reference == "sha256:ref") {
			t.Errorf("%+v", l)
		}
		if ok {
			with += l.Rows
		}
	}
	want(t, with, 1)
}

// TestTagsAreNotTrained checks that redacted parts of a turn are not in the loss, and that everything around them is.
func TestTagsAreNotTrained(t *testing.T) {
	ns := nodes(append(says("user: q"), callMessage("Mail to <REDACTED:email:1>.", "mail", `{"to": "<REDACTED:email:1>"}`),
		say("tool: <REDACTED:ip:2>"), say("assistant: <REDACTED:email:1> has it")))
	c := run(t, "chatml.jinja", demonstration("x", ns))
	want(t, strings.Join(trainedTexts(t, &c.rows[0].Sides[0]), "|"),
		`Mail to |.<tool_call>mail {"to": "|"}</tool_call><|im_end|>| has it<|im_end|>`)
}

// TestEmptyTurnsAreSkipped checks that a turn without text and calls is not trained and counted, that it stays in the
// context, and that it is trained if the source has the ids that were sampled.
func TestEmptyTurnsAreSkipped(t *testing.T) {
	ms := says("user: q", "assistant: ", "user: Are you there?", "assistant: Yes.", "user: Good.", "assistant:  \n")
	for _, rows := range []RowUnit{Auto, Trajectory, PerTurn} {
		cfg := toyConfig(t, "chatml.jinja")
		cfg.Rows = rows
		c := collate(t, cfg, one([]Item{demonstration("x", nodes(ms))}))
		want(t, c.reasons("turn"), "empty_turn 2")
		want(t, len(c.rows), 1)
		want(t, trainedTexts(t, &c.rows[0].Sides[0]), []string{"Yes.<|im_end|>"})
		if !strings.Contains(decode(t, c.rows[0].Sides[0].IDs), "<|im_start|>assistant\n<|im_end|>") {
			t.Error("the empty turn is not in the context")
		}
	}
	c := run(t, "chatml.jinja", demonstration("x", nodes(ms[:2])))
	want(t, c.reasons("record"), "empty_turn 1")
	want(t, c.reasons("turn"), "empty_turn 1")
	want(t, len(c.rows), 0)

	ns := nodes(ms[:4])
	end, _ := toy(t).ID("<|im_end|>")
	ns[1].TokenIDs = []int32{end}
	c = run(t, "chatml.jinja", demonstration("x", ns))
	want(t, c.reasons("turn"), "")
	want(t, trainedTexts(t, &c.rows[0].Sides[0]), []string{"<|im_end|>", "Yes.<|im_end|>"})
}

// TestReasoningAsContext: of a turn trained without its reasoning, the tags around it and the answer are in the loss.
func TestReasoningAsContext(t *testing.T) {
	ms := []chat.Message{
		say("user: one"), reasoned("first thought", "1"), say("user: two"), reasoned("second thought", "2"),
	}
	mask := func(it Item) Item {
		it.Record.Record.(*builders.Demonstration).MaskReasoning = true
		return it
	}
	sampled := nodes(ms)
	sampled[3].TokenIDs = []int32{1, 2, 3}
	c := run(t, "thinking.jinja", mask(demonstration("x", nodes(ms))), mask(demonstration("ids", sampled)))
	var got []string
	for _, r := range c.rows {
		got = append(got, strings.Join(trainedTexts(t, &r.Sides[0]), "|"))
		owners := map[string]bool{}
		for _, o := range r.Meta.Proof[0].Owners {
			owners[o.Why] = true
		}
		if !owners[batch.Reasoning] || owners[batch.CutOff] {
			t.Errorf("owners: %v", r.Meta.Proof[0].Owners)
		}
	}
	slices.Sort(got)
	want(t, got, []string{
		"\n</think>\n\n1<|im_end|>", "\n</think>\n\n1<|im_end|>", "\n</think>\n\n2<|im_end|>",
	})
	want(t, c.reasons("turn"), "reasoning_in_ids 1")
	for _, r := range c.rows {
		if !strings.Contains(decode(t, r.Sides[0].IDs), "thought") {
			t.Errorf("reasoning is gone: %s", decode(t, r.Sides[0].IDs))
		}
	}
}

// TestReasoningAlone: of a turn that has reasoning and nothing else, nothing is left to train without it.
func TestReasoningAlone(t *testing.T) {
	for _, silent := range []chat.Message{reasoned("a thought", ""), say("assistant: <think>a thought</think>\n")} {
		it := demonstration("x", nodes([]chat.Message{say("user: one"), silent, say("user: two"), say("assistant: 2")}))
		want(t, run(t, "thinking.jinja", it).reasons("turn"), "")
		it.Record.Record.(*builders.Demonstration).MaskReasoning = true
		want(t, run(t, "thinking.jinja", it).reasons("turn"), "empty_turn 1")
	}
}
