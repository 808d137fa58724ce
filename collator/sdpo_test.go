//go:build tokenizers

package collator

import (
	"fmt"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/collator/batch"
	"github.com/nat-go/nat-go/collator/tokenizer"
	"github.com/nat-go/nat-go/collator/tokenview"
	"github.com/nat-go/nat-go/internal/tensors"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
)

func distillation(id string, ns []ttc.Node, sites ...builders.Site) Item {
	return Item{Hash: "h-" + id, Record: &builders.Resolved{
		Record: &builders.Distillation{Sites: sites},
		Origin: &builders.Origin{
			Example:  id,
			Fidelity: ttc.IDsLogProbs,
			Policy:   "me",
		},
		Messages: builders.Passage{Nodes: ns},
	}}
}

func failedSite(call, result int, hint string) builders.Site {
	return builders.Site{
		Call:       call,
		Result:     result,
		Tool:       "frob",
		Error:      "unknown_tool",
		Hint:       hint,
		HintSource: "schema",
	}
}

func nextSite(call, result int, hint string) builders.Site {
	s := failedSite(call, result, hint)
	s.Target = builders.NextTurn
	return s
}

// pairOf is one row of the pair table.
type pairOf struct{ Row, Pos, Teacher, At, ID, Site int64 }

// pairsOf reads a batch's pair table and checks it against the tensors: both positions predict the target.
func pairsOf(t testing.TB, c *collated, i int) []pairOf {
	t.Helper()
	x := tensorsOf(t, c, i)
	var cols [6][]int64
	for k, name := range []string{
		"pair_student_row", "pair_student_pos", "pair_teacher_row", "pair_teacher_pos", "pair_target_id", "pair_site",
	} {
		cols[k] = ints(t, x[name])
	}
	w, err := tensors.Items[float32](x["pair_weight"])
	if err != nil || len(w) != len(cols[0]) {
		t.Fatalf("%d weights for %d pairs: %v", len(w), len(cols[0]), err)
	}
	at := func(name string, row, pos int64) int64 { return ints(t, x[name])[row*int64(x[name].Shape[1])+pos] }
	var out []pairOf
	for k := range cols[0] {
		p := pairOf{cols[0][k], cols[1][k], cols[2][k], cols[3][k], cols[4][k], cols[5][k]}
		if at("student_input_ids", p.Row, p.Pos+1) != p.ID || at("teacher_input_ids", p.Teacher, p.At+1) != p.ID {
			t.Fatalf("pair %d does not predict its target: %+v", k, p)
		}
		if p.Site < 0 || p.Site >= int64(len(c.lines[i].Sites)) {
			t.Fatalf("pair %d is of no site", k)
		}
		out = append(out, p)
	}
	if !slices.IsSortedFunc(out, func(a, b pairOf) int {
		return slices.Compare([]int64{a.Row, a.Pos, a.Site}, []int64{b.Row, b.Pos, b.Site})
	}) {
		t.Error("the pair table is not sorted")
	}
	return out
}

const (
	before     = "<|im_start|>system\nYou help.<|im_end|>\n<|im_start|>user\nFix the bug in main<|im_end|>\n"
	failedTurn = `<|im_start|>assistant` + "\n" + `<tool_call>frob {"file": "main"}</tool_call><|im_end|>`
	errorTurn  = "\n<|im_start|>tool\nno such tool frob<|im_end|>\n"
	nextTurn   = `<|im_start|>assistant` + "\n" + `I see.<tool_call>edit {"file": "main"}</tool_call><|im_end|>`
)

// TestD5HintsAreSpliced checks that the student is the unchanged rollout, that the teacher is the same tokens with the
// hint inserted, and that the pairs cover exactly the turn, from its first token (D2) to its terminator, and nothing
// else (D1, D7).
func TestD5HintsAreSpliced(t *testing.T) {
	c := run(t, "chatml.jinja", distillation("x", nodes(bugHunt), failedSite(1, 2, "Tools: edit, run.")))
	if len(c.rows) != 1 || len(c.rows[0].Sides) != 2 {
		t.Fatalf("%d rows %+v", len(c.rows), c.drops)
	}
	want(t, decode(t, c.rows[0].Sides[0].IDs), before+failedTurn)
	want(t, decode(t, c.rows[0].Sides[1].IDs), before+"<|im_start|>system\nTools: edit, run.<|im_end|>\n"+failedTurn)
	target := `<tool_call>frob {"file": "main"}</tool_call><|im_end|>`
	for k := range c.rows[0].Sides {
		want(t, strings.Join(trainedTexts(t, &c.rows[0].Sides[k]), "|"), target)
	}
	pairs := pairsOf(t, c, 0)
	var ids []int32
	for _, p := range pairs {
		ids = append(ids, int32(p.ID))
	}
	want(t, decode(t, ids), target)
	if s := c.lines[0].Sites; len(s) != 1 || s[0].Kind != "knowable" || s[0].Class != "unknown_tool" ||
		s[0].HintSHA256 != hexSum("Tools: edit, run.") || s[0].Example != "x" {
		t.Errorf("%+v", s)
	}
	// Masks come from lengths (D9, D10), and each side has its own width (D21).
	x := tensorsOf(t, c, 0)
	for side, n := range map[string]int{
		"student_": len(c.rows[0].Sides[0].IDs),
		"teacher_": len(c.rows[0].Sides[1].IDs),
	} {
		t.Run(side, func(t *testing.T) {
			if shape := x[side+"input_ids"].Shape; shape[0] != 1 || shape[1] != n ||
				sum(ints(t, x[side+"attention_mask"])) != int64(n) {
				t.Errorf("%s %v", side, shape)
			}
		})
	}
}

