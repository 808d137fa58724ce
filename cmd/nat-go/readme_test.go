package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestReadme runs what the README shows: console blocks are run in order in a copy of the demo's folder and must print what
// stands there (a line of ... stands for any lines), YAML files must pass validation, make's targets must exist. Without the tokenizer library the blocks that
// need one are passed over.
func TestReadme(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	tokenizers := withTokenizers()
	build := []string{"build"}
	if tokenizers {
		build = append(build, "-tags", "tokenizers")
	}
	if out, err := exec.Command("go", append(build, "-o", filepath.Join(bin, "nat-go"), ".")...).CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	all := t.TempDir()
	for _, name := range []string{"demo", "hints"} {
		if err := os.CopyFS(filepath.Join(all, name), os.DirFS(filepath.Join(root, "examples", name))); err != nil {
			t.Fatal(err)
		}
		os.RemoveAll(filepath.Join(all, name, "out"))
	}
	work := filepath.Join(all, "demo")
	blocks := regexp.MustCompile("(?ms)^```(\\w+)\n(.*?)^```$").FindAllStringSubmatch(string(text), -1)
	if len(blocks) < 5 {
		t.Fatalf("only %d blocks found", len(blocks))
	}
	for _, b := range blocks {
		switch kind, body := b[1], b[2]; kind {
		case "console":
			if !tokenizers && strings.Contains(body, "collator.tokenizer") {
				t.Log("SKIPPED: a block of the README needs the tokenizer library; `make test` has it")
				continue
			}
			runConsole(t, work, body)
		case "yaml":
			name, _, _ := strings.Cut(strings.TrimPrefix(body, "# "), "\n")
			if err := os.WriteFile(filepath.Join(work, name), []byte(body), 0o644); err != nil {
				t.Fatal(err)
			}
			runConsole(t, work, "$ nat-go validate --config-file "+name+"\n...\n")
		case "sh":
			for _, m := range regexp.MustCompile(`(?m)^make (\w+)`).FindAllStringSubmatch(body, -1) {
				if !strings.Contains(string(makefile), "\n"+m[1]+":") {
					t.Errorf("the README names make %s, which is no target", m[1])
				}
			}
		}
	}
}

// runConsole runs the commands of a block ("$ " and their lines up to the output) and compares what they print.
func runConsole(t *testing.T, dir, body string) {
	t.Helper()
	for _, part := range strings.Split("\n"+body, "\n$ ")[1:] {
		command, want, _ := strings.Cut(part, "\n")
		if _, mark, ok := strings.Cut(command, "<<'"); ok {
			mark = strings.TrimSuffix(mark, "'")
			doc, rest, _ := strings.Cut(want, "\n"+mark)
			command += "\n" + doc + "\n" + mark + "\n"
			want = strings.TrimPrefix(rest, "\n")
		}
		cmd := exec.Command("sh", "-c", command)
		cmd.Dir = dir
		cmd.Stderr = os.Stderr
		got, err := cmd.Output()
		if _, failed := err.(*exec.ExitError); err != nil && !failed {
			t.Fatal(err)
		}
		want = strings.TrimSuffix(want, "\n")
		pattern := "^" + strings.ReplaceAll(regexp.QuoteMeta(want), `\.\.\.`, `(?s:.*)`) + `\s*$`
		if !regexp.MustCompile(pattern).Match(got) {
			t.Errorf("$ %s\nprints\n%s\nbut the README says\n%s", command, got, want)
		}
	}
}
