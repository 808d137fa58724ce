package view

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/e2e"

	"github.com/google/go-cmp/cmp"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/recordlog"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
)

// nodes counts the elements of the page.
const nodes = "document.querySelectorAll('*').length"

// TestViewOfManyRows: a table longer than a browser can lay out can be scrolled from end to end; only the rows near the
// visible ones are in the page, a screen reader is told which rows they are, and the link records the position.
func TestViewOfManyRows(t *testing.T) {
	b := startBrowser(t)
	dir := t.TempDir()
	const rows = 300_000
	writeRows(t, filepath.Join(dir, "train.jsonl"), rows)
	url, stop := viewed(t, e2e.Program(t), dir, "train.jsonl")
	defer stop()
	tab := b.Open(t, url)
	tab.Screen(1280, 900, false)
	show(tab, "#/rows")
	if n := eval[int](tab, "Number(document.querySelector('table').ariaRowCount)"); n != rows+1 {
		t.Errorf("aria-rowcount is %d", n)
	}
	checked := func(where string, first, last int) {
		t.Helper()
		got := seenRows(tab)
		if len(got) < 5 || got[0] < first || got[len(got)-1] > last || got[len(got)-1]-got[0] != len(got)-1 {
			t.Errorf("%s: the rows %v are seen", where, got)
		}
		if n := eval[int](tab, nodes); n > 1500 {
			t.Errorf("%s: %d elements", where, n)
		}
	}
	checked("at the beginning", 1, 40)
	scroll := func(to string) {
		eval[any](tab, "document.querySelector('.window').scrollTop = "+to+`;
			new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(0))))`)
	}
	const height = "document.querySelector('.window').scrollHeight"
	for i := range 20 { // fast, all the way through
		scroll(fmt.Sprintf("%s * %d / 20", height, i))
	}
	checked("after much scrolling", rows*18/20, rows)
	scroll(height)
	checked("at the end", rows-40, rows)
	if got := seenRows(tab); got[len(got)-1] != rows {
		t.Errorf("the last row is not seen at the end: %v", got)
	}
	tab.Await("location.hash.includes('offset=299')")
	show(tab, "#/rows?offset=150000")
	checked("by a link", 150_000, 150_040)
	tab.Key("j")
	tab.Await("document.activeElement.textContent === '150,001' || document.activeElement.textContent === '150,002'")
	for range 30 {
		tab.Key("j")
	}
	tab.Await("document.activeElement.textContent === '150,031' || document.activeElement.textContent === '150,032'")
	checked("after j thirty times", 150_002, 150_050)
	scroll("0")
	checked("away from the row that had the focus", 1, 40)
	if !eval[bool](tab, "document.activeElement.classList.contains('window')") {
		t.Error("the focus is lost with the row that had it")
	}
	show(tab, "#/rows?q=text+contains+%22question+29999%22")
	tab.Await("document.getElementById('total').textContent === '11 found, all records searched'")
	if got := eval[[]string](tab, "[...document.querySelectorAll('.window tbody tr')]"+
		".map((r) => r.cells[0].textContent).slice(0, 2)"); !cmp.Equal(got, []string{"29,999", "299,990"}) {
		t.Errorf("found: %v", got)
	}
	(&viewTest{}).quiet(t, tab)
}