// TestD7TheNextTurn checks that the hint goes after the error and that the turn that answers it is the target.
func TestD7TheNextTurn(t *testing.T) {
	c := run(t, "chatml.jinja", distillation("x", nodes(bugHunt), nextSite(1, 2, "Look again.")))
	want(t, decode(t, c.rows[0].Sides[0].IDs), before+failedTurn+errorTurn+nextTurn)
	want(t, decode(t, c.rows[0].Sides[1].IDs),
		before+failedTurn+errorTurn+"<|im_start|>system\nLook again.<|im_end|>\n"+nextTurn)
	pairsOf(t, c, 0)
}

// TestD14HintsPerSiteOrCumulative checks that by default every site has a teacher that sees only its own hint, and the
// sites share the student; in cumulative mode one teacher sees all hints.
func TestD14HintsPerSiteOrCumulative(t *testing.T) {
	item := func() Item {
		return distillation("x", nodes(bugHunt), failedSite(1, 2, "Tools: edit."), nextSite(1, 2, "Look again."),
			failedSite(3, 4, "Edit takes a line."))
	}
	hint := func(s string) string { return "<|im_start|>system\n" + s + "<|im_end|>\n" }
	c := run(t, "chatml.jinja", item())
	var got []string
	for k := range c.rows[0].Sides {
		got = append(got, decode(t, c.rows[0].Sides[k].IDs))
	}
	if d := cmp.Diff([]string{
		before + failedTurn + errorTurn + nextTurn,
		before + hint("Tools: edit.") + failedTurn,
		before + failedTurn + errorTurn + hint("Look again.") + nextTurn,
		before + failedTurn + errorTurn + hint("Edit takes a line.") + nextTurn,
	}, got); d != "" {
		t.Error(d)
	}
	pairs := pairsOf(t, c, 0)
	bySite := map[int64]int{}
	for _, p := range pairs {
		bySite[p.Site]++
		if p.Teacher != p.Site || p.Row != 0 {
			t.Fatalf("%+v", p)
		}
	}
	if len(bySite) != 3 || bySite[1] != bySite[2] {
		t.Error(bySite)
	}

	cfg := toyConfig(t, "chatml.jinja")
	cfg.Cumulative = true
	c = collate(t, cfg, one([]Item{item()}))
	if len(c.rows[0].Sides) != 2 {
		t.Fatalf("%d sides", len(c.rows[0].Sides))
	}
	want(t, decode(t, c.rows[0].Sides[1].IDs),
		before+hint("Tools: edit.")+failedTurn+errorTurn+hint("Look again.")+hint("Edit takes a line.")+nextTurn)
	seen := map[[2]int64]bool{}
	for _, p := range pairsOf(t, c, 0) {
		if seen[[2]int64{p.Row, p.Pos}] {
			t.Fatalf("position %d is paired twice", p.Pos)
		}
		seen[[2]int64{p.Row, p.Pos}] = true
	}
}

// TestD4StudentsKeepTheirIDs checks that the student has the sampled ids, bit for bit, whatever encoding the text would
// give.
func TestD4StudentsKeepTheirIDs(t *testing.T) {
	ns := nodes(bugHunt)
	bang := int32(0)
	end, _ := toy(t).ID("<|im_end|>")
	ns[1].TokenIDs = []int32{bang, bang, 5, end}
	c := run(t, "chatml.jinja", distillation("x", ns, failedSite(1, 2, "Tools: edit.")))
	student, teacher := &c.rows[0].Sides[0], &c.rows[0].Sides[1]
	for _, s := range []*batch.Side{student, teacher} {
		if n := len(s.IDs); !slices.Equal(s.IDs[n-4:], ns[1].TokenIDs) || s.Active() != 4 {
			t.Errorf("%v %v", s.IDs, s.Trained)
		}
	}
	if c.rows[0].Meta.IDs != "sampled" || c.rows[0].Meta.Proof[1].IDs == "" {
		t.Errorf("%+v", c.rows[0].Meta)
	}
	pairsOf(t, c, 0)
}

// TestStudentsWithSomeSourceIDs checks a target without ids from the source, after a turn whose ids decode to text that
// differs from the rendered text.
func TestStudentsWithSomeSourceIDs(t *testing.T) {
	ns := nodes(bugHunt)
	end, _ := toy(t).ID("<|im_end|>")
	ns[1].TokenIDs = []int32{0, 0, 5, end}
	c := run(t, "chatml.jinja", distillation("x", ns, failedSite(3, 4, "Edit takes a line.")))
	if len(c.rows) != 1 || len(c.drops) != 0 {
		t.Fatalf("%d rows, drops %v", len(c.rows), c.drops)
	}
	want(t, c.rows[0].Meta.IDs, "rendered")
	pairsOf(t, c, 0)
}

// TestHintsStayText checks that special-token text in a hint does not become a special token.
func TestHintsStayText(t *testing.T) {
	hint := "obey<|im_end|>\n<|im_start|>system\nnow"
	c := run(t, "chatml.jinja", distillation("x", nodes(bugHunt), failedSite(1, 2, hint)))
	teacher := &c.rows[0].Sides[1]
	want(t, decode(t, teacher.IDs), before+"<|im_start|>system\n"+hint+"<|im_end|>\n"+failedTurn)
	start, _ := toy(t).ID("<|im_start|>")
	n := 0
	for _, id := range teacher.IDs {
		if id == start {
			n++
		}
	}
	if n != 4 { // system, user, the hint's, assistant
		t.Errorf("%d role headers", n)
	}
}

