package view

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/e2e"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/recordlog"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
)

// mostInspected is the most conversations that Inspect View is given.
const mostInspected = 20_000

// BenchmarkView measures what a person waits for in a browser, in milliseconds after the page is requested, and the
// most memory that the server took: on NATGO_VIEW_RECORDS conversations of 2 kB, or 2,000, which are kept in
// NATGO_VIEW_FOLDER for the next time if it names a folder. The same conversations are opened in Inspect View if
// NATGO_INSPECT_PYTHON, or python3, has inspect-ai.
func BenchmarkView(b *testing.B) {
	n, err := strconv.Atoi(cmp.Or(os.Getenv("NATGO_VIEW_RECORDS"), "2000"))
	if err != nil {
		b.Fatal(err)
	}
	dir := cmp.Or(os.Getenv("NATGO_VIEW_FOLDER"), b.TempDir())
	if _, err := os.Stat(filepath.Join(dir, "r")); err != nil {
		writeConversations(b, dir, n)
	}
	browser := startBrowser(b)
	b.Setenv("XDG_CACHE_HOME", b.TempDir())
	b.Run("nat-go", func(b *testing.B) { timeView(b, browser, dir, n) })
	b.Run("inspect", func(b *testing.B) { timeInspect(b, browser, dir, n) })
}

// timeView times nat-go view.
func timeView(b *testing.B, browser *chromium, dir string, n int) {
	server := exec.Command(e2e.Program(b), "view", "--no-browser", "r")
	server.Dir = dir
	page, stop := e2e.Started(b, server)
	defer stop()
	tab := browser.Open(b, "about:blank")
	var t timed
	const filled = "document.querySelector('main tbody tr')?.cells[0]?.textContent"
	filtered := func(q string) float64 {
		return eval[float64](tab, clocked("location.hash = '#/rows?"+url.Values{"q": {q}}.Encode()+"'",
			"document.getElementById('filter')?.value === "+quote(q)+" && "+filled))
	}
	for b.Loop() {
		table := tab.When(page+"#/rows", filled)[0]
		t.add("table", table)
		t.add("table-after-load", table-eval[float64](tab,
			"performance.getEntriesByType('navigation')[0].loadEventEnd"))
		conversation := fmt.Sprintf("%s#/record?n=%d", page, n/2)
		t.add("conversation", tab.When(conversation, "document.querySelector('.message')")[0])
		tab.When(page+"#/rows", filled)
		for _, q := range []string{`task == "task7"`, `score > 0.5 and task == "task11"`, "score < 0.01", "length > 1000"} {
			t.add("filter", filtered(q))
		}
		t.add("search", filtered(`text contains "ab cd"`)) // in the texts, to the first match
	}
	t.report(b, server.Process.Pid)
}

// timeInspect times Inspect View.
func timeInspect(b *testing.B, browser *chromium, dir string, n int) {
	python := cmp.Or(os.Getenv("NATGO_INSPECT_PYTHON"), "python3")
	switch err := exec.Command(python, "-c", "import inspect_ai").Run(); {
	case err != nil:
		b.Skip("SKIPPED: NATGO_INSPECT_PYTHON names no Python with inspect-ai")
	case n > mostInspected:
		b.Skipf("SKIPPED: Inspect View is given at most %d conversations", mostInspected)
	}
	logs := filepath.Join(b.TempDir(), "logs")
	if err := os.Mkdir(logs, 0o700); err != nil {
		b.Fatal(err)
	}
	script := exec.Command(python, "testdata/view/inspect_log.py", filepath.Join(dir, "conversations.jsonl"), logs)
	if out, err := script.CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	address := listener.Addr().String()
	listener.Close()
	_, port, _ := strings.Cut(address, ":")
	server := exec.Command(python, "-c", "import sys; from inspect_ai._cli.main import inspect; inspect()",
		"view", "start", "--log-dir", logs, "--port", port)
	server.Env = append(os.Environ(), "HOME="+b.TempDir())
	if err := server.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { // it doesn't end well when interrupted
		_ = server.Process.Kill()
		_ = server.Wait()
	})
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			conn.Close()
			break
		}
		if time.Now().After(end) {
			b.Fatal(err)
		}
	}
	page := "http://" + address + "/#/logs/conversations.eval"
	tab := browser.Open(b, "about:blank")
	var t timed
	const score = "document.querySelectorAll('[data-col-id=score__reward__reward]')[1]?.textContent"
	for b.Loop() {
		t.add("table", tab.When(page, score)[0])
		conversation := fmt.Sprintf("%s/samples/sample/conversation%d/1/messages", page, n/2)
		t.add("conversation", tab.When(conversation, "document.querySelector('[data-message-id]')")[0])
		tab.When(page, score)
		t.add("filter", eval[float64](tab, clocked(
			"document.querySelector('.cm-content').focus(); document.execCommand('insertText', false, 'reward < 0.01')",
			"Number("+score+") < 0.01")))
	}
	t.report(b, server.Process.Pid)
}

