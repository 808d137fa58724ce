package view

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/e2e"

	"github.com/google/go-cmp/cmp"

	"github.com/nat-go/nat-go/collator/batch"
	"github.com/nat-go/nat-go/collator/tokenizer"
	"github.com/nat-go/nat-go/internal/tensors"
)

const longRow = 200_000 // tokens

// tokenRun writes a run containing a row of longRow tokens, and one whose tokens have log-probs.
func tokenRun(t *testing.T, dir, exe string) {
	t.Helper()
	folder, err := filepath.Abs("../../../../../examples/hints/tokenizer")
	if err != nil {
		t.Fatal(err)
	}
	tok, err := tokenizer.Load(filepath.Join(folder, "tokenizer.json"))
	if err != nil {
		t.Fatal(err)
	}
	defer tok.Close()
	const text = "There is a small room, and a large room with video; it is free, as the calendar says."
	enc, err := tok.Encode(text, tokenizer.Options{})
	if err != nil {
		t.Fatal(err)
	}
	end, _ := tok.ID("<|im_end|>")
	ids, logProbs := append(enc.IDs, end), []float64{}
	for k := range ids {
		logProbs = append(logProbs, -float64(k%7)/3)
	}
	var lines strings.Builder
	for _, trace := range []map[string]any{
		{"id": "long", "task_id": "a", "messages": []any{
			map[string]any{"role": "user", "content": "Say it. \U0001f600"},
			map[string]any{"role": "assistant", "content": "room" + strings.Repeat(" room", longRow) + " \U0001f600"},
		}},
		{"id": "sampled", "task_id": "b", "model": "me", "reward": 1, "messages": []any{
			map[string]any{"role": "user", "content": "Which rooms are there?"},
			map[string]any{
				"role": "assistant", "content": text, "token_ids": ids, "logprobs": logProbs, "finish_reason": "stop",
			},
		}},
	} {
		line, err := json.Marshal(trace)
		if err != nil {
			t.Fatal(err)
		}
		lines.Write(append(line, '\n'))
	}
	for name, text := range map[string]string{
		"traces.jsonl": lines.String(),
		"finetune.yml": `sources: {runs: {_type: traces, path: traces.jsonl}}
trajectory_builders:
  best: {_type: sft_traj_builder, from: rollouts, select: all}
  tasks: {_type: grpo_traj_builder}
collator: {tokenizer: "` + folder + `", policy: me, max_length: 300000, batch_tokens: 300000}
dataset: {formats: [sft_parquet], split: {validation: 0}}
finetuning: {enabled: true, trajectory_builder: [best, tasks], output_dir: out}
`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	inFolder(t, dir, exe, "finetune", "run", "--config-file", "finetune.yml", "--run-id", "r")
}

// TestViewOfLongRows: a row of 200,000 tokens can be scrolled from end to end; what is in the page, and what is
// requested, stays within bounds. Log-probs are drawn as heat on the trained tokens.
func TestViewOfLongRows(t *testing.T) {
	if !e2e.WithTokenizers() {
		t.Skip("SKIPPED: without the tokenizer library there are no rows of tokens")
	}
	b := startBrowser(t)
	dir, exe := t.TempDir(), e2e.Program(t)
	tokenRun(t, dir, exe)
	url, stop := viewed(t, exe, dir, "out/r")
	defer stop()
	tab := b.Open(t, url)
	tab.Screen(1280, 900, false)
	refs := eval[map[string]string](tab, asked("batches?limit=200")+
		".then((a) => Object.fromEntries(a.rows.map((r) => [r.channel + ' ' + r.example, r.ref])))")
	show(tab, "#/tokens?ref="+refs["sft long"])
	if text := tab.Text("main"); !strings.Contains(text, "row: 200,0") {
		t.Errorf("it is not the long row: %.500s", text)
	}
	const drawn = "document.querySelectorAll('.tokens span').length"
	for i := range 9 {
		eval[any](tab, fmt.Sprintf("scrollTo(0, document.documentElement.scrollHeight * %d / 8); 0", i))
		tab.Await(`[...document.querySelectorAll('.piece')].some((p) => {
			const at = p.getBoundingClientRect()
			return p.childElementCount && at.top < innerHeight && at.bottom > 0
		})`)
		if n := eval[int](tab, drawn); n > 6*1024 {
			t.Errorf("at %d/8: %d tokens are in the page", i, n)
		}
		if n := eval[int](tab, nodes); n > 9000 {
			t.Errorf("at %d/8: %d elements", i, n)
		}
	}
	eval[any](tab, "location.hash = '#/tokens?ref="+refs["sft long"]+"&at=199999'; 0")
	tab.Await("document.querySelector('.tokens [aria-current]')?.dataset.position === '199999'")
	if text := tab.Text("#token"); !strings.HasPrefix(text, "199999: id ") || !strings.Contains(text, "bytes ") {
		t.Errorf("a token near the end: %s", text)
	}
	answers := eval[[]int](tab, `performance.getEntriesByType('resource')
		.filter((r) => r.name.includes('/api/')).map((r) => r.encodedBodySize)`)
	if most := slices.Max(answers); len(answers) > 120 || most > 256<<10 {
		t.Errorf("%d answers, the largest has %d bytes", len(answers), most)
	}
	logProbsAreHeat(t, tab, refs["rl sampled"])
	onlyTrainedTokensAreHot(t, tab, refs["rl sampled"])
	(&viewTest{}).quiet(t, tab)
}

// logProbsAreHeat: each trained token of the row has the colour of its log-prob, and no other token has one.
func logProbsAreHeat(t *testing.T, tab *browserTab, ref string) {
	t.Helper()
	show(tab, "#/tokens?ref="+ref+"&heat=logprob")
	tab.Await("document.querySelector('.tokens .heat')")
	got := eval[[]string](tab,
		"[...document.querySelectorAll('.tokens .heat')].map((s) => s.className.slice(-1))")
	var want []string
	for k := range got {
		want = append(want, []string{"0", "1", "2", "2", "3", "3", "3"}[k%7])
	}
	if diff := cmp.Diff(want, got); diff != "" || len(got) < 10 {
		t.Errorf("the heat of %d tokens: %s", len(got), diff)
	}
	if n := eval[int](tab, "document.querySelectorAll('.tokens .heat:not(.trained)').length"); n > 0 {
		t.Errorf("%d tokens that are not trained are hot", n)
	}
	colours := eval[[]string](tab, `['0', '1', '2', '3'].map((n) =>
		getComputedStyle(document.querySelector('.tokens .heat-' + n)).backgroundColor)`)
	slices.Sort(colours)
	if n := len(slices.Compact(colours)); n != 4 {
		t.Errorf("four steps of heat have %d colours", n)
	}
}

// onlyTrainedTokensAreHot: tokens that aren't trained have no colour of a log-prob, even if the answer gives them one.
func onlyTrainedTokensAreHot(t *testing.T, tab *browserTab, ref string) {
	t.Helper()
	show(tab, "#/rows")
	eval[any](tab, `globalThis.ask = fetch
		globalThis.fetch = async (...all) => {
			const answer = await globalThis.ask(...all)
			if (!String(all[0]).includes('/api/tokens?')) return answer
			const body = await answer.json()
			for (const t of body.tokens) t.log_prob = -3
			return Response.json(body)
		}
		0`)
	show(tab, "#/tokens?ref="+ref+"&heat=logprob")
	tab.Await("document.querySelector('.tokens .heat')")
	hot := eval[map[string]int](tab, `Object.fromEntries([true, false].map((trained) => {
		const some = [...document.querySelectorAll('.tokens span')].filter((s) =>
			s.token.log_prob === -3 && s.token.trained === trained)
		return [trained, some.length && some.filter((s) => s.classList.contains('heat')).length / some.length]
	}))`)
	if diff := cmp.Diff(map[string]int{"true": 1, "false": 0}, hot); diff != "" {
		t.Errorf("the shares of hot tokens among those that are trained, and those that are not: %s", diff)
	}
	if n := eval[int](tab, "document.querySelectorAll('.tokens span:not(.trained)').length"); n == 0 {
		t.Error("the row has no token that isn't trained")
	}
	eval[any](tab, "globalThis.fetch = globalThis.ask; 0")
}

// TestViewOfHintEffects: the effect of a hint on the predictions is drawn as heat, with each token in the step that the
// batch gives it.
func TestViewOfHintEffects(t *testing.T) {
	if !e2e.WithTokenizers() {
		t.Skip("SKIPPED: without the tokenizer library there are no rows of tokens")
	}
	b := startBrowser(t)
	work := t.TempDir()
	if err := os.CopyFS(work, os.DirFS(filepath.Join("..", "..", "..", "..", "..", "examples"))); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(work, "hints-logits")
	scorer := filepath.Join(dir, "out", "logits-scorer")
	if out, err := exec.Command("go", "build", "-o", scorer, "../../../../../examples/logits-scorer").
		CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	exe := e2e.Program(t)
	inFolder(t, dir, exe, "finetune", "run", "--config_file", "finetune.yml", "--run-id", "r")
	batches := filepath.Join(dir, "out", "r", "batches")
	index, err := batch.ReadIndex(filepath.Join(batches, batch.IndexName))
	if err != nil || len(index) != 1 {
		t.Fatalf("%d batches, %v", len(index), err)
	}
	want := effectSteps(t, filepath.Join(batches, filepath.FromSlash(index[0].File)))
	url, stop := viewed(t, exe, dir, "out/r")
	defer stop()
	tab := b.Open(t, url)
	tab.Screen(1280, tall, false)
	got := make([]int, 5)
	for row := range index[0].Rows {
		show(tab, fmt.Sprintf("#/tokens?ref=%s:%d&heat=hint", index[0].File, row+1))
		tab.Await("document.querySelector('.tokens .heat')")
		for i, n := range eval[[]int](tab, `[0, 1, 2, 3, 4].map((n) =>
			document.querySelectorAll('.tokens .heat-' + n).length)`) {
			got[i] += n
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("tokens by steps of heat: %s", diff)
	}
	(&viewTest{}).quiet(t, tab)
}

// effectSteps counts the tokens of a batch by the heat steps of their hints' effects.
func effectSteps(t *testing.T, path string) []int {
	t.Helper()
	file, err := tensors.OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	column, err := file.Read(batch.PairJSD)
	if err != nil {
		t.Fatal(err)
	}
	effects, err := tensors.Items[float32](column)
	if err != nil {
		t.Fatal(err)
	}
	want := make([]int, 5)
	for _, e := range effects {
		step := 0
		for _, least := range []float32{0.001, 0.01, 0.05, 0.2} {
			if e > least {
				step++
			}
		}
		want[step]++
	}
	return want
}
