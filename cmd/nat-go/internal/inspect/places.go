package inspect

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nat-go/nat-go/internal/lists"
	"github.com/nat-go/nat-go/internal/terminal/columns"
)

// place is a location of a program's logs.
type place struct {
	program, dir string // dir is below the user's home
	variable     string // environment variable with a folder that replaces the first element of dir
	ext          string // prefix of the extension of log files
	instead      string // advice if no source reads the files
}

var places = []place{
	{"Claude Code", ".claude/projects", "CLAUDE_CONFIG_DIR", ".jsonl", ""},
	{"Cline", ".cline/data/sessions", "", ".json", ""},
	{"Codex", ".codex/sessions", "CODEX_HOME", ".jsonl", ""},
	{"Copilot CLI", ".copilot/session-state", "", ".jsonl", ""},
	{"Gemini CLI", ".gemini/tmp", "", ".json", ""},
	{"OMP", ".omp/agent/sessions", "", ".jsonl", ""},
	{"OpenClaw", ".openclaw/agents", "", ".jsonl", ""},
	{"opencode", ".local/share/opencode", "", ".db", "opencode export ID > session.json"},
	{"OpenHands", ".openhands/conversations", "", ".json", ""},
	{"Pi", ".pi/agent/sessions", "", ".jsonl", ""},
	{"Qwen Code", ".qwen", "", ".jsonl", ""},
}

// logsIn returns the folder with a program's logs if path is the program's own folder, which also holds settings and
// credentials. Otherwise it returns path.
func logsIn(path string) string {
	for _, p := range places {
		top, below, _ := strings.Cut(p.dir, "/")
		logs := filepath.Join(path, below)
		if info, err := os.Stat(logs); p.instead == "" && filepath.Base(path) == top && err == nil && info.IsDir() {
			return logs
		}
	}
	return path
}

// Logs describes a program's log files in one location.
type Logs struct {
	Program string    `json:"program"`
	Dir     string    `json:"dir"`
	Files   int       `json:"files"`
	First   time.Time `json:"first"` // modification time of the oldest file
	Last    time.Time `json:"last"`
	Next    string    `json:"next"`              // command that reads the logs
	Problem string    `json:"problem,omitempty"` // reason why part of the folder could not be listed
}

// FindLogs lists programs' logs in their usual locations below a home folder, without reading any files. If a folder
// can't be listed, Problem is set.
func FindLogs(home string, env func(string) string) []Logs {
	found := []Logs{}
	for _, p := range places {
		dir := filepath.Join(home, p.dir)
		if other := env(p.variable); p.variable != "" && other != "" {
			_, below, _ := strings.Cut(p.dir, "/")
			dir = filepath.Join(other, below)
		}
		logs := Logs{Program: p.program, Dir: dir, Next: cmp.Or(p.instead, "nat-go run "+dir)}
		_ = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			if err == nil && e.Type().IsRegular() && strings.HasPrefix(filepath.Ext(path), p.ext) {
				var info fs.FileInfo
				if info, err = e.Info(); err == nil {
					logs.add(info.ModTime().UTC())
				}
			}
			if err != nil && !errors.Is(err, fs.ErrNotExist) { // a file may disappear while its folder is listed
				logs.Problem = cmp.Or(logs.Problem, err.Error())
			}
			return nil
		})
		if logs.Files > 0 || logs.Problem != "" {
			found = append(found, logs)
		}
	}
	return found
}

func (l *Logs) add(changed time.Time) {
	if l.Files++; l.Files == 1 || changed.Before(l.First) {
		l.First = changed
	}
	if changed.After(l.Last) {
		l.Last = changed
	}
}

// ScreenLogs prints logs as text. It also prints which folders couldn't be listed.
func ScreenLogs(w io.Writer, all []Logs) error {
	if len(all) == 0 {
		names := lists.Map(places, func(p place) string { return p.program + " (~/" + p.dir + ")" })
		_, err := fmt.Fprintf(w, "no logs of %s: specify a file or a folder\n", strings.Join(names, ", "))
		return err
	}
	t := &columns.Table{}
	var problems strings.Builder
	for _, l := range all {
		if l.Problem != "" {
			fmt.Fprintf(&problems, "cannot list all logs of %s: %s\n", l.Program, l.Problem)
		}
		if l.Files == 0 {
			continue
		}
		t.Add(l.Program, l.Dir, quantity(l.Files, "file"),
			l.First.Format(time.DateOnly)+" to "+l.Last.Format(time.DateOnly), l.Next)
	}
	_, err := io.WriteString(w, t.Text(0)+problems.String())
	return err
}