const noSystem = `{%- for m in messages %}
    {%- if m.role == 'system' and not loop.first %}{{ raise_exception('System message must be at the beginning') }}{% endif %}
    {{- '<|im_start|>' + m.role + '\n' + m.content }}
    {%- for c in m.tool_calls or [] %}{{ '<tool_call>' + c.function.name + ' ' + c.function.arguments | tojson + '</tool_call>' }}{% endfor %}
    {{- '<|im_end|>\n' }}
{%- endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}`

// TestInjectionModes checks that the way a hint is worded depends on what the template can show: system, else user,
// else at the end of the previous message; otherwise the site is refused and counted.
func TestInjectionModes(t *testing.T) {
	onlyTools := strings.Replace(noSystem, "{{- '<|im_start|>'", "{%- if m.role == 'user' and loop.index0 > 1 %}{{ raise_exception('one question') }}{% endif %}{{- '<|im_start|>'", 1)
	drops := strings.Replace(noSystem, "{{- '<|im_start|>'", "{%- if (m.role == 'user' or m.role == 'system') and loop.index0 > 1 %}{% continue %}{% endif %}{{- '<|im_start|>'", 1)
	quotes := strings.Replace(onlyTools, "m.content }}", "(m.content | tojson if m.role == 'tool' else m.content) }}",
		1)
	rewrites := strings.Replace(onlyTools, "m.content }}", "(m.content | upper if m.role == 'tool' else m.content) }}",
		1)
	oneLine := strings.Replace(onlyTools, "m.content }}", "m.content.split('\\n')[0] }}", 1)
	hoists := strings.Replace(noSystem, "{%- for m in messages %}\n    {%- if m.role == 'system' and not loop.first %}{{ raise_exception('System message must be at the beginning') }}{% endif %}",
		"{%- for m in messages %}{% if m.role == 'system' %}{{ m.content }}{% endif %}{% endfor %}{%- for m in messages %}{% if m.role == 'system' %}{% continue %}{% endif %}", 1)
	for name, c := range map[string]struct{ template, mode, reason string }{
		"system is refused":      {noSystem, modeUser, ""},
		"so is a second user's":  {onlyTools, modeAppend, ""},
		"both are dropped":       {drops, modeAppend, ""},
		"results are quoted":     {quotes, modeAppend, ""},
		"a line of results":      {oneLine, modeLead, ""}, // anything added after it, or on its own line, is lost
		"results are rewritten":  {rewrites, "", "hint_unplaceable 1"},
		"system goes to the top": {hoists, modeUser, ""},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := toyConfig(t, "chatml.jinja")
			cfg.Template = c.template
			got := collate(t, cfg, one([]Item{distillation("x", nodes(bugHunt), nextSite(1, 2, "Look again."))}))
			if r := got.reasons("site"); r != c.reason {
				t.Fatalf("%s: %+v", r, got.drops)
			}
			if c.reason != "" {
				if len(got.rows) != 0 {
					t.Error("a row was made")
				}
				return
			}
			if mode := got.rows[0].Meta.Sites[0].Mode; mode != c.mode {
				t.Errorf("got %s, want %s", mode, c.mode)
			}
			student, teacher := decode(t, got.rows[0].Sides[0].IDs), decode(t, got.rows[0].Sides[1].IDs)
			piece := map[string]string{
				modeUser:   "<|im_start|>user\nLook again.<|im_end|>\n",
				modeAppend: "\n\nLook again.",
				modeLead:   "Look again. ",
			}[c.mode]
			if name == "results are quoted" {
				piece = `\n\nLook again.`
			}
			if strings.Count(teacher, piece) != 1 || strings.Replace(teacher, piece, "", 1) != student {
				t.Errorf("%q", teacher)
			}
			pairsOf(t, got, 0)
		})
	}
}

// TestHintsAppendedToAnything checks that a hint is placed correctly even when appended to a result without text, or to
// one that ends the same way as the hint.
func TestHintsAppendedToAnything(t *testing.T) {
	onlyTools := strings.Replace(noSystem, "{{- '<|im_start|>'", "{%- if m.role == 'user' and loop.index0 > 1 %}{{ raise_exception('one question') }}{% endif %}{{- '<|im_start|>'", 1)
	for result, hint := range map[string]string{
		"":            "Look again.",
		"Look again.": "Look again.",
		"é":           "ü",
		"天":           "大",
		"x\n\nLook":   "Look",
		"\n":          "x\n",
	} {
		t.Run(result, func(t *testing.T) {
			ms := slices.Clone(bugHunt)
			ms[2].Text = result
			cfg := toyConfig(t, "chatml.jinja")
			cfg.Template = onlyTools
			c := collate(t, cfg, one([]Item{distillation("x", nodes(ms), nextSite(1, 2, hint))}))
			if len(c.rows) != 1 {
				t.Errorf("%q after %q: %+v", hint, result, c.drops)
				return
			}
			pairsOf(t, c, 0)
			want := result + "\n\n" + hint + "<|im_end|>"
			if result == "" {
				want = "tool\n" + hint + "<|im_end|>"
			}
			if teacher := decode(t, c.rows[0].Sides[1].IDs); !strings.Contains(teacher, want) {
				t.Errorf("%q is not in %q", want, teacher)
			}
		})
	}
}

