package inspect

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestLogsIn: a program's own folder means its logs.
func TestLogsIn(t *testing.T) {
	home := t.TempDir()
	for _, dir := range []string{".codex/sessions/2026", ".claude", "work/.codex-notes/sessions"} {
		if err := os.MkdirAll(filepath.Join(home, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]string{
		".codex": ".codex/sessions", ".codex/": ".codex/sessions", ".codex/sessions": ".codex/sessions",
		".claude": ".claude", "work/.codex-notes": "work/.codex-notes", ".gemini": ".gemini",
	} {
		if got := filepath.Clean(logsIn(home + "/" + path)); got != filepath.Join(home, want) {
			t.Errorf("%s: got %s, want %s", path, got, want)
		}
	}
}

// TestFindLogs: logs are found by their places, of which a variable may move one, and no file is opened.
func TestFindLogs(t *testing.T) {
	home, moved := t.TempDir(), t.TempDir()
	day := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	for i, path := range []string{
		filepath.Join(home, ".claude/projects/p/a.jsonl"), filepath.Join(home, ".claude/projects/p/b/c.jsonl"),
		filepath.Join(home, ".claude/history.jsonl"), filepath.Join(home, ".claude/projects/p/notes.txt"),
		filepath.Join(moved, "sessions/2026/r.jsonl"), filepath.Join(home, ".codex/sessions/old.jsonl"),
		filepath.Join(home, ".local/share/opencode/opencode.db"),
	} {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0); err != nil { // which can't be opened
			t.Fatal(err)
		}
		if err := os.Chtimes(path, day, day.AddDate(0, 0, i)); err != nil {
			t.Fatal(err)
		}
	}
	variables := map[string]string{"CODEX_HOME": moved, "CLAUDE_CONFIG_DIR": ""}
	env := func(name string) string { return variables[name] }
	found := FindLogs(home, env)
	var out bytes.Buffer
	if err := ScreenLogs(&out, found); err != nil {
		t.Fatal(err)
	}
	want := `Claude Code HOME/.claude/projects 2 files 2026-05-01 to 2026-05-02 nat-go run HOME/.claude/projects
Codex MOVED/sessions 1 file 2026-05-05 to 2026-05-05 nat-go run MOVED/sessions
opencode HOME/.local/share/opencode 1 file 2026-05-07 to 2026-05-07 opencode export ID > session.json
`
	got := strings.NewReplacer(home, "HOME", moved, "MOVED").Replace(out.String())
	var lines []string
	for line := range strings.Lines(got) {
		lines = append(lines, strings.Join(strings.Fields(line), " ")+"\n")
	}
	if diff := cmp.Diff(want, strings.Join(lines, "")); diff != "" {
		t.Error(diff)
	}
	variables["CLAUDE_CONFIG_DIR"] = "a\x00b"
	out.Reset()
	if err := ScreenLogs(&out, FindLogs(home, env)); err != nil || !strings.Contains(out.String(), "sessions") ||
		!strings.Contains(out.String(), "cannot list all logs of Claude Code: lstat a") {
		t.Error(out.String(), err)
	}
	out.Reset()
	if err := ScreenLogs(&out, nil); err != nil || !strings.HasPrefix(out.String(), "no logs of Claude Code (~/.claude") {
		t.Error(out.String(), err)
	}
}
