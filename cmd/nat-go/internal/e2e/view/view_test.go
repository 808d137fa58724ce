package view

import (
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	neturl "net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/e2e"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/google/go-cmp/cmp"
)

// TestView has a browser show every page of a run, from the server and from a file: the screen shows what is in the
// files, every key does what the page says, the pages are accessible, other pages can't read or change anything, and
// nothing is reported on the console.
func TestView(t *testing.T) {
	b := startBrowser(t, chromedp.Flag("host-resolver-rules", "MAP evil.example 127.0.0.1"))
	dir := filepath.Join(t.TempDir(), "hints")
	if err := os.CopyFS(dir, os.DirFS("../../../../../examples/hints")); err != nil {
		t.Fatal(err)
	}
	exe := e2e.Program(t)
	args := []string{"finetune", "run", "--config-file", "finetune.yml", "--run-id", "r"}
	if e2e.WithTokenizers() {
		args = append(args, "-o", "collator.tokenizer=tokenizer", "-o", "collator.policy=booker-1")
	}
	inFolder(t, dir, exe, args...)
	url, stop := viewed(t, exe, dir, "out/r", "out/r")
	v := viewTest{b: b, dir: dir, exe: exe, url: url}
	t.Run("pages", v.pages)
	t.Run("accessibility", v.accessibility)
	t.Run("keys", v.keys)
	t.Run("slow answers", v.slowAnswers)
	t.Run("another page", v.anotherPage)
	t.Run("exported", v.exported)
	stop()
}

