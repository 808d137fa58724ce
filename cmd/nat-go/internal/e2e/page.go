package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var blocks = regexp.MustCompile("(?ms)^```(\\w+)\n(.*?)^```$")

// RunPage runs the commands in a page's console snippets, validates its configurations, and checks that the make
// targets it mentions exist. It returns the number of commands and configurations.
func RunPage(t *testing.T, checkout, text, makefile string) (n int) {
	t.Helper()
	sh := &shell{dir: checkout}
	for _, b := range blocks.FindAllStringSubmatch(text, -1) {
		switch kind, body := b[1], b[2]; kind {
		case "console":
			if !WithTokenizers() && strings.Contains(body, "tokenizer") {
				t.Log("SKIPPED: a snippet needs the tokenizer library, which `make test` provides")
				continue
			}
			n += sh.console(t, body)
		case "yaml":
			name, _, _ := strings.Cut(strings.TrimPrefix(body, "# "), "\n")
			if !strings.HasSuffix(name, ".yml") {
				continue
			}
			if err := os.WriteFile(filepath.Join(checkout, name), []byte(body), 0o644); err != nil {
				t.Fatal(err)
			}
			n += sh.console(t, "$ nat-go validate --no-plugins "+filepath.Join(checkout, name)+"\n...\n")
		case "sh":
			for _, m := range regexp.MustCompile(`(?m)^make (\w+)`).FindAllStringSubmatch(body, -1) {
				if !strings.Contains(makefile, "\n"+m[1]+":") {
					t.Errorf("page mentions make %s, which is not a target", m[1])
				}
			}
		}
	}
	return n
}

// shell behaves like an interactive shell, in which variables and the working directory persist from one command to
// the next.
type shell struct {
	dir  string
	past string // earlier commands that change the shell's state: assignments and directory changes
}

var keeps = regexp.MustCompile(`^(\w+=|cd )`)

// console runs the commands in a block, compares their output with the lines after them, and returns the number of
// commands.
func (s *shell) console(t *testing.T, body string) int {
	t.Helper()
	parts := strings.Split("\n"+body, "\n$ ")[1:]
	for _, part := range parts {
		command, want, _ := strings.Cut(part, "\n")
		if _, mark, ok := strings.Cut(command, "<<'"); ok {
			mark = strings.TrimSuffix(mark, "'")
			doc, rest, _ := strings.Cut(want, "\n"+mark)
			command += "\n" + doc + "\n" + mark + "\n"
			want = strings.TrimPrefix(rest, "\n")
		}
		var stderr bytes.Buffer
		script := s.past + command
		if keeps.MatchString(command) {
			name, _, assigns := strings.Cut(command, "=")
			if !assigns || strings.HasPrefix(command, "cd ") {
				name = ""
			} else {
				script += fmt.Sprintf("\nprintf 'is %%s\\n' \"$%s\"", name)
			}
			got := s.run(t, script, &stderr)
			if name == "" {
				s.past += command + "\n"
			} else if value, ok := strings.CutPrefix(got, "is "); ok {
				s.past += fmt.Sprintf("%s='%s'\n", name, strings.TrimSpace(value))
			}
			if strings.TrimSpace(got) == "is" || strings.Contains(stderr.String(), "nat-go: ") {
				t.Errorf("$ %s\nfails: %s", command, stderr.String())
			}
			continue
		}
		got := s.run(t, script, &stderr)
		want = strings.TrimSuffix(want, "\n")
		pattern := "^" + strings.ReplaceAll(regexp.QuoteMeta(want), `\.\.\.`, `(?s:.*)`) + `\s*$`
		if strings.Contains(stderr.String(), "nat-go: ") {
			t.Errorf("$ %s\nfails: %s", command, stderr.String())
		}
		if !regexp.MustCompile(pattern).MatchString(got) {
			t.Errorf("$ %s\nprints\n%s%s\nbut the page says\n%s", command, got, stderr.String(), want)
		}
	}
	return len(parts)
}

func (s *shell) run(t *testing.T, script string, stderr *bytes.Buffer) string {
	t.Helper()
	cmd := exec.Command("sh", "-c", script)
	cmd.Dir, cmd.Stderr = s.dir, stderr
	got, err := cmd.Output()
	if _, failed := err.(*exec.ExitError); err != nil && !failed {
		t.Fatal(err)
	}
	return string(got)
}

var links = regexp.MustCompile(`\]\(([^)#]+)[^)]*\)`)

// CheckLinks reports links to files that don't exist.
func CheckLinks(t *testing.T, page, text string) {
	t.Helper()
	for _, m := range links.FindAllStringSubmatch(text, -1) {
		if strings.Contains(m[1], "://") {
			continue
		}
		if _, err := os.Stat(filepath.Join(filepath.Dir(page), filepath.FromSlash(m[1]))); err != nil {
			t.Errorf("broken link: %s", m[1])
		}
	}
}