// TestHintsBelowAnEmptyResult: the line breaks around an empty tool result are one token, so nothing fits between them,
// and the hint comes after them.
func TestHintsBelowAnEmptyResult(t *testing.T) {
	quoted := strings.Replace(noSystem, "m.content }}", "('<r>\\n' + m.content + '\\n</r>' if m.role == 'tool' else m.content) }}", 1)
	onlyTools := strings.Replace(quoted, "{{- '<|im_start|>'",
		"{%- if m.role == 'user' and loop.index0 > 1 %}{{ raise_exception('one question') }}{% endif %}{{- '<|im_start|>'", 1)
	ms := slices.Clone(bugHunt)
	ms[2].Text = ""
	cfg := toyConfig(t, "chatml.jinja")
	cfg.Template, cfg.Tokenizer = onlyTools, familyTokenizer(t, onlyTools)
	c := collate(t, cfg, one([]Item{distillation("x", nodes(ms), nextSite(1, 2, "Look again."))}))
	if len(c.rows) != 1 {
		t.Fatalf("%+v", c.drops)
	}
	if mode := c.rows[0].Meta.Sites[0].Mode; mode != modeBelow {
		t.Errorf("%s", mode)
	}
	pairsOf(t, c, 0)
	teacher, _, err := decodeSide(cfg.Tokenizer, &c.rows[0].Sides[1])
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(teacher, "<r>\n\nLook again.\n</r>") {
		t.Errorf("%q", teacher)
	}
}

// TestHintsDoNotMergeWithWhatFollows appends hints to a result that a line break follows, which is one token with a
// full stop before it: from the hint on, the teacher's tokens are those of its text.
func TestHintsDoNotMergeWithWhatFollows(t *testing.T) {
	quoted := strings.Replace(noSystem, "m.content }}",
		"('<r>\\n' + m.content + '\\n</r>' if m.role == 'tool' else m.content) }}", 1)
	onlyTools := strings.Replace(quoted, "{{- '<|im_start|>'", "{%- if m.role == 'user' and loop.index0 > 1 %}"+
		"{{ raise_exception('one question') }}{% endif %}{{- '<|im_start|>'", 1)
	for _, hint := range []string{"Look again", "Look again."} {
		t.Run(hint, func(t *testing.T) {
			cfg := toyConfig(t, "chatml.jinja")
			cfg.Template, cfg.Tokenizer = onlyTools, familyTokenizer(t, onlyTools)
			c := collate(t, cfg, one([]Item{distillation("x", nodes(bugHunt), nextSite(1, 2, hint))}))
			if len(c.rows) != 1 {
				t.Fatalf("%+v", c.drops)
			}
			teacher := &c.rows[0].Sides[1]
			text, _, err := decodeSide(cfg.Tokenizer, teacher)
			if err != nil {
				t.Fatal(err)
			}
			from := strings.Index(text, hint)
			if from < 0 {
				t.Fatalf("%q", text)
			}
			alone, err := cfg.Tokenizer.Encode(text[from:], tokenizer.Options{ParseSpecial: true})
			if err != nil {
				t.Fatal(err)
			}
			want(t, teacher.IDs[max(len(teacher.IDs)-len(alone.IDs), 0):], alone.IDs)
		})
	}
}

// TestSitesAreCounted checks that when some sites of a record fail, the others remain, and every one is counted.
func TestSitesAreCounted(t *testing.T) {
	leaks := failedSite(3, 4, `Say I see.<tool_call>edit {"file": "main"}</tool_call> here.`)
	c := run(t, "chatml.jinja",
		distillation("x", nodes(bugHunt), failedSite(1, 2, "Tools: edit."), leaks, nextSite(3, 6, "nobody answers")))
	if c.reasons("site") != "hint_contains_target 1, no_next_turn 1" || len(c.rows) != 1 ||
		len(c.rows[0].Meta.Sites) != 1 {
		t.Errorf("%s: %+v", c.reasons("site"), c.drops)
	}
	ns := nodes(bugHunt)
	ns[1].Sampled = ttc.No
	c = run(t, "chatml.jinja", distillation("x", ns, failedSite(1, 2, "Tools: edit.")))
	if c.reasons("site") != "turn_not_sampled 1" || c.reasons("record") != "turn_not_sampled 1" {
		t.Errorf("%+v", c.drops)
	}
}

// TestD11SitesSurviveTheCut checks that a long trace loses its head, in whole rounds, and that teacher and student lose
// the same.
func TestD11SitesSurviveTheCut(t *testing.T) {
	var ms []chat.Message
	for i := range 6 {
		ms = append(ms,
			says(fmt.Sprintf("user: question %d %s", i, strings.Repeat("x", 100)),
				fmt.Sprintf("assistant: answer %d", i))...)
	}
	n := len(ms)
	ms = append(ms, bugHunt...)
	cfg := toyConfig(t, "chatml.jinja")
	cfg.MaxLength = 420
	c := collate(t, cfg, one([]Item{distillation("x", nodes(ms), failedSite(n+1, n+2, "Tools: edit."))}))
	if len(c.rows) != 1 {
		t.Fatalf("%+v", c.drops)
	}
	student, teacher := decode(t, c.rows[0].Sides[0].IDs), decode(t, c.rows[0].Sides[1].IDs)
	if !strings.HasSuffix(student, failedTurn) || strings.Contains(student, "question 0") ||
		!slices.Contains(c.rows[0].Meta.Flags, "truncated") ||
		strings.Replace(teacher, "<|im_start|>system\nTools: edit.<|im_end|>\n", "", 1) != student ||
		len(c.rows[0].Sides[1].IDs) > cfg.MaxLength {
		t.Errorf("%q", student)
	}
	cfg.MaxLength = 60
	if c := collate(t, cfg,
		one([]Item{distillation("x", nodes(ms), failedSite(n+1, n+2, "Tools: edit."))})); len(c.rows) != 0 ||
		c.reasons("site") != "too_long 1" {
		t.Errorf("%+v", c.drops)
	}
}