func inFolder(t *testing.T, dir, exe string, args ...string) string {
	t.Helper()
	cmd := exec.Command(exe, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

type viewTest struct {
	b             *chromium
	dir, exe, url string
}

// viewPages lists the pages by hash, and what they must show.
func viewPages() map[string][]string {
	pages := map[string][]string{
		"#/overview":                            {"Run r: completed", "no_error_site", "preference"},
		"#/rows?q=kind+%3D%3D+%22preference%22": {"3 records", "video-0"},
		"#/record?n=1":                          {"record 1, preference", "find_slot", "chosen"},
		"#/record?n=3":                          {"record 3, distillation", "hint from", "search_calendar"},
		"#/drops?reason=repeated_failure":       {"Left out: repeated_failure", "The same call failed"},
		"#/compare":                             {"alike", "error sites"},
		"#/tokens":                              {"token batches"},
	}
	if e2e.WithTokenizers() {
		pages["#/tokens?ref=sdpo%2Ftrain%2F00000.safetensors%3A1"] = []string{
			"student: 323 tokens, 31 trained", "teacher: 352 tokens, 31 trained", "on policy: ", "<|im_start|>",
		}
		pages["#/tokens?ref=dpo%2Ftrain%2F00000.safetensors%3A1"] = []string{
			"chosen: 323 tokens, 30 trained", "rejected",
		}
	}
	return pages
}

// show goes to a page and waits until it has loaded.
func show(tab *browserTab, hash string) {
	text, _ := json.Marshal(hash)
	eval[any](tab, "location.hash = "+string(text)+"; 0")
	tab.Await("document.getElementById('main').dataset.shown === " + string(text) +
		" && !document.querySelector('[aria-busy]') && [...document.querySelectorAll('.piece')].every((p) => " +
		"p.childElementCount || p.getBoundingClientRect().top > innerHeight)")
}

// tall is the height of a window that fits all of a page.
const tall = 6000

func (v *viewTest) quiet(t *testing.T, tab *browserTab) {
	t.Helper()
	for _, c := range tab.Complaints() {
		t.Errorf("the browser complains: %s", c)
	}
}

func (v *viewTest) pages(t *testing.T) {
	tab := v.b.Open(t, v.url)
	tab.Screen(1280, tall, false)
	for hash, want := range viewPages() {
		show(tab, hash)
		text := tab.Text("main")
		for _, w := range want {
			if !strings.Contains(text, w) {
				t.Errorf("%s: %q is not on the page:\n%s", hash, w, text)
			}
		}
	}
	show(tab, "#/record?n=1")
	if n := eval[int](tab, "document.querySelectorAll('.chosen mark').length"); n == 0 {
		t.Error("no word of the chosen answer is marked")
	}
	eval[any](tab, "document.querySelector('.written').open = true; 0")
	tab.Await("document.querySelector('.written pre')")
	text := tab.Text(".written")
	if !strings.Contains(text, "trl: trl/train.jsonl:1") || !strings.Contains(text, `{"prompt": [`) {
		t.Errorf("the written row is missing: %s", text)
	}
	if e2e.WithTokenizers() {
		show(tab, "#/tokens?ref=sdpo%2Ftrain%2F00000.safetensors%3A1")
		for _, class := range []string{"trained", "context", "hint", "filler"} {
			tab.Await("document.querySelector('.tokens ." + class + "')")
		}
		splice := eval[[]int](tab,
			"[...document.querySelector('.splice').children].map((c) => c.childElementCount)")
		if len(splice) != 2 || splice[0] != 0 || splice[1] == 0 {
			t.Errorf("where the hint is spliced in, the student has %v tokens", splice)
		}
	}
	v.charts(t, tab)
	v.quiet(t, tab)
	show(tab, "#/record?n=999")
	if text := tab.Text("#status"); text != "no record 999: the last is 13" {
		t.Errorf("of a record that isn't there: %s", text)
	}
	for _, c := range tab.Complaints() {
		if !strings.Contains(c, "404") { // requested on purpose
			t.Errorf("the browser complains: %s", c)
		}
	}
	base, _, _ := strings.Cut(v.url, "?")
	for _, r := range tab.Requests() {
		if !strings.HasPrefix(r, base) {
			t.Errorf("the page asks %s", r)
		}
	}
	tab.Paper()
	show(tab, "#/record?n=1")
	if eval[bool](tab, "getComputedStyle(document.querySelector('nav')).display !== 'none'") {
		t.Error("the navigation is printed")
	}
}

// charts: each distribution is drawn in the colours of the theme, and clicking a bar does the same as clicking its line
// in the list.
func (v *viewTest) charts(t *testing.T, tab *browserTab) {
	const bar = `[...document.querySelectorAll('.card')].find((c) => c.ariaLabel === 'score or reward')`
	// The colour of most pixels, read from a copy: the browser complains if a chart's own canvas is read twice.
	const ink = `(() => {
		const c = ` + bar + `.querySelector('canvas')
		const copy = new OffscreenCanvas(c.width, c.height).getContext('2d', {willReadFrequently: true})
		copy.drawImage(c, 0, 0)
		const px = copy.getImageData(0, 0, c.width, c.height).data
		const seen = {}
		for (let i = 0; i < px.length; i += 4) if (px[i + 3] === 255) {
			const rgb = px.slice(i, i + 3).join(' ')
			seen[rgb] = (seen[rgb] ?? 0) + 1
		}
		return Object.entries(seen).sort((a, b) => b[1] - a[1])[0]?.[0] ?? 'nothing'
	})()`
	for _, theme := range []struct {
		dark bool
		ink  string
	}{{false, "0 114 178"}, {true, "86 180 233"}} {
		tab.Screen(1280, tall, theme.dark)
		show(tab, "#/overview")
		tab.Await("document.querySelectorAll('.chart canvas').length === document.querySelectorAll('.chart').length")
		tab.Await(ink + " === '" + theme.ink + "'") // charts are drawn anew after the theme has changed
	}
	names := eval[[]string](tab,
		"[...document.querySelectorAll('.card:has(.chart)')].map((c) => c.ariaLabel)")
	want := []string{
		"margin", "score or reward", "length in characters", "turns", "messages", "share of trained tokens",
		"error sites",
		"spread of rewards in a group",
	}
	if !e2e.WithTokenizers() {
		want = slices.DeleteFunc(want, func(name string) bool { return strings.HasPrefix(name, "share") })
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("the charts: %s", diff)
	}
	listed := eval[string](tab, bar+".querySelector('details a').hash")
	at := eval[[]float64](tab, `(() => {
		const r = `+bar+`.querySelector('.u-over').getBoundingClientRect()
		return [r.left + 3, r.top + r.height / 2]
	})()`)
	tab.Do(chromedp.MouseClickXY(at[0], at[1]))
	tab.Await("location.hash.startsWith('#/rows')")
	if clicked := eval[string](tab, "location.hash"); clicked != listed {
		t.Errorf("a click on the first bar shows %s, its line in the list %s", clicked, listed)
	}
	tab.Await("document.getElementById('main').dataset.shown === location.hash")
	if text := tab.Text("main"); !strings.Contains(text, "1 record\n") {
		t.Errorf("the records of the first bar: %s", text)
	}
	tab.Screen(1280, tall, false)
}

func (v *viewTest) accessibility(t *testing.T) {
	axe := axeSource(t, filepath.Join("..", "..", "..", "..", ".."))
	tab := v.b.Open(t, v.url)
	for _, screen := range []struct {
		width int64
		dark  bool
	}{{1280, false}, {1280, true}, {400, false}, {400, true}} {
		tab.Screen(screen.width, 900, screen.dark)
		back := eval[string](tab, "getComputedStyle(document.body).backgroundColor")
		if dark := back != "rgb(255, 255, 255)"; dark != screen.dark {
			t.Errorf("in a dark theme %v the background is %s", screen.dark, back)
		}
		for hash := range viewPages() {
			show(tab, hash)
			if wide := eval[int64](tab, "document.documentElement.scrollWidth"); wide > screen.width {
				t.Errorf("%s is %d pixels wide on a screen of %d", hash, wide, screen.width)
			}
			for _, violation := range tab.Violations(axe) {
				t.Errorf("%s, %+v: %s", hash, screen, violation)
			}
		}
		tab.Key("?")
		tab.Await("document.getElementById('keys').open")
		for _, violation := range tab.Violations(axe) {
			t.Errorf("keys, %+v: %s", screen, violation)
		}
		tab.Key(kb.Escape)
		tab.Await("!document.getElementById('keys').open")
	}
	v.quiet(t, tab)
}

func (v *viewTest) keys(t *testing.T) {
	tab := v.b.Open(t, v.url)
	tab.Clipboard()
	show(tab, "#/rows")
	at := func() int {
		return eval[int](tab,
			"Number(document.querySelector('tbody tr[aria-current=true]')?.dataset.row ?? -1)")
	}
	for i, step := range []struct {
		key  string
		want int
	}{{"j", 0}, {"j", 1}, {"j", 2}, {"k", 1}, {"k", 0}, {"k", 0}} {
		tab.Key(step.key)
		if got := at(); got != step.want {
			t.Errorf("step %d: %s selects row %d, not %d", i, step.key, got, step.want)
		}
	}
	tab.Key(kb.Enter)
	tab.Await("document.getElementById('main').dataset.shown === '#/record?n=1'")
	tab.Key("c")
	tab.Await("document.getElementById('status').textContent === 'copied'")
	var copied struct{ Title, Chosen any }
	clipboard := func() string { return eval[string](tab, "navigator.clipboard.readText()") }
	err := json.Unmarshal([]byte(clipboard()), &copied)
	if err != nil || copied.Title != "record 1, preference, train" || copied.Chosen == nil {
		t.Errorf("copied as JSON: %v %+v", err, copied)
	}
	tab.Key("m")
	tab.Await("navigator.clipboard.readText().then((x) => x.startsWith('# record 1, preference'))")
	if text := clipboard(); !strings.Contains(text, "## chosen\n") {
		t.Errorf("copied as Markdown: %s", text)
	}
	tab.Key("j")
	tab.Await("document.getElementById('main').dataset.shown === '#/record?n=2'")
	tab.Key("k")
	tab.Await("document.getElementById('main').dataset.shown === '#/record?n=1'")
	next := eval[string](tab,
		"[...document.links].find((l) => l.text === 'next in the group')?.hash ?? ''")
	if next != "" {
		tab.Key("n")
		tab.Await("document.getElementById('main').dataset.shown === '" + next + "'")
		tab.Key("p")
		tab.Await("document.getElementById('main').dataset.shown === '#/record?n=1'")
	} else {
		t.Error("the first record has no other in its group")
	}
	tab.Key("a")
	tab.Await("document.querySelector('[aria-pressed=true]')?.textContent === 'Approve'")
	tab.Key("r")
	tab.Await("document.querySelector('[aria-pressed=true]')?.textContent === 'Reject'")
	marked, err := os.ReadFile(filepath.Join(v.dir, "out", "r.marks.jsonl"))
	if err != nil || !strings.Contains(string(marked), "reject") {
		t.Errorf("the mark is not beside the run: %v %s", err, marked)
	}
	tab.Key("r")
	tab.Await("!document.querySelector('[aria-pressed=true]')")
	open := "document.querySelectorAll('main details.fold[open]').length"
	for _, step := range []struct {
		what string
		some bool
	}{{"at first the common prompt is folded", false}, {"f opens it", true}, {"f folds it again", false}} {
		if n := eval[int](tab, open); n > 0 != step.some {
			t.Errorf("%s, but %d are open", step.what, n)
		}
		tab.Key("f")
	}
	tab.Key("/")
	tab.Await("document.activeElement.id === 'filter'")
	// What DevTools sends after the key may arrive here.
	eval[any](tab, "document.activeElement.value = ''; 0")
	tab.Key("small-0 j" + kb.Enter)
	tab.Await("document.getElementById('main').dataset.shown.startsWith('#/rows?q=text+matches+%22%28%3Fi%29small-0')")
	if text := tab.Text("main"); !strings.Contains(text, " records") && !strings.Contains(text, " record\n") {
		t.Error(text)
	}
	tab.Key(kb.Escape)
	tab.Await("document.getElementById('main').dataset.shown !== location.hash || !location.hash.includes('small-0')")
	show(tab, "#/record?n=3&m=2")
	if !eval[bool](tab, "document.getElementById('message-2').getBoundingClientRect().top < innerHeight") {
		t.Error("the link to a message doesn't show it")
	}
	if e2e.WithTokenizers() {
		show(tab, "#/tokens?ref=sdpo%2Ftrain%2F00000.safetensors%3A1&side=1&at=300")
		tab.Await("document.querySelector('.tokens [aria-current]')?.dataset.position === '300'")
		if text := tab.Text("#token"); !strings.HasPrefix(text, "300: id ") || !strings.Contains(text, "bytes ") {
			t.Errorf("of a token: %s", text)
		}
		eval[any](tab, "document.querySelector('.tokens').focus(); 0")
		tab.Key(kb.ArrowRight)
		tab.Await("location.hash.endsWith('at=301')")
	}
	v.quiet(t, tab)
}

// slowAnswers changes the link while the answer that a page is made of is on its way: the page is marked with the link
// that it was made for, whether it is shown or fails.
func (v *viewTest) slowAnswers(t *testing.T) {
	tab := v.b.Open(t, v.url)
	show(tab, "#/rows")
	for _, c := range []struct{ name, answer, shown string }{
		{"shown", "fetch(...all)", "document.querySelector('h2')?.textContent.startsWith('record 1,')"},
		{
			"failed", "Promise.reject(new Error('no answer'))",
			"document.getElementById('status').textContent === 'no answer'",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			eval[any](tab, `globalThis.ask ??= fetch
				globalThis.held = new Promise((go) => { globalThis.go = go })
				globalThis.fetch = async (...all) => {
					const fetch = globalThis.ask
					globalThis.asked = true
					await globalThis.held
					return `+c.answer+`
				}
				globalThis.asked = false
				location.hash = '#/record?n=1'
				0`)
			tab.Await("globalThis.asked")
			eval[any](tab, "history.replaceState(null, '', '#/record?n=2'); globalThis.go(); 0")
			tab.Await(c.shown)
			shown := eval[string](tab, "document.getElementById('main').dataset.shown")
			if shown != "#/record?n=1" {
				t.Errorf("the page of record 1 is marked as %s", shown)
			}
			eval[any](tab, "globalThis.fetch = globalThis.ask; 0")
			show(tab, "#/rows")
		})
	}
	v.quiet(t, tab)
}

// anotherPage makes a page from another origin, and one that uses another name of this address, try to read and to
// mark.
func (v *viewTest) anotherPage(t *testing.T) {
	base, token, _ := strings.Cut(v.url, "?token=")
	evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `<!doctype html><iframe id="frame" src="%[1]s?token=%[2]s"></iframe><iframe name="sink"></iframe>
<form id="form" method="post" action="%[1]sapi/mark" enctype="text/plain" target="sink"><input name="%[3]s"></form>`,
			base, token, html.EscapeString(`{"record":"`+strings.Repeat("0", 32)+`","mark":"reject","note":"`))
	}))
	defer evil.Close()
	tab := v.b.Open(t, evil.URL)
	for _, script := range []string{
		"fetch('%sapi/overview', {headers: {'X-Nat-Go-Token': '%s'}})",
		"fetch('%sapi/mark', {method: 'POST', headers: {'X-Nat-Go-Token': '%s'}, body: '{}'})",
		"import('%sdom.js?%s')",
	} {
		got := eval[string](tab, fmt.Sprintf(script, base, token)+".then(() => 'read', (e) => e.name)")
		if got != "TypeError" {
			t.Errorf("%s: %s", script, got)
		}
	}
	text := eval[string](tab,
		"fetch('"+base+"api/overview', {mode: 'no-cors'}).then((r) => r.text(), () => '')")
	if text != "" {
		t.Errorf("without CORS it reads %q", text)
	}
	eval[any](tab, "document.getElementById('form').submit(); 0")
	framed := func() bool {
		return slices.ContainsFunc(tab.Complaints(), func(c string) bool { return strings.Contains(c, "frame") })
	}
	for end := time.Now().Add(time.Minute); !framed(); {
		if time.Now().After(end) {
			t.Fatal("the page can be framed")
		}
		time.Sleep(50 * time.Millisecond)
	}
	top := v.b.Open(t, evil.URL)
	eval[any](top, "document.getElementById('form').target = ''; "+
		"document.getElementById('form').submit(); 0")
	top.Await("location.href === " + quote(base+"api/mark") + " && document.readyState === 'complete'")
	status := eval[int](top, "performance.getEntriesByType('navigation')[0].responseStatus")
	if text := top.Text("body"); status != http.StatusForbidden || text != "requests from other pages are not allowed" {
		t.Errorf("a form of another page is answered %d %s", status, text)
	}
	_, port, _ := strings.Cut(strings.TrimSuffix(base, "/"), "127.0.0.1:")
	rebound := v.b.Open(t, "http://evil.example:"+port+"/?token="+token)
	if text := rebound.Text("body"); text != "this server accepts only requests to its own address" {
		t.Errorf("by another name: %s", text)
	}
	if _, err := os.Stat(filepath.Join(v.dir, "out", "r.marks.jsonl")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("another page set a mark: %v", err)
	}
}