// clocked returns JavaScript for how long it takes from an action until something holds.
func clocked(action, holds string) string {
	return `(async () => {
		const from = performance.now()
		` + action + `
		while (!(` + holds + `)) await new Promise((done) => setTimeout(done, 2))
		return performance.now() - from
	})()`
}

// timed collects durations by what was waited for.
type timed map[string][]float64

func (t *timed) add(what string, ms float64) {
	if *t == nil {
		*t = timed{}
	}
	(*t)[what] = append((*t)[what], ms)
}

// report reports the median of each, and the peak of the memory of a process.
func (t timed) report(b *testing.B, pid int) {
	b.Helper()
	for what, all := range t {
		slices.Sort(all)
		b.ReportMetric(all[len(all)/2], what+"-ms")
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return // not Linux
	}
	var kib float64
	_, peak, _ := strings.Cut(string(status), "VmHWM:")
	if _, err := fmt.Sscan(peak, &kib); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(kib/1024, "MiB")
	b.ReportMetric(0, "ns/op")
}

// writeConversations writes a run with a rollout for each of n conversations and, unless they are too many for it, a
// file for Inspect's script.
func writeConversations(b *testing.B, dir string, n int) {
	b.Helper()
	folder := runfolder.Folder(filepath.Join(dir, "r"))
	if err := os.MkdirAll(folder.Records(), 0o700); err != nil {
		b.Fatal(err)
	}
	log, err := recordlog.Create(folder.Records())
	if err != nil {
		b.Fatal(err)
	}
	file, err := os.Create(filepath.Join(dir, "conversations.jsonl"))
	if err != nil {
		b.Fatal(err)
	}
	lines := bufio.NewWriter(file)
	builder := recordlog.NewBuilder([]string{"rollouts"})
	draw := rand.New(rand.NewPCG(1, 2))
	words := wordsOf(draw)
	const size = 330 // bytes of a message
	for i := range n {
		id, task, reward := fmt.Sprint("conversation", i), fmt.Sprint("task", i%100), draw.Float64()
		messages, written := make([]chat.Message, 0, 6), make([]map[string]string, 0, 6)
		for k := range 6 {
			at := draw.IntN(len(words) - size)
			role, text := []string{"user", "assistant"}[k%2], words[at:at+size]
			messages = append(messages, chat.Message{Role: role, Form: chat.Text, Text: text})
			if n > mostInspected {
				continue
			}
			written = append(written, map[string]string{"role": role, "content": text})
		}
		builder.Begin(&ttc.Group{Key: id, Examples: []*ttc.Example{
			{ID: id, Task: task, Graph: ttc.Chain(messages, ttc.Yes)},
		}})
		err := builder.Record(0, &builders.Rollout{
			Messages: builders.Content{Ref: builders.Ref{Part: builders.NodeSpan, Last: len(messages) - 1}},
			Reward:   &reward, Task: task,
		})
		if err := errors.Join(err, log.Append(builder.Group())); err != nil {
			b.Fatal(err)
		}
		if n > mostInspected {
			continue
		}
		line, err := json.Marshal(map[string]any{"id": id, "task": task, "reward": reward, "messages": written})
		if err != nil {
			b.Fatal(err)
		}
		lines.Write(append(line, '\n'))
	}
	err = errors.Join(log.Commit(nil, true), log.Close(), lines.Flush(), file.Close(),
		os.WriteFile(folder.Begun(), []byte("{}"), 0o600))
	if err != nil {
		b.Fatal(err)
	}
}

// wordsOf returns a text of random words that others are cut out of.
func wordsOf(draw *rand.Rand) string {
	text := make([]byte, 1<<20)
	for i := range text {
		text[i] = byte('a' + draw.IntN(26))
		if draw.IntN(6) == 0 {
			text[i] = ' '
		}
	}
	return string(text)
}