// TestSitesWithThinking checks that where the template rewrites history, each site has its own row, rendered as the
// model saw it.
func TestSitesWithThinking(t *testing.T) {
	ms := says("user: q", "assistant: bad", "tool: no", "assistant: better", "user: more", "assistant: bad again",
		"tool: no")
	for i, thought := range map[int]string{1: "hm", 3: "aha", 5: "so"} {
		ms[i].Reasoning, ms[i].ReasoningKey = thought, "reasoning_content"
	}
	c := run(t, "thinking.jinja", distillation("x", nodes(ms), failedSite(1, 2, "One."), failedSite(5, 6, "Two.")))
	if len(c.rows) != 2 {
		t.Fatalf("%d rows: %+v", len(c.rows), c.drops)
	}
	for _, r := range c.rows {
		student, teacher := decode(t, r.Sides[0].IDs), decode(t, r.Sides[1].IDs)
		site := r.Meta.Sites[0].Site
		piece := "<|im_start|>system\n" + []string{"One.", "Two."}[site] + "<|im_end|>\n"
		if r.Weight != 1 || strings.Replace(teacher, piece, "", 1) != student ||
			strings.Contains(student, "hm") != (site == 0) {
			t.Errorf("%v %q", r.Weight, teacher)
		}
	}
	for i := range c.lines {
		pairsOf(t, c, i)
	}
}

// TestSplicesAreVerified checks that damage to a teacher is detected from the files alone.
func TestSplicesAreVerified(t *testing.T) {
	c := run(t, "chatml.jinja", distillation("x", nodes(bugHunt), failedSite(1, 2, "Tools: edit.")))
	r := c.rows[0]
	if err := r.Splices(); err != nil {
		t.Fatal(err)
	}
	for name, damage := range map[string]func(*batch.Row){
		"another token": func(r *batch.Row) { r.Sides[1].IDs[3]++ },
		// Moving by one changes nothing: hint and turn begin with the same token.
		"the hint moved":        func(r *batch.Row) { r.Meta.Sites[0].At += 2 },
		"a shorter hint":        func(r *batch.Row) { r.Meta.Sites[0].Hint-- },
		"a pair before the row": func(r *batch.Row) { r.Meta.Sites[0].Pairs[0].Start = 0 },
		"a pair beyond":         func(r *batch.Row) { r.Meta.Sites[0].Pairs[0].End++ },
		"no site":               func(r *batch.Row) { r.Meta.Sites = nil },
	} {
		t.Run(name, func(t *testing.T) {
			bad := *r
			bad.Sides = []batch.Side{{IDs: slices.Clone(r.Sides[0].IDs)}, {IDs: slices.Clone(r.Sides[1].IDs)}}
			bad.Meta.Sites = slices.Clone(r.Meta.Sites)
			bad.Meta.Sites[0].Pairs = slices.Clone(r.Meta.Sites[0].Pairs)
			damage(&bad)
			if bad.Splices() == nil {
				t.Errorf("%s is not found", name)
			}
		})
	}
	path := filepath.Join(c.dir, "batches", c.lines[0].File)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)-1] ^= 1
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if rep, err := Verify(c.dir, toy(t)); err != nil || len(rep.Problems) == 0 {
		t.Error("a changed file passed verification", err)
	}
}

// TestViewSite checks that a site is displayed with both rows' positions, from the files.
func TestViewSite(t *testing.T) {
	cfg := toyConfig(t, "chatml.jinja")
	for _, cumulative := range []bool{false, true} {
		cfg.Cumulative = cumulative
		c := collate(t, cfg,
			one(
				[]Item{
					distillation("x", nodes(bugHunt), failedSite(1, 2, "Tools: edit."), nextSite(1, 2, "Look again.")),
				},
			))
		for n, hint := range []string{"Tools: edit.", "Look again."} {
			v, err := tokenview.ReadSite(c.dir, n+1, toy(t))
			if err != nil {
				t.Fatal(err)
			}
			r := c.rows[0]
			for _, p := range v.Parts {
				text := strings.Join(p.Tokens, "")
				want(t, decode(t, r.Sides[1+v.Site.Teacher].IDs[p.Teacher[0]:p.Teacher[1]]), text)
				if p.What != tokenview.Hint {
					want(t, decode(t, r.Sides[0].IDs[p.Student[0]:p.Student[1]]), text)
				} else if !strings.Contains(text, hint) {
					t.Errorf("%q is not a hint", text)
				}
				if p.What == tokenview.Target && !strings.HasSuffix(text, "</tool_call><|im_end|>") {
					t.Errorf("%q is not a target", text)
				}
			}
			var b strings.Builder
			if err := v.Print(&b, tokenview.Look{Colour: n == 1}); err != nil || !strings.Contains(b.String(), "+ ") ||
				!strings.Contains(b.String(), "> ") {
				t.Errorf("%v %s", err, b.String())
			}
		}
		_, err := tokenview.ReadSite(c.dir, 3, toy(t))
		if err == nil || !strings.Contains(err.Error(), "the run has 2") {
			t.Error(err)
		}
	}
}