// exported compares the page in a file with the one that is served.
func (v *viewTest) exported(t *testing.T) {
	inFolder(t, v.dir, v.exe, "view", "out/r", "out/r", "--export", "all.html")
	inFolder(t, v.dir, v.exe, "view", "out/r", "--export", "some.html", "--where", `kind == "preference"`, "--limit", "2")
	path := filepath.Join(v.dir, "all.html")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(text), "\n")
	if !strings.Contains(first, "This file contains a run's data") {
		t.Errorf("its first line: %s", first)
	}
	served, file := v.b.Open(t, v.url), v.b.Open(t, "file://"+path)
	served.Screen(1280, tall, false)
	file.Screen(1280, tall, false)
	// The rows are drawn at once, not only in a later frame or when the table has got its size.
	eval[any](served, "window.ResizeObserver = class { observe() {} disconnect() {} }; "+
		"window.requestAnimationFrame = () => 0; 0")
	hashes := slices.Collect(maps.Keys(viewPages()))
	for _, q := range []string{
		"sites > 0", `score < 1 and builder == "hints"`, `reason != ""`, `reason == "" and "train" in split`,
		`id == "small-0" or not sites == 0`, `mark == ""`, `text contains "calendar"`, `(sites + 1) * 2 == 2 && sites in [0, -1]`,
		`text matches "(?i)BOOK" and kind == 'preference'`, "messages >= 4 and length < 2000", `fidelity != "text"`,
		`task in ["video-0", "x"]`, `"train" not in split or text endsWith "."`,
	} {
		hashes = append(hashes, "#/rows?"+neturl.Values{"q": {q}, "sort": {"-length"}}.Encode())
	}
	for n := range 13 {
		hashes = append(hashes, fmt.Sprintf("#/record?n=%d", n+1))
	}
	read := func(tab *browserTab, hash string) string {
		show(tab, hash)
		return eval[string](tab, `[...document.getElementById('main').children]
			.filter((c) => !c.classList.contains('actions')).map((c) => c.innerText).join('\n')`)
	}
	for _, hash := range hashes {
		if diff := cmp.Diff(read(served, hash), read(file, hash)); diff != "" {
			t.Errorf("%s differs in the file: %s", hash, diff)
		}
	}
	for _, r := range file.Requests() {
		if !strings.HasPrefix(r, "file://"+v.dir) && !strings.HasPrefix(r, "data:") {
			t.Errorf("the file asks %s", r)
		}
	}
	v.quiet(t, file)
	some := v.b.Open(t, "file://"+filepath.Join(v.dir, "some.html"))
	some.Await("!document.getElementById('exported').hidden")
	holds := some.Text("#exported")
	if !strings.HasPrefix(holds, "This file holds 2 of 13 records, of which 3 match the file's filter") ||
		!strings.Contains(holds, "--where EXPRESSION --limit N exports other records") {
		t.Errorf("what it holds: %s", holds)
	}
	show(some, "#/rows")
	if text := some.Text("main"); !strings.Contains(text, "2 records") {
		t.Errorf("its rows: %s", text)
	}
	show(some, "#/record?n=3")
	if text := some.Text("#status"); text != "record 3 is not in this file" {
		t.Errorf("of what it does not hold: %s", text)
	}
	v.quiet(t, some)
}

