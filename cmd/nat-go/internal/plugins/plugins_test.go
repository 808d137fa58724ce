package plugins

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/config"
	"github.com/nat-go/nat-go/internal/durable"
	"github.com/nat-go/nat-go/internal/pythontest"
	"github.com/nat-go/nat-go/plugins/conformance"
	"github.com/nat-go/nat-go/plugins/host"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/source/readers"
)

var sources = readers.Factories()

// write writes a file of rows.
func write(t *testing.T, rows string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rows.jsonl")
	if err := os.WriteFile(path, []byte(rows), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestLockWithoutChecksum checks that a lock without a valid checksum is refused: the plugin would run unchecked.
func TestLockWithoutChecksum(t *testing.T) {
	sum := strings.Repeat("ab", 32)
	for text, ok := range map[string]bool{
		"sha256: {linux/amd64: " + sum + "}":                                true,
		"sha256: {linux/amd64: \"\"}":                                       false,
		"sha256: {linux/amd64: null}":                                       false,
		"sha256: {linux/amd64: abc}":                                        false,
		"sha256: {}":                                                        false,
		"version: 1.0.0":                                                    false,
		"sha256: {linux/amd64: " + sum + "}, files: {a.py: \"\"}":           false,
		"sha256: {linux/amd64: " + sum + "}, files: {a.py: " + sum + "}":    true,
		"sha256: {linux/amd64: " + sum + ", darwin/arm64: " + sum[1:] + "}": false,
	} {
		t.Run(text, func(t *testing.T) {
			dir := t.TempDir()
			lock := "version: 1\nplugins: {acme: {" + text + "}}\n"
			if err := os.WriteFile(filepath.Join(dir, lockFile), []byte(lock), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := ReadLock(dir); (err == nil) != ok {
				t.Errorf("%s: %v", text, err)
			}
		})
	}
}

// TestGroups checks that examples are read and grouped as in a run, wherever a task's examples are, and that what a run
// would drop is reported.
func TestGroups(t *testing.T) {
	const traces = `{"id":1,"task_id":"x","messages":[{"role":"user","content":"q"}],"reward":1}
{"id":2,"task_id":"y","messages":[{"role":"user","content":"q"}]}
{"id":3,"task_id":"x","messages":[{"role":"user","content":"q"}]}
{"id":4,"task":"x","messages":[{"role":"user","content":"q"}]}
`
	const lines = `{"id":"a","turn_id":1,"candidate_index":"2","prompt":"p","output":"good","score":"0.5"}
{"id":"a","output":"no score"}
{"id":"a","turn_id":1,"prompt":"p","output":"bad","score":0}
`
	shape := func(groups []*ttc.Group) (s string) {
		for _, g := range groups {
			s += g.Key + "["
			for _, ex := range g.Examples {
				s += " " + ex.ID
				for _, c := range ex.Candidates {
					s += fmt.Sprintf(" %s%d=%v", c.Turn, c.Index, c.Score)
				}
			}
			s += " ] "
		}
		return strings.TrimSpace(s)
	}
	for _, c := range []struct {
		rows  string
		unit  builders.Unit
		want  string
		drops int
	}{
		{traces, builders.UnitExample, "1[ 1 ] 2[ 2 ] 3[ 3 ] 4[ 4 ]", 0},
		{traces, builders.UnitTask, "x[ 1 3 ] y[ 2 ] 4[ 4 ]", 0},
		{traces, builders.UnitRun, "0[ 1 2 3 4 ]", 0},
		{lines, builders.UnitExample, "a[ a 12=0.5 11=0 ]", 1},
	} {
		t.Run(c.rows, func(t *testing.T) {
			groups, drops, err := Groups(t.Context(), sources, write(t, c.rows), host.BuilderInfo{Unit: c.unit}, 0)
			if got := shape(groups); err != nil || got != c.want || len(drops) != c.drops {
				t.Errorf("unit %s: %s, %d drops, %v; want %s", c.unit, got, len(drops), err, c.want)
			}
		})
	}
	for _, bad := range []string{"", `{"x":1}`} {
		if _, _, err := Groups(t.Context(), sources, write(t, bad), host.BuilderInfo{}, 0); err == nil {
			t.Errorf("%q was read as rows", bad)
		}
	}
}

const rows = `{"id":"a","turn_id":"t","prompt":"q","output":"good","score":0.9}
{"id":"a","turn_id":"t","prompt":"q","output":"bad","score":0.1}
`

// root returns the repository.
func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../../../..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// newGo writes and builds a plugin the way `builders new --lang go` and its README describe, in an empty folder.
func newGo(t *testing.T, name string) string {
	t.Helper()
	dir, err := New(t.TempDir(), name, "go", root(t), "v0.0.0")
	if err != nil {
		t.Fatal(err)
	}
	sums, err := os.ReadFile(filepath.Join(root(t), "go.sum")) // what `go mod tidy` would write requires a network
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "go.sum"), sums, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"build", "-mod=mod", "-o", name, "."}, {"test", "-mod=mod", "."}} {
		cmd := exec.Command("go", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOWORK=off")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go %v: %v\n%s", args, err, out)
		}
	}
	return filepath.Join(dir, name)
}