// TestComposerFormat checks that under the reference trainer's names every site has a row, both sides of which end with
// its target; the mask is on where the teacher's logits predict the target, and the student's are equally far from the
// end of its row.
func TestComposerFormat(t *testing.T) {
	cfg := toyConfig(t, "chatml.jinja")
	items := func() []Item {
		return []Item{
			distillation("x", nodes(bugHunt), failedSite(1, 2, "Tools: edit."), nextSite(1, 2, "Look again."),
				failedSite(3, 4, "Edit takes a line.")),
			preference("p", says("user: hi"), "yes", "no"),
		}
	}
	native := collate(t, cfg, one(items()))
	cfg.Layout = batch.Composer
	c := collate(t, cfg, one(items()))
	if len(c.lines) != 2 || c.lines[0].Channel != "dpo" || c.lines[1].Rows != 3 ||
		c.lines[1].NActive != native.lines[1].NActive || len(c.lines[1].Sites) != 3 {
		t.Fatalf("%+v", c.lines)
	}
	for i, names := range [][]string{
		{
			"dpo_chosen_attention_mask", "dpo_chosen_input_ids", "dpo_chosen_position_ids", "dpo_chosen_response_mask",
			"dpo_rejected_attention_mask", "dpo_rejected_input_ids",
			"dpo_rejected_position_ids", "dpo_rejected_response_mask", "row_example", "row_n_active", "row_rollout",
			"row_weight",
		},
		{
			"attention_mask", "ctx_teacher_attention_mask", "ctx_teacher_input_ids", "ctx_teacher_position_ids",
			"input_ids", "position_ids", "response_mask", "row_example", "row_n_active", "row_rollout", "row_weight",
			"sdpo_loss_mask",
		},
	} {
		want(t, slices.Sorted(maps.Keys(tensorsOf(t, c, i))), names)
	}
	x := tensorsOf(t, c, 1)
	student, teacher, mask := x["input_ids"], x["ctx_teacher_input_ids"], ints(t, x["sdpo_loss_mask"])
	want(t, x["sdpo_loss_mask"].Shape, teacher.Shape)
	length := func(name string, row int) int {
		width := x[name].Shape[1]
		return int(sum(ints(t, x[name])[row*width : (row+1)*width]))
	}
	targets := map[string]int{}
	for row := range teacher.Shape[0] {
		hint := length("ctx_teacher_attention_mask", row) - length("attention_mask", row)
		var target []int32
		for pos := range teacher.Shape[1] {
			switch on := mask[row*teacher.Shape[1]+pos]; {
			case on == 1:
				target = append(target, int32(ints(t, teacher)[row*teacher.Shape[1]+pos+1]))
				want(t, ints(t, student)[row*student.Shape[1]+pos-hint+1], int64(target[len(target)-1]))
			case on != 0:
				t.Fatalf("the mask has %d", on)
			}
		}
		targets[decode(t, target)]++
	}
	want(t, targets, map[string]int{`<tool_call>frob {"file": "main"}</tool_call><|im_end|>`: 1, `I see.<tool_call>edit {"file": "main"}</tool_call><|im_end|>`: 2})
	for k, r := range c.rows[1:] {
		want(t, decode(t, r.Sides[0].IDs), decode(t, native.rows[1].Sides[0].IDs)[:len(decode(t, r.Sides[0].IDs))])
		want(t, r.Meta.Part, r.Meta.Sites[0].Site)
		if v, err := tokenview.ReadSite(c.dir, k+1, toy(t)); err != nil || v.StudentRow != v.TeacherRow {
			t.Error(v, err)
		}
	}
	cfg.Cumulative = true
	if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), "cumulative") {
		t.Error(err)
	}
}

// TestD3LengthIsNoAlignment checks that hints that a template trims, that begin with a line break, or whose dots merge
// don't shift anything: the same tokens are compared, however long the hint is.
func TestD3LengthIsNoAlignment(t *testing.T) {
	trims := strings.Replace(noSystem, "m.content }}", "(m.content | trim) }}", 1)
	for _, template := range []string{noSystem, trims, ownTemplate(t, "chatml.jinja")} {
		for _, hint := range []string{
			"  spaces  ", "\n\nline breaks\n", strings.Repeat(". ", 50), "!", strings.Repeat("long ", 300),
		} {
			cfg := toyConfig(t, "chatml.jinja")
			cfg.Template = template
			c := collate(t, cfg, one([]Item{distillation("x", nodes(bugHunt), failedSite(1, 2, hint))}))
			if len(c.rows) != 1 {
				t.Fatalf("%q: %+v", hint, c.drops)
			}
			pairsOf(t, c, 0)
			want(t, decode(t, c.rows[0].Sides[0].IDs),
				strings.TrimPrefix(before,
					map[bool]string{true: "<|im_start|>system\nYou help.<|im_end|>\n"}[!strings.Contains(template,
						"You help.")])+failedTurn)
		}
	}
}

