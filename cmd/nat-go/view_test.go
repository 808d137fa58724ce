package main

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
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
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	server := exec.CommandContext(ctx, exe, "view", "out/r", "--no-browser")
	server.Dir = dir
	server.Cancel = func() error { return server.Process.Signal(os.Interrupt) }
	out, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	url, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pages := map[string][]string{ // by hash, what is to be read
		"#/overview":                      {"Run r: completed", "no_error_site", "preference"},
		"#/rows?q=kind:preference":        {"3 records", "video-0"},
		"#/record?n=1":                    {"record 1, preference", "find_slot", "<mark>", "Approve"},
		"#/record?n=3":                    {"record 3, distillation", "hint from", "search_calendar"},
		"#/drops?reason=repeated_failure": {"Left out: repeated_failure"},
		"#/record?n=999":                  {"there are 13 records"},
	}
	if withTokenizers() {
		pages["#/tokens?ref=sdpo/train/00000.safetensors:1"] = []string{
			"student:",
			"teacher:",
			`class="trained"`,
			`class="hint"`,
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
				strings.TrimSpace(url)+hash,
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
	if err := server.Wait(); err != nil && server.ProcessState.ExitCode() != 0 {
		t.Errorf("the server ended with %v", err)
	}
}