// writeRows writes a file with this many rows, each containing its number.
func writeRows(t *testing.T, path string, rows int) {
	t.Helper()
	var text bytes.Buffer
	for i := range rows {
		const row = `{"messages":[{"role":"user","content":"question %d"},{"role":"assistant","content":"a"}]}` + "\n"
		fmt.Fprintf(&text, row, i+1)
	}
	if err := os.WriteFile(path, text.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
}

// seenRows returns the numbers of the visible rows according to their text, which must match aria-rowindex.
func seenRows(tab *browserTab) []int {
	tab.Await("!document.querySelector('[aria-busy]')")
	return eval[[]int](tab, `(() => {
		const frame = document.querySelector('.window').getBoundingClientRect()
		const top = frame.top + document.querySelector('.window thead').offsetHeight
		return [...document.querySelectorAll('.window tbody tr')].filter((r) => {
			const at = r.getBoundingClientRect()
			return at.bottom > top + 2 && at.top < frame.bottom - 2
		}).map((r) => {
			const n = Number(r.cells[0].textContent.replaceAll(',', ''))
			if (n !== r.ariaRowIndex - 1 || !r.textContent.endsWith('question ' + n)) throw r.outerHTML
			return n
		})
	})()`)
}

// nasty lists texts that a page must show but never act on.
var nasty = []string{
	"</script><script>pwned = 1</script>", `<img src=x onerror="pwned=1">`, `"><svg onload=pwned=1>`,
	"a\x00b\x1b[31m\x7f",
	"\u202eright to left\u202c \u2066isolated\u2069 \u200f", "\xff\xfe not UTF-8",
	"hid\u00adden \u200bletters\u2060 \ufeff and \U000e0041\U000e0042 tags\u2028 \u2029",
	"\xed\xa0\x80 a lone surrogate \xed\xb0\x80",
	"javascript:pwned=1", "{{constructor.constructor('pwned=1')()}}", "<!-- ]]> --!>", strings.Repeat("\u0301", 2000),
}

// nastyRun is a run with an example of a thousand branches, one record each, one of which has a message of 10 MiB, and
// a preference, all of them made of malicious texts.
func nastyRun(t *testing.T, dir string) {
	t.Helper()
	folder := runfolder.Folder(dir)
	if err := os.MkdirAll(folder.Records(), 0o700); err != nil {
		t.Fatal(err)
	}
	w, err := recordlog.Create(folder.Records())
	if err != nil {
		t.Fatal(err)
	}
	messages := []chat.Message{{Role: "user", Form: chat.Text, Text: strings.Join(nasty, "\n")}}
	for i := range 1000 {
		text := nasty[i%len(nasty)]
		messages = append(messages, chat.Message{
			Role: "assistant", Form: chat.Text, Text: text, Reasoning: text,
			ToolCalls: []chat.ToolCall{{ID: text, Name: text, Arguments: text}},
		})
	}
	messages[3].Text = strings.Repeat(nasty[0], 10<<20/len(nasty[0]))
	graph := ttc.Chain(messages, ttc.Yes)
	for i := 1; i < len(graph.Nodes); i++ {
		graph.Nodes[i].Parent = 0
	}
	all := strings.Join(nasty, " ")
	b := recordlog.NewBuilder([]string{nasty[0]})
	b.Begin(&ttc.Group{Key: all, Examples: []*ttc.Example{{
		ID: all, Task: all, Graph: graph,
		Candidates: []ttc.Candidate{
			{Prompt: ttc.Prompt{Text: all}, Output: all}, {Prompt: ttc.Prompt{Text: all}, Output: all + nasty[0]},
		},
	}}})
	ref := func(part builders.Part, c int) builders.Content {
		return builders.Content{Ref: builders.Ref{Part: part, Candidate: c}}
	}
	var records []builders.Record
	for i := range messages[1:] {
		branch := builders.Content{Ref: builders.Ref{Part: builders.NodeSpan, Last: i + 1}}
		records = append(records, &builders.Demonstration{Messages: branch, Weight: 1})
	}
	records = append(records, &builders.Preference{
		Prompt: ref(builders.CandidatePrompt, 0), Chosen: ref(builders.CandidateOutput, 0),
		Rejected: ref(builders.CandidateOutput, 1), ChosenScore: 1,
	})
	for _, r := range records {
		if err := b.Record(0, r); err != nil {
			t.Fatal(err)
		}
	}
	err = errors.Join(w.Append(b.Group()), w.Commit(nil, true), w.Close())
	if err := errors.Join(err, os.WriteFile(folder.Begun(), []byte("{}"), 0o600)); err != nil {
		t.Fatal(err)
	}
}

// TestViewOfHostileRun checks that a browser shows any text of a run as text, within bounds, whether served or in a
// file, and contacts no other host.
func TestViewOfHostileRun(t *testing.T) {
	b := startBrowser(t)
	dir := t.TempDir()
	nastyRun(t, filepath.Join(dir, "r"))
	exe := e2e.Program(t)
	inFolder(t, dir, exe, "view", "r", "--export", "r.html")
	url, stop := viewed(t, exe, dir, "r")
	defer stop()
	served, _, _ := strings.Cut(url, "?")
	for name, c := range map[string]struct{ url, base string }{
		"served": {url, served}, "exported": {"file://" + filepath.Join(dir, "r.html"), "file://" + dir},
	} {
		t.Run(name, func(t *testing.T) {
			tab := b.Open(t, c.url)
			tab.Screen(1280, 900, false)
			for hash, want := range map[string]string{
				"#/overview":                         "builder",
				"#/rows":                             "1,001 records",
				"#/rows?q=text+contains+%22pwned%22": "</script>",
				"#/record?n=1":                       "200 other branches",
				"#/record?n=500":                     "previous in the group",
				"#/record?n=3":                       "more bytes",
				"#/record?n=1001":                    "rejected",
				"#/drops":                            "Left out",
				"#/tokens":                           "Rows of",
			} {
				show(tab, hash)
				tab.Await("document.getElementById('main').innerText.includes(" + quote(want) + ")")
				eval[any](tab, "document.querySelectorAll('details').forEach((d) => { d.open = true }); 0")
				found := eval[[]string](tab, `[
					...[...document.querySelectorAll('main *')]
						.filter((e) => /^(script|img|svg|iframe|style|object|embed)$/i.test(e.tagName) ||
							[...e.attributes].some((a) => /^on/i.test(a.name) || /^\s*javascript:/i.test(a.value)))
						.map((e) => e.outerHTML.slice(0, 200)),
					...('pwned' in globalThis ? ['a script of the data has run'] : []),
					...([/[\u0000-\u0008\u001b\u007f\u00ad\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]/u,
						/[\ud800-\udfff\u{e0000}-\u{e007f}]/u]
						.some((unseen) => unseen.test(document.body.textContent + document.title))
						? ['a control character is shown as it is'] : []),
				]`)
				if diff := cmp.Diff([]string{}, found); diff != "" {
					t.Errorf("%s: %s", hash, diff)
				}
				if n := eval[int](tab, nodes); n > 20_000 {
					t.Errorf("%s: %d elements", hash, n)
				}
				if n := eval[int](tab, "document.getElementById('main').textContent.length"); n > 4<<20 {
					t.Errorf("%s: %d characters", hash, n)
				}
			}
			(&viewTest{}).quiet(t, tab)
			for _, r := range tab.Requests() {
				if !strings.HasPrefix(r, c.base) && !strings.HasPrefix(r, "data:") {
					t.Errorf("the page asks %s", r)
				}
			}
		})
	}
}

func quote(text string) string {
	b, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// TestExportHoldsNoSecret: nothing that redaction removed from a session is in any member of an exported file.
func TestExportHoldsNoSecret(t *testing.T) {
	dir := t.TempDir()
	secrets := []string{"AKIA" + "IOSFODNN7QZTKW3P", "jane.doe@acme.org"}
	session := `{"schema_version":"ATIF-v1.7","session_id":"s","agent":{"name":"a","version":"1"},"steps":[` +
		`{"source":"user","message":"my key is ` + secrets[0] + `"},` +
		`{"source":"agent","message":"I told ` + secrets[1] + ` of ` + secrets[0] +
		`","reasoning_content":"` + secrets[0] + `"}]}`
	for name, text := range map[string]string{
		"s.json": session,
		"finetune.yml": `sources: {runs: {_type: atif, path: s.json}}
trajectory_builders: {best: {_type: sft_traj_builder, from: rollouts, select: all}}
dataset: {formats: [trl], split: {validation: 0}}
finetuning: {enabled: true, trajectory_builder: best, output_dir: out}
`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	exe := e2e.Program(t)
	inFolder(t, dir, exe, "finetune", "run", "--config-file", "finetune.yml", "--run-id", "r")
	inFolder(t, dir, exe, "view", "out/r", "--export", "r.html")
	held := exportedText(t, filepath.Join(dir, "r.html"))
	for _, s := range secrets {
		if strings.Contains(held, s) {
			t.Errorf("the file holds %s", s)
		}
	}
	if !strings.Contains(held, "my key is ") || !strings.Contains(held, "REDACTED") {
		t.Errorf("the file does not hold the session: %.2000s", held)
	}
}

// exportedText returns an exported file with its members decoded to JSON.
func exportedText(t *testing.T, path string) string {
	t.Helper()
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	between := func(begin, end string) string {
		_, rest, ok := strings.Cut(string(page), begin)
		text, _, closed := strings.Cut(rest, end)
		if !ok || !closed {
			t.Fatalf("the file has no %s", begin)
		}
		return text
	}
	data := between(`id="data">`, "</script>")
	var index struct{ Members [][2]int }
	err = json.Unmarshal([]byte(between(`id="index">`, "</script>")), &index)
	if err != nil || len(index.Members) == 0 {
		t.Fatalf("%d members, %v", len(index.Members), err)
	}
	text := string(page)
	for _, m := range index.Members {
		packed, err := base64.StdEncoding.DecodeString(data[m[0] : m[0]+m[1]])
		if err != nil {
			t.Fatal(err)
		}
		z, err := gzip.NewReader(bytes.NewReader(packed))
		if err != nil {
			t.Fatal(err)
		}
		member, err := io.ReadAll(z)
		if err != nil {
			t.Fatal(err)
		}
		text += strings.NewReplacer(`\u003c`, "<", `\u003e`, ">").Replace(string(member))
	}
	return text
}

// addPair adds a pair to the log of a run and syncs it to disk.
func addPair(t *testing.T, w *recordlog.Writer, b *recordlog.Builder, key string) {
	t.Helper()
	b.Begin(&ttc.Group{Key: key, Examples: []*ttc.Example{{
		ID: key, Candidates: []ttc.Candidate{{Prompt: ttc.Prompt{Text: "p"}, Output: key}, {Output: "other"}},
	}}})
	ref := func(part builders.Part, c int) builders.Content {
		return builders.Content{Ref: builders.Ref{Part: part, Candidate: c}}
	}
	err := b.Record(0, &builders.Preference{
		Prompt: ref(builders.CandidatePrompt, 0), Chosen: ref(builders.CandidateOutput, 0),
		Rejected: ref(builders.CandidateOutput, 1), ChosenScore: 1,
	})
	if err := errors.Join(err, w.Append(b.Group()), w.Commit(nil, true)); err != nil {
		t.Fatal(err)
	}
}

// TestViewOfRunInProgress: the stages of a run in progress are kept up to date without reopening the page, until the
// run ends.
func TestViewOfRunInProgress(t *testing.T) {
	b := startBrowser(t)
	dir := t.TempDir()
	folder := runfolder.Folder(filepath.Join(dir, "r"))
	lock, err := folder.Create("test")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(folder.Records(), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(folder.Begun(), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	w, err := recordlog.Create(folder.Records())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	builder := recordlog.NewBuilder([]string{"b"})
	add := func(key string) { addPair(t, w, builder, key) }
	add("one")
	url, stop := viewed(t, e2e.Program(t), dir, "r")
	defer stop()
	tab := b.Open(t, url)
	tab.Await("document.getElementById('stages')?.innerText.includes('1 record,')")
	if text := tab.Text("h2"); text != "Run r: running" {
		t.Error(text)
	}
	add("two")
	tab.Await("document.getElementById('stages')?.innerText.includes('2 records,')")
	if err := os.MkdirAll(folder.Format("trl"), 0o700); err != nil {
		t.Fatal(err)
	}
	tab.Await("document.getElementById('stages')?.innerText.includes('write trl')")
	show(tab, "#/rows")
	asked := "performance.getEntriesByType('resource').filter((r) => r.name.includes('/api/overview')).length"
	before := eval[int](tab, asked)
	eval[any](tab, "new Promise((done) => setTimeout(() => done(0), 2500))")
	if after := eval[int](tab, asked); after != before {
		t.Error("a page that was left keeps sending requests")
	}
	show(tab, "#/overview")
	lock.Close()
	tab.Await("document.querySelector('h2').innerText === 'Run r: interrupted'")
	(&viewTest{}).quiet(t, tab)
}