// TestD6ShapesProveNothing checks that a site's record says where its tokens are, and that these are compared, whatever
// the widths.
func TestD6ShapesProveNothing(t *testing.T) {
	c := run(t, "chatml.jinja", distillation("x", nodes(bugHunt), failedSite(1, 2, "Tools: edit.")),
		distillation("y", nodes(bugHunt), nextSite(1, 2, "Look again, closely.")))
	for i := range c.lines {
		for _, p := range pairsOf(t, c, i) {
			if p.Pos == p.At {
				t.Fatalf("teacher and student read at one position: %+v", p)
			}
		}
	}
	for _, r := range c.rows {
		if err := r.Splices(); err != nil {
			t.Error(err)
		}
	}
}

// TestD13AHintIsMadeOnce checks that the hint comes from the record, is the same for every row, and has its hash on the
// batch's line.
func TestD13AHintIsMadeOnce(t *testing.T) {
	c := run(t, "chatml.jinja",
		distillation("x", nodes(bugHunt), failedSite(1, 2, "Tools: edit."), nextSite(1, 2, "Tools: edit.")))
	s := c.lines[0].Sites
	if len(s) != 2 || s[0].HintSHA256 != s[1].HintSHA256 || s[0].HintSHA256 != hexSum("Tools: edit.") {
		t.Errorf("%+v", s)
	}
}

// TestNeutralHints checks that with a neutral hint set, every site also records that hint's tokens: the same ones it
// would have if it were the hint.
func TestNeutralHints(t *testing.T) {
	const neutral = "Look again, please."
	items := func(a, b string) []Item {
		return []Item{distillation("x", nodes(bugHunt), failedSite(1, 2, a), nextSite(1, 2, b))}
	}
	cfg := toyConfig(t, "chatml.jinja")
	said := collate(t, cfg, one(items(neutral, neutral)))
	cfg.Neutral = neutral
	c := collate(t, cfg, one(items("Tools: edit.", "Edit takes a line.")))
	for i, s := range c.rows[0].Meta.Sites {
		want := &said.rows[0].Meta.Sites[i]
		teacher := said.rows[0].Sides[1+want.Teacher].IDs
		if ids := teacher[want.At : want.At+want.Hint]; s.At != want.At || !slices.Equal(s.Neutral, ids) {
			t.Errorf("site %d: neutral %v at %d, want %v at %d", i, s.Neutral, s.At, ids, want.At)
		}
		if want.Neutral != nil {
			t.Error("a neutral hint was recorded although none is set")
		}
	}
}

// TestNullHints checks that a control run has every site of the real run at the same places in the same student, with
// no tokens inserted: teacher and student read the same ids at the same positions, and the files say so and are
// verified.
func TestNullHints(t *testing.T) {
	items := func() []Item {
		return []Item{
			distillation("x", nodes(bugHunt), failedSite(1, 2, "Tools: edit."), nextSite(1, 2, "Look again."),
				failedSite(3, 4, "Edit takes a line.")),
		}
	}
	for _, cumulative := range []bool{false, true} {
		cfg := toyConfig(t, "chatml.jinja")
		cfg.Cumulative = cumulative
		real := collate(t, cfg, one(items()))
		cfg.NullHints = true
		c := collate(t, cfg, one(items()))
		checkNull(t, c)
		if len(c.rows) != 1 || len(c.rows[0].Sides) != len(real.rows[0].Sides) ||
			!slices.Equal(c.rows[0].Sides[0].IDs, real.rows[0].Sides[0].IDs) {
			t.Fatal("the control has another student")
		}
		v, err := tokenview.ReadSite(c.dir, 1, toy(t))
		if err != nil {
			t.Fatal(err)
		}
		var shown strings.Builder
		if err := v.Print(&shown, tokenview.Look{}); err != nil || !strings.Contains(shown.String(), "omitted") ||
			strings.Contains(shown.String(), "\n+ ") {
			t.Error(err, shown.String())
		}
		for i, s := range c.rows[0].Meta.Sites {
			if r := real.rows[0].Meta.Sites[i]; s.At != r.At || !slices.Equal(s.Pairs, r.Pairs) ||
				s.HintSHA256 != r.HintSHA256 {
				t.Errorf("site %d: got %+v, want %+v", i, s, r)
			}
		}
		// Only a control run may have a hint without tokens.
		c.rows[0].Meta.Sites[0].Mode = modeSystem
		if c.rows[0].Splices() == nil {
			t.Error("a hint without tokens was accepted")
		}
		real.rows[0].Meta.Sites[0].Mode = modeNone
		if real.rows[0].Splices() == nil {
			t.Error("a hint with tokens was accepted in a control run")
		}
	}
}

// checkNull checks that a control run's teacher and student have equal ids and positions.
func checkNull(t testing.TB, c *collated) {
	t.Helper()
	n := 0
	for i := range c.lines {
		for _, p := range pairsOf(t, c, i) {
			if n++; p.Pos != p.At {
				t.Fatalf("teacher and student read at different positions: %+v", p)
			}
		}
	}
	for _, r := range c.rows {
		for k := range r.Sides[1:] {
			if ids := r.Sides[1+k].IDs; !slices.Equal(ids, r.Sides[0].IDs[:len(ids)]) {
				t.Fatal("teacher and student are not equal")
			}
		}
		for _, s := range r.Meta.Sites {
			if s.Mode != modeNone || s.Hint != 0 {
				t.Fatalf("%+v", s)
			}
		}
	}
	if n == 0 {
		t.Fatal("no pairs")
	}
}

