package view

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/nat-go/nat-go/internal/pythontest"
)

// timeout is the limit for each step; it is generous because test machines are often busy.
const timeout = 2 * time.Minute

// chromium is a Chromium that runs until the test ends.
type chromium struct {
	ctx context.Context
}

// startBrowser starts the distribution's Chromium. Without one the test is skipped or, if NATGO_REQUIRE names chromium,
// fails.
func startBrowser(t testing.TB, flags ...chromedp.ExecAllocatorOption) *chromium {
	t.Helper()
	pythontest.Long(t, "the pages were not looked at")
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil && path == "" {
			path = found
		}
	}
	if path == "" {
		if pythontest.Required("chromium") {
			t.Fatal("NATGO_REQUIRE names chromium, and there is none")
		}
		t.Skip("SKIPPED: no chromium, so the pages were not looked at")
	}
	options := slices.Concat(chromedp.DefaultExecAllocatorOptions[:], []chromedp.ExecAllocatorOption{
		chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.UserDataDir(t.TempDir()),
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.WSURLReadTimeout(timeout),
	}, flags)
	ctx, stop := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(stop)
	ctx, end := chromedp.NewContext(ctx)
	t.Cleanup(func() {
		_ = chromedp.Cancel(ctx) // waits for the process
		end()
	})
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("%s does not start: %v", path, err)
	}
	return &chromium{ctx}
}

// browserTab is a tab of a browser. Its methods fail the test.
type browserTab struct {
	t   testing.TB
	ctx context.Context

	mu         sync.Mutex
	complaints []string
	requests   []string
}

// Open opens a page in a tab of its own.
func (b *chromium) Open(t testing.TB, url string) *browserTab {
	t.Helper()
	ctx, stop := chromedp.NewContext(b.ctx)
	t.Cleanup(stop)
	if err := chromedp.Do(ctx); err != nil { // opens the tab, which would end with a context that has a limit
		t.Fatal(err)
	}
	ctx, end := context.WithTimeout(ctx, 4*timeout)
	t.Cleanup(end)
	tab := &browserTab{t: t, ctx: ctx}
	if err := chromedp.Listen(ctx, tab.hear); err != nil {
		t.Fatal(err)
	}
	call(tab, network.Enable, network.EnableParams{})
	call(tab, log.Enable, cdp.Empty{})
	tab.Do(chromedp.Navigate(url))
	return tab
}

func call[P, R any](tab *browserTab, command cdp.Command[P, R], parameters P) {
	tab.t.Helper()
	if _, err := chromedp.Call(tab.ctx, command, parameters); err != nil {
		tab.t.Fatal(err)
	}
}

func (tab *browserTab) hear(event any) {
	tab.mu.Lock()
	defer tab.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		text, _ := json.Marshal(e.ExceptionDetails)
		tab.complaints = append(tab.complaints, string(text))
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning {
			text, _ := json.Marshal(e.Args)
			tab.complaints = append(tab.complaints, string(text))
		}
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
			tab.complaints = append(tab.complaints, fmt.Sprintf("%s: %s %s", e.Entry.Source, e.Entry.Text, e.Entry.URL))
		}
	case *network.EventRequestWillBeSent:
		tab.requests = append(tab.requests, e.Request.URL)
	}
}

// Complaints returns what the browser has complained about since the last call: errors, policy violations, and error
// responses.
func (tab *browserTab) Complaints() []string {
	tab.mu.Lock()
	defer tab.mu.Unlock()
	said := tab.complaints
	tab.complaints = nil
	return said
}

// Requests returns all addresses that the page has requested.
func (tab *browserTab) Requests() []string {
	tab.mu.Lock()
	defer tab.mu.Unlock()
	return slices.Clone(tab.requests)
}

// Do runs actions.
func (tab *browserTab) Do(actions ...chromedp.Action[chromedp.Void]) {
	tab.t.Helper()
	if err := chromedp.Do(tab.ctx, actions...); err != nil {
		tab.t.Fatal(err)
	}
}

// eval evaluates JavaScript, and awaits the result if it is a promise.
func eval[T any](tab *browserTab, script string) T {
	tab.t.Helper()
	value, err := chromedp.Run(tab.ctx, chromedp.Evaluate[T](script, chromedp.EvalAwaitPromise))
	if err != nil {
		tab.t.Fatalf("%.200s: %v", script, err)
	}
	return value
}