// TestNewGoAndLock checks that a new plugin in Go builds, passes all checks and makes records; that it can be locked;
// and that a change is then refused with the fix.
func TestNewGoAndLock(t *testing.T) {
	binary := newGo(t, "my-pairs")
	t.Setenv("XDG_CACHE_HOME", t.TempDir()) // not earlier: the go command's cache is there too
	conformance.Test(t, conformance.Options{Path: binary})

	configured := []config.Plugin{{Name: "acme", Path: binary}}
	dir := t.TempDir()
	lock, err := ReadLock(dir)
	if err != nil {
		t.Fatal(err)
	}
	spec, err := Spec("acme", configured, lock)
	if err != nil || spec.SHA256 != "" {
		t.Fatal(spec, err)
	}
	p, err := host.Start(t.Context(), spec, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	groups, _, err := Groups(t.Context(), sources, write(t, rows), host.BuilderInfo{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	results, err := host.Build(context.Background(), p, "my_pairs", []byte("{}"), groups)
	if err != nil || len(results[0].Records) != 1 {
		t.Fatal(results, err)
	}
	sum, err := durable.Sum(binary)
	if err != nil {
		t.Fatal(err)
	}
	lock.Add(spec, p, sum, nil)
	if err := lock.Write(); err != nil {
		t.Fatal(err)
	}
	if lock, err = ReadLock(dir); err != nil {
		t.Fatal(err)
	}
	if err := lock.Check("acme", p); err != nil {
		t.Error(err)
	}
	if text, ok := lock.SchemaOf("acme", "my_pairs"); !ok || !strings.Contains(string(text), "min_margin") {
		t.Errorf("%s", text)
	}
	if spec, err = Spec("acme", configured, lock); err != nil || spec.SHA256 != sum {
		t.Error(spec, err)
	}
	lock.Plugins["acme"].Version = "9.9.9"
	if err := lock.Check("acme", p); err == nil || !strings.Contains(err.Error(), "nat-go plugins lock") {
		t.Error(err)
	}
	configured[0].SHA256 = strings.Repeat("0", 64)
	if _, err := Spec("acme", configured, lock); err == nil ||
		!strings.Contains(err.Error(), "correct the wrong one") {
		t.Error(err)
	}
	lock.Plugins["acme"].SHA256 = map[string]string{"plan9/mips": sum}
	if _, err := Spec("acme", configured, lock); err == nil || !strings.Contains(err.Error(), "no checksum") {
		t.Error(err)
	}
}

// TestNewPython checks that a new plugin in Python is the example under another name: fewer than 40 lines including its
// test and its project file, and sound.
func TestNewPython(t *testing.T) {
	dir, err := New(t.TempDir(), "my-best", "python", "", "")
	if err != nil {
		t.Fatal(err)
	}
	lines := 0
	for file, want := range map[string]string{
		"my_best.py": `name="my_best"`, "test_my_best.py": "from my_best import",
		"pyproject.toml": `nat-go-builder-my-best = "my_best:main"`, "README.md": "my-best/my_best",
	} {
		t.Run(file, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join(dir, file))
			if err != nil || !strings.Contains(string(text), want) || strings.Contains(string(text), "best_of_n") {
				t.Errorf("%s: %v", file, err)
			}
			for line := range strings.Lines(string(text)) {
				if file != "README.md" && strings.TrimSpace(line) != "" {
					lines++
				}
			}
		})
	}
	if lines >= 40 {
		t.Errorf("it has %d lines", lines)
	}
	sdk := filepath.Join(root(t), "plugins", "python")
	python := pythontest.Builders(t, filepath.Join(sdk, "tests", "builders", "requirements.txt"))
	// The script that pip would write for it.
	script := filepath.Join(dir, "nat-go-builder-my-best")
	text := fmt.Sprintf("#!%s\nimport sys; sys.dont_write_bytecode = True; sys.path[:0] = [%q]\nimport my_best; my_best.main()\n",
		python, sdk)
	if err := os.WriteFile(script, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	spec := host.Spec{Name: "my-best", Path: script, StartTimeout: time.Minute}
	conformance.Test(t, conformance.Options{Path: script, StartTimeout: time.Minute})
	p, err := host.Start(t.Context(), spec, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	groups, _, err := Groups(t.Context(), sources, write(t, rows), host.BuilderInfo{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	results, err := host.Build(context.Background(), p, "my_best", []byte("{}"), groups)
	if err != nil || len(results[0].Records) != 1 {
		t.Fatal(results, err)
	}
}

func TestNewRefuses(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"", "../x", "A", "a/b", "-x", "x y"} {
		if _, err := New(dir, name, "go", "", ""); err == nil {
			t.Errorf("%q was accepted", name)
		}
	}
	if _, err := New(dir, "x", "go", "", "v1.0.0"); err != nil {
		t.Fatal(err)
	}
	if _, err := New(dir, "x", "go", "", ""); err == nil || !strings.Contains(err.Error(), "exists already") {
		t.Error(err)
	}
}

func TestFind(t *testing.T) {
	home, onPath := t.TempDir(), t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", home)
	t.Setenv("PATH", onPath)
	folder := filepath.Join(home, "nat-go", "plugins")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	for path, mode := range map[string]os.FileMode{
		filepath.Join(folder, "nat-go-builder-one"):   0o755,
		filepath.Join(folder, "two"):                  0o755,
		filepath.Join(onPath, "nat-go-builder-two"):   0o755,
		filepath.Join(onPath, "nat-go-builder-three"): 0o755,
		filepath.Join(onPath, "nat-go-builder-four"):  0o644,
		filepath.Join(onPath, "other"):                0o755,
	} {
		if err := os.WriteFile(path, nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	for name, via := range map[string]string{
		"one":    "plugin folder",
		"two":    "plugin folder",
		"three":  "PATH",
		"four":   "",
		"other":  "",
		"../one": "",
	} {
		t.Run(name, func(t *testing.T) {
			found, err := Find(name, "")
			if found.Via != via || (err == nil) != (via != "") {
				t.Errorf("%s: %+v %v", name, found, err)
			}
		})
	}
	if found, err := Find("one", "./mine"); err != nil || found.Path != "./mine" {
		t.Error(found, err)
	}
	var names []string
	for _, f := range Installed() {
		names = append(names, f.Name)
	}
	if got := strings.Join(names, " "); got != "one three two" {
		t.Error(got)
	}
}

func TestReadLockRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"version: 7\n":                 "version 7",
		"verzion: 1\n":                 "can't be read",
		"version: 1\nplugins: {a: }\n": "is empty",
		"[":                            "can't be read",
	} {
		t.Run(text, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, lockFile), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := ReadLock(dir); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%q: %v", text, err)
			}
		})
	}
}
