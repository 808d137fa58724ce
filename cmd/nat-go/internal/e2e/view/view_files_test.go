package view

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	neturl "net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/e2e"

	"github.com/nat-go/nat-go/internal/pythontest"
)

// seenOnPages is what the pages of a run show, in the form that compare.py reads.
type seenOnPages struct {
	Rows   []map[string]string `json:"rows"`
	Pairs  []any               `json:"pairs"`
	Tokens []any               `json:"tokens"`
	Drops  [][]string          `json:"drops"`
	Losses [][]string          `json:"losses"` // the same on the overview
}

// TestViewShowsTheFiles: what the screen shows is what the files contain, as read by another program.
func TestViewShowsTheFiles(t *testing.T) {
	if !e2e.WithTokenizers() {
		t.Skip("SKIPPED: without the tokenizer library there are no masks to look at")
	}
	python := pythontest.Need(t, "python", "import safetensors.numpy", "no page was compared with the files")
	b := startBrowser(t)
	exe := e2e.Program(t)
	for _, c := range []struct {
		example             string
		rows, pairs, tokens int
	}{{"demo", 200, 200, 193}, {"hints", 0, 0, 7}} {
		t.Run(c.example, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), c.example)
			if err := os.CopyFS(dir, os.DirFS("../../../../../examples/"+c.example)); err != nil {
				t.Fatal(err)
			}
			tokenizer, err := filepath.Abs("../../../../../examples/hints/tokenizer")
			if err != nil {
				t.Fatal(err)
			}
			inFolder(t, dir, exe, "run", "--config-file", "finetune.yml", "--run-id", "r",
				"-o", "collator.tokenizer="+tokenizer)
			url, stop := viewed(t, exe, dir, "out/r")
			tab := b.Open(t, url)
			tab.Screen(1280, tall, false)
			draw := rand.New(rand.NewPCG(1, 2))
			seen := seenOnPages{
				Rows: someRows(tab, draw, c.rows), Pairs: somePairs(tab, draw, c.pairs),
				Tokens: someTokens(tab, draw, c.tokens),
			}
			show(tab, "#/drops")
			seen.Drops = eval[[][]string](tab, `document.querySelector('main table')
				.querySelectorAll('tbody tr').values().map((r) => [...r.cells].slice(0, 3)
				.map((c) => c.textContent)).toArray()`)
			show(tab, "#/overview")
			seen.Losses = eval[[][]string](tab, `document.querySelector('[aria-label="What was left out"]')
				.querySelectorAll('tbody tr').values().map((r) => [...r.cells].slice(0, 4)
				.map((c) => c.textContent)).toArray()`)
			stop()
			text, err := json.Marshal(seen)
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, "seen.json")
			if err := os.WriteFile(path, text, 0o600); err != nil {
				t.Fatal(err)
			}
			compare := exec.Command(python, "testdata/view/compare.py", filepath.Join(dir, "out", "r"), path)
			out, err := compare.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			t.Logf("compared: %s", out)
		})
	}
}

// total returns how many items there are of the kind that a page lists.
func total(tab *browserTab, what string) int {
	return eval[int](tab, asked(what+"?limit=1")+".then((a) => a.total)")
}

// asked returns a request to the server, in JavaScript.
func asked(what string) string {
	return "fetch('/api/" + what + "', {headers: {'X-Nat-Go-Token': " +
		"new URLSearchParams(location.search).get('token')}}).then((r) => r.json())"
}

// someRows returns rows of the table, each of them once, few of them from the same window.
func someRows(tab *browserTab, draw *rand.Rand, n int) (rows []map[string]string) {
	const some = 20
	all, seen := total(tab, "rows"), map[string]bool{}
	for len(rows) < n {
		show(tab, fmt.Sprintf("#/rows?offset=%d", draw.IntN(all-some)))
		window := eval[[]map[string]string](tab, `(() => {
			const names = [...document.querySelectorAll('main thead th')].map((c) => c.textContent)
			return [...document.querySelectorAll('main tbody tr')].map((r) =>
				Object.fromEntries([...r.cells].map((c, i) => [names[i], c.textContent])))
		})()`)
		draw.Shuffle(len(window), func(i, j int) { window[i], window[j] = window[j], window[i] })
		for _, row := range window[:min(some, len(window), n-len(rows))] {
			if !seen[row["record"]] {
				seen[row["record"]] = true
				rows = append(rows, row)
			}
		}
	}
	return rows
}

func somePairs(tab *browserTab, draw *rand.Rand, n int) (pairs []any) {
	for _, i := range draw.Perm(total(tab, "rows"))[:n] {
		record := i + 1
		show(tab, fmt.Sprintf("#/record?n=%d", record))
		eval[any](tab, "document.querySelector('.written').open = true; 0")
		tab.Await("document.querySelector('.written pre')")
		pairs = append(pairs, eval[any](tab, fmt.Sprintf(`({
			record: %d,
			facts: [...document.querySelectorAll('main > ul:first-of-type > li')].map((f) => f.textContent),
			prompt: [...document.querySelectorAll('main > details:first-of-type pre')].map((p) => p.textContent),
			chosen: document.querySelector('.chosen pre').textContent,
			rejected: document.querySelector('.rejected pre').textContent,
			written: Object.fromEntries([...document.querySelectorAll('.written section')].map((s) =>
				[s.querySelector('h3').textContent, s.querySelector('pre').textContent])),
		})`, record)))
	}
	return pairs
}

func someTokens(tab *browserTab, draw *rand.Rand, n int) (rows []any) {
	refs := eval[[]string](tab, asked("batches?limit=200")+".then((a) => a.rows.map((r) => r.ref))")
	draw.Shuffle(len(refs), func(i, j int) { refs[i], refs[j] = refs[j], refs[i] })
	for _, ref := range refs[:min(n, len(refs))] {
		show(tab, "#/tokens?"+neturl.Values{"ref": {ref}}.Encode())
		text, _ := json.Marshal(ref)
		rows = append(rows, eval[any](tab, fmt.Sprintf(`(() => {
			const names = [...document.querySelectorAll('main > .beside:not(.tokens) h3')]
				.map((h) => h.textContent.split(':')[0])
			return {ref: %s, sides: names, tokens: names.map((_, side) =>
				[...document.querySelectorAll('.tokens span[data-side="' + side + '"]')].map((s) =>
					[Number(s.dataset.position), Number(s.dataset.id), s.className]))}
		})()`, text)))
	}
	return rows
}