// Await waits until a JavaScript expression is true. The page may navigate while the expression is evaluated.
func (tab *browserTab) Await(expression string) {
	tab.t.Helper()
	evaluate := chromedp.Evaluate[bool]("Boolean("+expression+")", chromedp.EvalAwaitPromise)
	for end := time.Now().Add(timeout); ; time.Sleep(20 * time.Millisecond) {
		is, err := chromedp.Run(tab.ctx, evaluate)
		switch {
		case err != nil && !strings.Contains(err.Error(), "target navigated"):
			tab.t.Fatalf("%.200s: %v", expression, err)
		case is:
			return
		case time.Now().After(end):
			tab.t.Fatalf("%s never became true; the page:\n%s", expression, tab.Text("body"))
		}
	}
}

// When opens a page and returns how many milliseconds after its request each of the JavaScript expressions was true for
// the first time. The page itself looks, every few milliseconds.
func (tab *browserTab) When(url string, expressions ...string) []float64 {
	tab.t.Helper()
	tab.Do(chromedp.Navigate("about:blank"))
	added, err := chromedp.Call(tab.ctx, page.AddScriptToEvaluateOnNewDocument,
		page.AddScriptToEvaluateOnNewDocumentParams{Source: "globalThis.when = []; [" +
			"() => (" + strings.Join(expressions, "), () => (") + `)].forEach((holds, i) => {
			const look = () => {
				let now = false
				try { now = holds() } catch {} // there is no document yet
				if (now) globalThis.when[i] = performance.now()
				else setTimeout(look, 2)
			}
			look()
		})`})
	if err != nil {
		tab.t.Fatal(err)
	}
	tab.Do(chromedp.Navigate(url))
	for i := range expressions {
		tab.Await(fmt.Sprintf("globalThis.when[%d] !== undefined", i))
	}
	call(tab, page.RemoveScriptToEvaluateOnNewDocument,
		page.RemoveScriptToEvaluateOnNewDocumentParams(added))
	return eval[[]float64](tab, "globalThis.when")
}

// Key presses keys one after another.
func (tab *browserTab) Key(keys string) {
	tab.t.Helper()
	tab.Do(chromedp.KeyEvent(keys))
}

// Screen sets the size of the window, and whether the system's theme is dark.
func (tab *browserTab) Screen(width, height int64, dark bool) {
	tab.t.Helper()
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	call(tab, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
		Width: width, Height: height, DeviceScaleFactor: 1, Mobile: width < 600,
	})
	call(tab, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
}

// Paper shows the page as it is printed.
func (tab *browserTab) Paper() {
	tab.t.Helper()
	call(tab, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: "print"})
}

// Clipboard lets pages use the clipboard.
func (tab *browserTab) Clipboard() {
	tab.t.Helper()
	for _, name := range []string{"clipboard-read", "clipboard-write"} {
		_, err := chromedp.CallBrowser(tab.ctx, browser.SetPermission, browser.SetPermissionParams{
			Permission: &browser.PermissionDescriptor{Name: name}, Setting: browser.PermissionSettingGranted,
		})
		if err != nil {
			tab.t.Fatal(err)
		}
	}
}

// axePath is where .ci/run installs axe-core, relative to the test folder of a package in cmd/nat-go.
const axePath = ".cache/npm/node_modules/axe-core/axe.min.js"

// axeSource returns the source of axe-core, which finds accessibility problems; empty if it isn't installed, which fails a
// test if NATGO_REQUIRE names axe. root is the module's folder.
func axeSource(t *testing.T, root string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, axePath))
	if err != nil {
		if pythontest.Required("axe") {
			t.Fatalf("NATGO_REQUIRE names axe: %v", err)
		}
		t.Logf("SKIPPED: axe-core is not installed: npm install --prefix .cache/npm axe-core installs it")
	}
	return string(text)
}

// Violations returns what axe-core finds on the page, one element per line.
func (tab *browserTab) Violations(axe string) []string {
	tab.t.Helper()
	if axe == "" {
		return nil
	}
	if !eval[bool](tab, "'axe' in globalThis") {
		tab.Do(chromedp.Evaluate[chromedp.Void](axe))
	}
	return eval[[]string](tab, `axe.run(document).then((r) => r.violations.flatMap((v) =>
		v.nodes.map((n) => v.id + ': ' + n.target.join(' ') + ': ' + n.failureSummary.replaceAll('\n', ' '))))`)
}

// Text returns what a person can read of an element.
func (tab *browserTab) Text(selector string) string {
	tab.t.Helper()
	quoted, _ := json.Marshal(selector)
	return strings.TrimSpace(eval[string](tab, "document.querySelector("+string(quoted)+")?.innerText ?? ''"))
}