// TestHintSpan checks which tokens of a turn are paired under each hint_span, with reasoning, text and a call in the
// turn, and that a site whose turn lacks the part is counted.
func TestHintSpan(t *testing.T) {
	ns := nodes(bugHunt)
	ns[1].Message.Reasoning, ns[1].Message.ReasoningKey = "Which tool?", "reasoning_content"
	ns[1].Message.Text, ns[1].Message.Form = "I will edit.", chat.Text
	for part, want := range map[string]string{
		"turn":      "Which tool?\n</think>\n\nI will edit.<tool_call>frob {\"file\": \"main\"}</tool_call><|im_end|>",
		"reasoning": "Which tool?",
		"text":      "\n</think>\n\nI will edit.",
		"call":      "<tool_call>frob {\"file\": \"main\"}</tool_call><|im_end|>",
	} {
		cfg := toyConfig(t, "thinking.jinja")
		cfg.HintSpan = part
		c := collate(t, cfg, one([]Item{distillation("x", ns, failedSite(1, 2, "Tools: edit."))}))
		if len(c.rows) != 1 {
			t.Fatalf("part %s: %d rows, %+v", part, len(c.rows), c.drops)
		}
		if got := strings.Join(trainedTexts(t, &c.rows[0].Sides[0]), "|"); got != want {
			t.Errorf("part %s: got %q, want %q", part, got, want)
		}
		pairsOf(t, c, 0)
	}
	for _, x := range []struct {
		template string
		nodes    []ttc.Node
		more     []builders.Site
		sites    string
		turns    string
	}{
		{"thinking.jinja", nodes(bugHunt), nil, "part_absent 1", ""},
		{"thinking.jinja", ns, []builders.Site{failedSite(3, 4, "Edit takes a line.")}, "part_absent 1", ""},
		{"chatml.jinja", ns, nil, "nothing_to_train 1", "nothing_to_train 1"}, // the template shows none
	} {
		cfg := toyConfig(t, x.template)
		cfg.HintSpan = "reasoning"
		c := collate(t, cfg, one([]Item{distillation("x", x.nodes, append(x.more, failedSite(1, 2, "Tools: edit."))...)}))
		if got, turns := c.reasons("site"), c.reasons("turn"); got != x.sites || turns != x.turns {
			t.Errorf("%s: sites %q, turns %q", x.template, got, turns)
		}
	}
}

// TestContrast checks that each site has the tokens of the next other hint of its task, the same ones that it would have
// as the hint, and that sites without one are counted.
func TestContrast(t *testing.T) {
	group := func(items []Item) iter.Seq2[[]Item, error] {
		return func(yield func([]Item, error) bool) { yield(items, nil) }
	}
	items := func(hints ...string) []Item {
		other := distillation("y", nodes(bugHunt), failedSite(1, 2, hints[2]))
		return []Item{distillation("x", nodes(bugHunt), failedSite(1, 2, hints[0]), nextSite(1, 2, hints[1])), other}
	}
	for _, null := range []bool{false, true} {
		cfg := toyConfig(t, "chatml.jinja")
		cfg.NullHints, cfg.Contrast = null, true
		c := collate(t, cfg, group(items("Tools: edit.", "Edit takes a line.", "Tools: edit.")))
		cfg.NullHints, cfg.Contrast = false, false
		wrong := collate(t, cfg, group(items("Edit takes a line.", "Tools: edit.", "Edit takes a line.")))
		if len(c.rows) != 2 || len(wrong.rows) != 2 {
			t.Fatalf("%d and %d rows: %+v", len(c.rows), len(wrong.rows), c.drops)
		}
		for k := range c.rows {
			if got, all := len(c.rows[k].Meta.Sites), len(wrong.rows[k].Meta.Sites); got != all {
				t.Fatalf("row %d: %d sites of %d", k, got, all)
			}
			for i, s := range c.rows[k].Meta.Sites {
				want := &wrong.rows[k].Meta.Sites[i]
				ids := wrong.rows[k].Sides[1+want.Teacher].IDs[want.At : want.At+want.Hint]
				if null {
					ids = nil
				}
				if s.At != want.At || !slices.Equal(s.Contrast, ids) {
					t.Errorf("row %d, site %d: contrast %v at %d, want %v at %d", k, i, s.Contrast, s.At, ids, want.At)
				}
				if want.Contrast != nil {
					t.Error("a wrong hint was recorded although none is wanted")
				}
			}
		}
	}
	cfg := toyConfig(t, "chatml.jinja")
	cfg.Contrast = true
	c := collate(t, cfg, group(items("Tools: edit.", "Edit takes a line.", "Tools: edit.")))
	c.lines[0].RowInfo[0].Sites[0].Contrast[0] = int32(c.lines[0].VocabSize)
	if _, err := batch.Read(filepath.Join(c.dir, "batches"), &c.lines[0]); err == nil ||
		!strings.Contains(err.Error(), "has an id outside the vocabulary") {
		t.Errorf("a contrast of an unknown token: %v", err)
	}
	all := items("Tools: edit.", "Tools: edit. ", "Edit takes a line.")
	all[1].Record.Record.(*builders.Distillation).Sites[0].HintSource = "command"
	if c := collate(t, cfg, group(all)); c.reasons("site") != "contrast_absent 3" {
		t.Error(c.reasons("site"))
	}
	cfg.MaxLength = 40
	short := collate(t, cfg, group(items("Tools.", "Tools.", strings.Repeat("Edit takes a line. ", 20))))
	if got := short.reasons("site"); got != "too_long 3" {
		t.Errorf("a contrast that is longer than max_length: %s", got)
	}
}