// TestViewOfTwoRuns: of two runs, what changed is listed, and a record of the second can be opened.
func TestViewOfTwoRuns(t *testing.T) {
	b := startBrowser(t)
	dir := filepath.Join(t.TempDir(), "hints")
	if err := os.CopyFS(dir, os.DirFS("../../../../../examples/hints")); err != nil {
		t.Fatal(err)
	}
	exe := e2e.Program(t)
	args := []string{"finetune", "run", "--config-file", "finetune.yml", "--run-id"}
	inFolder(t, dir, exe, append(args, "first")...)
	inFolder(t, dir, exe, append(args, "second", "-o", "trajectory_builders.hints.hints.sources=[schema]")...)
	url, stop := viewed(t, exe, dir, "out/first", "out/second")
	defer stop()
	tab := b.Open(t, url)
	tab.Screen(1280, tall, false)
	show(tab, "#/compare?what=changed")
	if text := tab.Text("main"); !strings.Contains(text, "2\nother content") || !strings.Contains(text, "small-1") {
		t.Fatalf("the comparison: %s", text)
	}
	eval[any](tab,
		`document.querySelector('[aria-label="What differs"] tbody tr').cells[2].firstChild.click(); 0`)
	tab.Await("document.getElementById('main').dataset.shown === '#/record?n=8&run=2'")
	second := tab.Text("main")
	show(tab, "#/record?n=8")
	if first := tab.Text("main"); !strings.Contains(second, "of the second run") || first == second {
		t.Errorf("the record of the second run: %s\nof the first: %s", second, first)
	}
	(&viewTest{}).quiet(t, tab)
}

