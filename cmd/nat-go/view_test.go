package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nat-go/nat-go/internal/pythontest"
)

// TestView has a browser show every page of a run: what is in the files is on the screen, and nothing is complained
// about.
func TestView(t *testing.T) {
	browser := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil && browser == "" {
			browser = path
		}
	}
	if browser == "" {
		if pythontest.Required("chromium") {
			t.Fatal("NATGO_REQUIRE names chromium, and there is none")
		}
		t.Skip("SKIPPED: no chromium, so the pages of nat-go view were not looked at")
	}
	dir := filepath.Join(t.TempDir(), "hints")
	if err := os.CopyFS(dir, os.DirFS("../../examples/hints")); err != nil {
		t.Fatal(err)
	}
	exe := program(t)
	args := []string{"finetune", "run", "--config-file", "finetune.yml", "--run-id", "r"}
	if withTokenizers() {
		args = append(args, "-o", "collator.tokenizer=tokenizer", "-o", "collator.policy=booker-1")
	}
	run := exec.Command(exe, args...)
	run.Dir = dir
	if out, err := run.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	url, stop := viewed(t, exe, dir, "out/r", "out/r")
	pages := map[string][]string{ // by hash, what is to be read
		"#/overview":                      {"Run r: completed", "no_error_site", "preference"},
		"#/rows?q=kind:preference":        {"3 records", "video-0"},
		"#/record?n=1":                    {"record 1, preference", "find_slot", "<mark>", "Approve"},
		"#/record?n=3":                    {"record 3, distillation", "hint from", "search_calendar"},
		"#/drops?reason=repeated_failure": {"Left out: repeated_failure"},
		"#/compare":                       {"alike", "error sites"},
		"#/record?n=999":                  {"there are 13 records"},
	}
	if withTokenizers() {
		pages["#/tokens?ref=sdpo/train/00000.safetensors:1"] = []string{
			"student:",
			"teacher:",
			`class="trained" data-position=`,
			`class="hint" data-position=`,
		}
	}
	complaint := regexp.MustCompile(`CONSOLE[^\n]*`)
	for hash, want := range pages {
		t.Run(hash, func(t *testing.T) {
			ctx, stop := context.WithTimeout(t.Context(), 3*time.Minute)
			defer stop()
			cmd := exec.CommandContext(
				ctx,
				browser,
				"--headless=new",
				"--no-sandbox",
				"--disable-gpu",
				"--disable-dev-shm-usage",
				"--user-data-dir="+t.TempDir(),
				"--virtual-time-budget=20000",
				"--enable-logging=stderr",
				"--dump-dom",
				url+hash,
			)
			var said strings.Builder
			cmd.Stderr = &said
			dom, err := cmd.Output()
			if err != nil {
				t.Fatalf("%v\n%s", err, said.String())
			}
			for _, w := range want {
				if !strings.Contains(string(dom), w) {
					t.Errorf("%q is not on the page:\n%s", w, dom)
				}
			}
			for _, line := range complaint.FindAllString(said.String(), -1) {
				if !strings.Contains(line, "404") { // asked for on purpose
					t.Errorf("the browser complains: %s", line)
				}
			}
		})
	}
	stop()
}

// viewed serves a run; stop ends the server as Ctrl-C does.
func viewed(t *testing.T, exe, dir string, paths ...string) (url string, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	server := exec.CommandContext(ctx, exe, append([]string{"view", "--no-browser"}, paths...)...)
	server.Dir = dir
	server.Cancel = func() error { return server.Process.Signal(os.Interrupt) }
	out, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	stop = sync.OnceFunc(func() {
		cancel()
		if err := server.Wait(); err != nil && server.ProcessState.ExitCode() != 0 {
			t.Errorf("the server ended with %v", err)
		}
	})
	t.Cleanup(stop)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line), stop
}

// TestMarks: what a person rejects in the view, a later run leaves out, and nothing else moves.
func TestMarks(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "demo")
	if err := os.CopyFS(dir, os.DirFS("../../examples/demo")); err != nil {
		t.Fatal(err)
	}
	exe := program(t)
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
	base, token, _ := strings.Cut(url, "?token=")
	ask := func(method, path, body string, answer any) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, base+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Nat-Go-Token", token)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if err := json.NewDecoder(resp.Body).Decode(answer); err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s %v %v", path, resp.Status, err, answer)
		}
	}
	var list struct{ Rows []struct{ Record int } }
	ask("GET", "api/rows?q=split:train", "", &list)
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
	base, token, _ = strings.Cut(url, "?token=")
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
		!strings.Contains(fmt.Sprint(manifest.Warnings), "belong to no record") {
		t.Errorf("%+v", manifest)
	}
}