// viewed serves a run; stop ends the server as Ctrl-C does.
func viewed(t testing.TB, exe, dir string, paths ...string) (url string, stop func()) {
	t.Helper()
	server := exec.Command(exe, append([]string{"view", "--no-browser"}, paths...)...)
	server.Dir = dir
	return e2e.Started(t, server)
}

// TestMarks checks that a later run omits records that were rejected in the view, and changes nothing else.
func TestMarks(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "demo")
	if err := os.CopyFS(dir, os.DirFS("../../../../../examples/demo")); err != nil {
		t.Fatal(err)
	}
	exe := e2e.Program(t)
	run := func(args ...string) {
		t.Helper()
		cmd := exec.Command(exe, append([]string{"run", "--config-file", "finetune.yml", "--run-id"}, args...)...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	run("first")
	url, stop := viewed(t, exe, dir, "out/first")
	ask := func(method, path, body string, answer any) {
		t.Helper()
		resp := e2e.ViewAnswer(t, url, method, path, body)
		defer resp.Body.Close()
		if err := json.NewDecoder(resp.Body).Decode(answer); err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s %v %v", path, resp.Status, err, answer)
		}
	}
	var list struct{ Rows []struct{ Record int } }
	ask("GET", "api/rows?q=%22train%22+in+split", "", &list)
	var record struct {
		Key  string
		View struct{ Chosen string }
	}
	ask("GET", fmt.Sprint("api/record?n=", list.Rows[0].Record), "", &record)
	ask("POST", "api/mark", `{"record":"`+record.Key+`","mark":"reject","note":"poor"}`, new(any))
	ask("POST", "api/mark", `{"record":"`+strings.Repeat("0", 32)+`","mark":"reject"}`, new(any))
	stop()
	run("second", "-o", "dataset.marks=out/first.marks.jsonl")
	lines := func(id, split string) []string {
		text, err := os.ReadFile(filepath.Join(dir, "out", id, "dataset", "trl", split+".jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		return strings.SplitAfter(strings.TrimSuffix(string(text), "\n"), "\n")
	}
	url, stop = viewed(t, exe, dir, "out/first", "out/second")
	var changed struct {
		Moved, Appeared, Vanished int
		List                      []struct{ First, Second struct{ Fate string } }
	}
	ask("GET", "api/compare", "", &changed)
	if changed.Moved != 1 || changed.Appeared+changed.Vanished != 0 ||
		changed.List[0].Second.Fate != "dropped: rejected_by_mark" {
		t.Errorf("%+v", changed)
	}
	stop()
	if !slices.Equal(lines("first", "validation"), lines("second", "validation")) {
		t.Error("a row that was rejected moved the validation rows")
	}
	before, after := lines("first", "train"), lines("second", "train")
	if len(after) != len(before)-1 || !slices.Equal(before[1:], after) {
		t.Errorf("%d training rows, %d before one was rejected", len(after), len(before))
	}
	var manifest struct {
		Counts   struct{ Dropped map[string]int }
		Warnings []string
	}
	text, err := os.ReadFile(filepath.Join(dir, "out", "second", "manifest.json"))
	if err == nil {
		err = json.Unmarshal(text, &manifest)
	}
	if err != nil {
		t.Fatal(err)
	}
	if manifest.Counts.Dropped["rejected_by_mark"] != 1 ||
		!strings.Contains(fmt.Sprint(manifest.Warnings), "do not match any record") {
		t.Errorf("%+v", manifest)
	}
}
